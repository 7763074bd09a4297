"""The stage `tokenize`: text becomes documents of tokens, each with its place in the source."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from retomaton_dist.corpus.documents import Text, read_documents
from retomaton_dist.corpus.pieces import (
    LONGEST_DOCUMENT,
    Piece,
    Split,
    check_length,
    choose_split,
    plan_units,
)
from retomaton_dist.corpus.sources import Source, changes, find_sources, fingerprint
from retomaton_dist.errors import ConfigMismatch, CorpusError
from retomaton_dist.lm.identity import ModelSpec, load_tokenizer
from retomaton_dist.lm.tokenizer import Tokenizer
from retomaton_dist.settings import BuildSettings, CorpusSettings, TokenizeSettings
from retomaton_dist.stages.cost import StageEstimate, Work
from retomaton_dist.stages.runner import Done, Plan, run_stage
from retomaton_dist.stages.stage import BuildStage, Running
from retomaton_dist.storage import corpus
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.corpus import TokenisedDocument
from retomaton_dist.storage.manifest import ELSEWHERE
from retomaton_dist.storage.pickling import PicklesFieldsOnly
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store, StoreWriter

STAGE = "tokenize"
BATCH_CHARACTERS = 1 << 18
# What the corpus takes on disk: token and offset, and what is kept of a document.
BYTES_PER_TOKEN = 8
BYTES_PER_DOCUMENT = 64
_COUNTS = ("documents", "tokens", "entries", "skipped")

Pieces = list[tuple[Source, Piece]]


@dataclass(frozen=True)
class TextTokenizer(PicklesFieldsOnly):
    """Turns pieces of text into tokenised documents; `end` is the token put behind each of them."""

    split: Split
    end: int | None
    model: ModelSpec

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, loaded where it is used and checked to be the one meant."""
        return load_tokenizer(self.model)

    def read(self, pieces: Pieces) -> tuple[list[TokenisedDocument], int]:
        """Documents that have entries, in order, and how many have none and are skipped."""
        kept: list[TokenisedDocument] = []
        found = 0
        for source, piece in pieces:
            for batch in _batches(read_documents(source, piece, self.split)):
                found += len(batch)
                kept += self._tokenise([text for text in batch if text.text.strip()], piece)
        return kept, found - len(kept)

    def _tokenise(self, texts: list[Text], piece: Piece) -> Iterator[TokenisedDocument]:
        for text in texts:
            # A character has up to four bytes: only then are they worth counting.
            if 4 * len(text.text) > LONGEST_DOCUMENT:
                check_length(text.name, len(text.text.encode()))
        unpredicted = 0 if self.tokenizer.bos is not None else 1
        encoded = self.tokenizer.encode([text.text for text in texts])
        for text, (tokens, offsets) in zip(texts, encoded, strict=True):
            if len(tokens) and self.end is not None:
                tokens = np.append(tokens, np.int32(self.end))
                offsets = np.append(offsets, np.uint32(len(text.text.encode())))
            if len(tokens) > unpredicted:
                length = len(tokens) - unpredicted
                yield TokenisedDocument(
                    text.name, length, piece.source, text.offset, tokens, offsets
                )


