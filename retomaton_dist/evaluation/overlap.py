"""The stage `overlap` of a text: what its documents share with the corpus, found once and kept.

The corpus is read once, in units, by the session's workers. Every n-gram of the text is looked for
at the same time; what is kept says all that the report and the search for duplicates need, so that
neither reads the corpus for it again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.analysis import ngrams
from retomaton_dist.analysis.documents import TokensByDocument, document_at
from retomaton_dist.analysis.duplicates import Mask, SoughtDocuments
from retomaton_dist.analysis.ngrams import LONGEST, GramHits, SoughtText
from retomaton_dist.stages.runner import Done
from retomaton_dist.stages.stretches import StretchPlan, StretchWorker
from retomaton_dist.storage import canonical, columns
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.checked import check_stage
from retomaton_dist.storage.errors import NotAStore
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store

STAGE = "overlap"
UNIT_TOKENS = 1 << 23
TOKEN_COLUMNS = {"matched": np.int32, "frequency": np.int64}
DOCUMENT_COLUMNS = {"document": np.int64, "same": np.uint8}
Named = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class ChosenText:
    """Some documents of a text's store."""

    store: Store
    documents: Sequence[int]

    @property
    def tokens(self) -> TokensByDocument:
        """All tokens of these documents."""
        return TokensByDocument.of_documents(self.store.corpus(), self.documents)

    @property
    def digest(self) -> Json:
        """What it depends on."""
        chosen = canonical.content_hash(list(self.documents))
        return {"tokens": self.store.stage("tokenize").digest, "documents": chosen}


@dataclass(frozen=True)
class OverlapPlan(StretchPlan):
    """The store whose corpus is searched for what some documents of a text share with it."""

    text: ChosenText

    work_name = "tokens"

    @property
    def name(self) -> str:
        """There is one per text."""
        return STAGE

    @cached_property
    def config(self) -> Json:
        """The documents and the corpus by their contents."""
        corpus = self.store.stage("tokenize").digest
        return {**self.text.digest, "corpus": corpus, "longest": LONGEST}

    @property
    def stretches(self) -> tuple[int, int]:
        """All tokens."""
        return len(self.store.corpus().tokens), UNIT_TOKENS

    def worker(self) -> Callable[[], "OverlapWorker"]:
        """Looks for what the text has; a text that was altered is refused."""
        check_stage(self.text.store, "tokenize")
        return partial(OverlapWorker, self)

    @cached_property
    def grams(self) -> SoughtText:
        """The n-grams that are looked for."""
        return SoughtText(self.text.tokens)

    @property
    def folder(self) -> Path:
        """Where the finding lies."""
        return self.text.store.path / STAGE

    def finish(self, units: Sequence[Record]) -> Done:
        """Join what units have found, and say it of every token and document of the text."""
        met, same = self.grams.nothing(), np.zeros(len(self.text.documents), np.bool_)
        for unit in range(1, len(units)):
            part = read_part(self.folder / "parts", unit, met, len(same))
            met.add(part[0])
            same |= part[1]
        tokens: Named = {
            "matched": self.grams.matched(met),
            "frequency": self.grams.frequency(met),
        }
        documents = np.asarray(self.text.documents, np.int64)
        named: dict[str, Named] = {
            "tokens": tokens,
            "documents": {"document": documents, "same": same.astype(np.uint8)},
        }
        files = {
            f"{STAGE}/{name}.arrow": columns.write_columns(self.folder / f"{name}.arrow", columned)
            for name, columned in named.items()
        }
        return Done(files, {"tokens": len(tokens["matched"]), "documents": len(documents)})

    def scratch(self) -> Sequence[Path]:
        """What units have found."""
        return (self.folder / "parts",)


class OverlapWorker(StretchWorker):
    """Looks for a text's n-grams and documents in stretches of the corpus."""

    def __init__(self, plan: OverlapPlan) -> None:
        super().__init__(plan.store)
        self._plan = plan

    @cached_property
    def _documents(self) -> SoughtDocuments:
        return SoughtDocuments(self._plan.text.tokens)

    def read(self, number: int, stretch: range) -> Done:
        """Look through the unit's tokens, and the documents that begin there."""
        grams, total = self._plan.grams, len(self.corpus.tokens)
        met = grams.nothing()
        for first in range(stretch.start, stretch.stop, ngrams.BLOCK_TOKENS):
            last = min(first + ngrams.BLOCK_TOKENS, stretch.stop)
            reached = min(last + LONGEST, total)
            grams.look(TokensByDocument.of_stretch(self.corpus, first, reached), last - first, met)
        begun = range(*(self._begun(place) for place in (stretch.start, stretch.stop)))
        same = self._documents.look(self.corpus, begun.start, begun.stop)
        files = write_part(self._plan.folder / "parts", number, met, same)
        return Done({f"{STAGE}/parts/{name}": digest for name, digest in files.items()})

    def _begun(self, place: int) -> int:
        """How many documents begin before a token."""
        return document_at(self.corpus, place - 1) + 1


def write_part(folder: Path, unit: int, met: GramHits, same: Mask) -> dict[str, FileDigest]:
    """Write what a unit has found; return the files, relative to the folder."""
    flags = np.packbits(np.concatenate([met.types, same]))
    named: Named = {
        f"unit-{unit:05d}.met.arrow": flags,
        f"unit-{unit:05d}.counts.arrow": met.counts,
    }
    return {
        name: columns.write_columns(folder / name, {"found": array})
        for name, array in named.items()
    }


def read_part(folder: Path, unit: int, like: GramHits, documents: int) -> tuple[GramHits, Mask]:
    """What `write_part` wrote: of n-grams, as many as in `like`, and of documents."""
    packed = _column(folder / f"unit-{unit:05d}.met.arrow", np.uint8)
    counts = _column(folder / f"unit-{unit:05d}.counts.arrow", np.int64)
    flags = np.unpackbits(packed, count=len(like.types) + documents).astype(np.bool_)
    return GramHits(flags[: len(like.types)], counts), flags[len(like.types) :]


def _column(path: Path, dtype: type) -> NDArray[Any]:
    return columns.map_columns(path, {"found": dtype})["found"]


@dataclass(frozen=True)
class CorpusOverlap:
    """What the stage has found of a text: token by token, and document by document."""

    matched: NDArray[np.int32]
    frequency: NDArray[np.int64]
    documents: NDArray[np.int64]
    same: Mask

    @classmethod
    def of(cls, text: Store) -> "CorpusOverlap":
        """Read it from the text's store, compared with its digests first."""
        if STAGE not in text.manifest.stages or not text.manifest.stages[STAGE].done:
            raise NotAStore(
                f"{text.path} does not say what it shares with the corpus; run the same evaluation "
                f"again: its scores are kept"
            )
        check_stage(text, STAGE)
        folder = text.path / STAGE
        tokens = columns.map_columns(folder / "tokens.arrow", TOKEN_COLUMNS)
        documents = columns.map_columns(folder / "documents.arrow", DOCUMENT_COLUMNS)
        same = documents["same"].astype(np.bool_)
        return cls(tokens["matched"], tokens["frequency"], documents["document"], same)

    def places(
        self, text: Store, document: NDArray[np.int32], position: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """Where evaluated rows are among the tokens."""
        corpus = text.corpus()
        lengths = corpus.lengths[self.documents] + corpus.unpredicted
        firsts = np.cumsum(lengths) - lengths
        numbers = np.searchsorted(self.documents, document)
        found: NDArray[np.int64] = firsts[numbers] + corpus.unpredicted + position
        return found
