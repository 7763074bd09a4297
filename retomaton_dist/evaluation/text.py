"""The evaluated text: tokenised as the store's corpus was, in a store of its own."""

from collections.abc import Iterator
from dataclasses import dataclass

from retomaton_dist.corpus.documents import Text, read_documents
from retomaton_dist.corpus.sources import Source
from retomaton_dist.errors import BadInput, CorpusError
from retomaton_dist.runtime.cluster import Session
from retomaton_dist.settings import CorpusSettings, ModelSettings, TokenizeSettings
from retomaton_dist.stages import tokenize as tokenizing
from retomaton_dist.stages.tokenize import TokenizePlan
from storage.corpus import Corpus
from storage.store import Store, StoreWriter


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
        tokenizing.tokenize(writer, self.planned, session)
        return Store.open(writer.path.resolve()).corpus()

    def documents(self) -> Iterator[tuple[Source, Text]]:
        """Its documents with their sources, read one after the other."""
        for unit in self.planned.plan.units:
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


def plan_text(
    flag: str,
    paths: tuple[str, ...],
    split: str | None,
    field: str,
    store: Store,
    model: ModelSettings,
) -> TextPlan:
    """Find a text and cut it as the store's corpus was cut, unless told otherwise.

    Another tokenizer than the store's is refused, and so is a text of blanks.
    """
    config = store.stage("tokenize").config
    chosen = CorpusSettings(corpus=paths, split=split or config["split"], field=field)
    end = TokenizeSettings(end="none" if config["end"] is None else "eos")
    try:
        planned = tokenizing.plan_tokenize(chosen, model, end)
    except CorpusError as error:
        raise BadInput(str(error).replace("--corpus", flag)) from error
    if planned.tokenizer.fingerprint != config["tokenizer"]:
        raise BadInput(
            f"the tokenizer of {model.model} is not the one that {store.path} was made with: the "
            f"text would have other tokens; use the store's model"
        )
    plan = TextPlan(planned)
    if not any(text.text.strip() for _, text in plan.documents()):
        raise BadInput(f"{flag} {' '.join(paths)}: there is no token in it, only blanks")
    return plan


def check_apart(text: TextPlan, calibration: TextPlan) -> None:
    """Refuse to calibrate on a file that is evaluated."""
    evaluated = {source.digest: source.path for source in text.sources}
    for source in calibration.sources:
        if source.digest in evaluated:
            raise BadInput(
                f"--calibrate-on {source.path} has the same contents as {evaluated[source.digest]}"
                f", which is evaluated: results would be too good; name other text, or insist "
                f"with --same-text"
            )