@dataclass(frozen=True)
class TokenizePlan(Plan[Pieces]):
    """What is to be tokenised, how, and into which store."""

    store: Path
    sources: list[Source]
    tokenizer: Tokenizer
    reader: TextTokenizer
    unit_bytes: int

    work_name = "bytes"
    merges = True
    undone_by = (CorpusError,)

    @property
    def name(self) -> str:
        """There is one per store."""
        return STAGE

    @property
    def loads(self) -> ModelSpec:  # type: ignore[override]
        """The model whose tokenizer it is."""
        return self.reader.model

    @cached_property
    def config(self) -> Json:
        """The text by its contents, how it is cut, and the tokenizer."""
        split = self.reader.split
        return {
            "corpus": fingerprint(self.sources),
            "split": str(split),
            "field": split.field if split.kind == "record" else None,
            "tokenizer": self.tokenizer.fingerprint,
            "prefix": self.tokenizer.bos,
            "end": self.reader.end,
            "unit_bytes": self.unit_bytes,
        }

    @cached_property
    def units(self) -> list[Pieces]:
        """Pieces of sources."""
        return [
            [(self.sources[piece.source], piece) for piece in unit]
            for unit in plan_units(self.sources, self.reader.split, self.unit_bytes)
        ]

    @cached_property
    def work(self) -> list[float]:
        """Bytes of source in each unit; row groups count as equal shares of their file."""
        pieces = Counter(piece.source for unit in self.units for _, piece in unit)
        return [
            sum(_bytes(source, piece, pieces[piece.source]) for source, piece in unit)
            for unit in self.units
        ]

    def check_begun(self, writer: StoreWriter) -> None:
        """Of another corpus, say which files came, went or changed."""
        stage = writer.manifest.stages.get(STAGE)
        if stage is not None and stage.done and stage.config["corpus"] != self.config["corpus"]:
            before = Store(writer.path, writer.manifest).corpus().sources
            raise ConfigMismatch(
                f"{writer.path} was made from another corpus: {changes(before, self.sources)}. "
                f"Name the same files, or {ELSEWHERE}"
            )
        super().check_begun(writer)

    def worker(self) -> Callable[[], "TokenizeWorker"]:
        """Reads and tokenises pieces."""
        return partial(TokenizeWorker, self.store, self.reader)

    def finish(self, units: Sequence[Record]) -> Done:
        """Join the units' documents and tokens."""
        totals = {name: sum(unit.facts[name] for unit in units) for name in _COUNTS}
        if not totals["entries"]:
            raise CorpusError(
                f"the corpus holds no token to make an entry of: {len(self.sources)} files, "
                f"{totals['skipped']} empty documents"
            )
        files = corpus.merge(self.store, len(units))
        files |= corpus.write_sources(self.store, [asdict(source) for source in self.sources])
        facts = {
            **totals,
            "sources": len(self.sources),
            "source_bytes": sum(source.bytes for source in self.sources),
            "first_source": self.sources[0].path,
            "tokenizer": self.tokenizer.name,
            "prefix": self.tokenizer.bos,
            "vocabulary": self.tokenizer.vocabulary,
        }
        return Done(files, facts)

    def scratch(self) -> Sequence[Path]:
        """The units' parts."""
        return (self.store / corpus.PARTS,)


def plan_tokenize(
    store: Path,
    text: CorpusSettings,
    identified: tuple[ModelSpec, Tokenizer],
    settings: TokenizeSettings,
) -> TokenizePlan:
    """Find and fingerprint the corpus, and cut it into units; nothing is written."""
    model, tokenizer = identified
    sources = find_sources(text.corpus)
    split = choose_split(text.split, text.field, sources)
    end = tokenizer.eos if settings.end == "eos" else None
    reader = TextTokenizer(split, end, model)
    plan = TokenizePlan(store.resolve(), sources, tokenizer, reader, settings.unit_bytes)
    # Cut now: a source that cannot be cut is refused here.
    _ = plan.units
    return plan


class TokenizeStage(BuildStage):
    """Text becomes tokens."""

    def run(self, running: Running) -> None:
        """Tokenise what is missing of the corpus."""
        run_stage(running.writer, running.text.corpus, running.session)

    def estimate(self, settings: BuildSettings, work: Work) -> list[StageEstimate]:  # noqa: ARG002
        """What it takes was measured, or follows from the size of the text."""
        disk = corpus_bytes(work)
        return [work.tokenizing.estimate("tokenize", "corpus", disk, work.text_bytes, disk)]


def corpus_bytes(work: Work) -> float:
    """What the stage leaves."""
    return float(BYTES_PER_TOKEN * work.shape.entries + BYTES_PER_DOCUMENT * work.documents)


class TokenizeWorker:
    """Writes the parts of the corpus that units hold."""

    def __init__(self, store: Path, reader: TextTokenizer) -> None:
        self._store, self._reader = store, reader

    def run(self, number: int, payload: Pieces) -> Done:
        """Write the unit's tokens and documents."""
        documents, skipped = self._reader.read(payload)
        files = corpus.write_part(self._store, number, documents)
        facts: Json = {
            "documents": len(documents),
            "tokens": sum(len(document.tokens) for document in documents),
            "entries": sum(document.length for document in documents),
            "skipped": skipped,
        }
        return Done(files, facts)


def _bytes(source: Source, piece: Piece, pieces: int) -> float:
    return source.bytes / pieces if source.kind == "parquet" else piece.stop - piece.start


def _batches(texts: Iterator[Text]) -> Iterator[list[Text]]:
    """Group texts so that one call of the tokenizer has enough, but not too much, to do."""
    batch: list[Text] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text.text)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
