"""The evaluated text: tokenised as the store's corpus was, in a store of its own."""

from dataclasses import dataclass

from retomaton_dist.corpus.documents import read_documents
from retomaton_dist.corpus.sources import Source
from retomaton_dist.errors import BadInput
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

    def words(self, corpus: Corpus, documents: list[int]) -> int:
        """Words of these documents in their sources; the end of a document counts as one."""
        found = (corpus[number] for number in documents)
        wanted = {(document.source, document.offset) for document in found}
        split = self.planned.reader.split
        total = sum(
            len(text.text.split())
            for unit in self.planned.plan.units
            for source, piece in unit
            for text in read_documents(source, piece, split)
            if (source.path, text.offset) in wanted
        )
        return total + (len(documents) if self.planned.reader.end is not None else 0)


def plan_text(
    store: Store, paths: tuple[str, ...], split: str | None, field: str, model: ModelSettings
) -> TextPlan:
    """Find a text and cut it as the store's corpus was cut, unless told otherwise.

    Another tokenizer than the store's is refused.
    """
    config = store.stage("tokenize").config
    chosen = CorpusSettings(corpus=paths, split=split or config["split"], field=field)
    end = TokenizeSettings(end="none" if config["end"] is None else "eos")
    planned = tokenizing.plan_tokenize(chosen, model, end)
    if planned.tokenizer.fingerprint != config["tokenizer"]:
        raise BadInput(
            f"the tokenizer of {model.model} is not the one that {store.path} was made with: the "
            f"text would have other tokens; use the store's model"
        )
    return TextPlan(planned)


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
