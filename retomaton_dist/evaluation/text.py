"""The evaluated text: tokenised as the store's corpus was, in a store of its own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from retomaton_dist.corpus.documents import Text, read_documents
from retomaton_dist.corpus.sources import Source
from retomaton_dist.errors import BadInput, CorpusError
from retomaton_dist.evaluation.prepare import Prepared
from retomaton_dist.lm.identity import ModelSpec
from retomaton_dist.lm.tokenizer import Tokenizer
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import CorpusSettings, TokenizeSettings
from retomaton_dist.stages.runner import run_stage
from retomaton_dist.stages.tokenize import TokenizePlan, plan_tokenize
from retomaton_dist.storage.corpus import Corpus
from retomaton_dist.storage.store import Store, StoreWriter


@dataclass(frozen=True)
class TextPlan:
    """A text that was found and fingerprinted, but not yet written anywhere."""

    planned: TokenizePlan

    @property
    def sources(self) -> list[Source]:
        """Its files."""
        return self.planned.sources

    def tokenize(self, writer: StoreWriter, session: Session) -> Corpus:
        """Tokenise it into a store of its own, or do what is missing of that."""
        run_stage(writer, self.planned, session)
        return Store.open(writer.path.resolve()).corpus()

    def documents(self) -> Iterator[tuple[Source, Text]]:
        """Its documents with their sources, read one after the other."""
        for unit in self.planned.units:
            for source, piece in unit:
                for text in read_documents(source, piece, self.planned.reader.split):
                    yield source, text

    def words(self, corpus: Corpus, documents: list[int]) -> int:
        """Words of these documents in their sources; the end of a document counts as one."""
        found = (corpus[number] for number in documents)
        wanted = {(document.source, document.offset) for document in found}
        total = sum(
            len(text.text.split())
            for source, text in self.documents()
            if (source.path, text.offset) in wanted
        )
        return total + (len(documents) if self.planned.reader.end is not None else 0)


def plan_text(flag: str, paths: tuple[str, ...], folder: Path, prepared: Prepared) -> TextPlan:
    """Find a text and cut it as the store's corpus was cut, unless told otherwise.

    It will be tokenised into `folder`. A text of blanks is refused.
    """
    settings, config = prepared.settings, prepared.store.stage("tokenize").config
    identified = prepared.outlined.spec, prepared.tokenizer
    split = settings.split or config["split"]
    return find_text(flag, paths, folder, identified, split, settings.field, config["end"])


def find_text(
    flag: str,
    paths: tuple[str, ...],
    folder: Path,
    identified: tuple[ModelSpec, Tokenizer],
    split: str,
    field: str,
    end: int | None,
) -> TextPlan:
    """Find a text and cut it; documents end with a token if the corpus's do (`end`)."""
    chosen = CorpusSettings(corpus=paths, split=split, field=field)
    ending = TokenizeSettings(end="none" if end is None else "eos")
    try:
        planned = plan_tokenize(folder, chosen, identified, ending)
    except CorpusError as error:
        raise BadInput(str(error).replace("--corpus", flag)) from error
    plan = TextPlan(planned)
    if not any(text.text.strip() for _, text in plan.documents()):
        raise BadInput(f"{flag} {' '.join(paths)}: there is no token in it, only blanks")
    return plan


def digests_of(text: TextPlan) -> dict[str, str]:
    """The files of a text: path by digest."""
    return {source.digest: source.path for source in text.sources}


def check_apart(text: TextPlan, calibration: Mapping[str, str], by: str) -> None:
    """Refuse to evaluate a file that was calibrated on; these are `digests_of` the latter.

    `by` says in the message how that text was named.
    """
    evaluated = digests_of(text)
    for digest, path in calibration.items():
        if digest in evaluated:
            raise BadInput(
                f"{by} {path} has the same contents as {evaluated[digest]}, which is evaluated: "
                f"results would be too good; name other text, or insist with --same-text"
            )
