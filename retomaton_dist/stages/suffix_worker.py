"""The worker of the stage `suffix/NAME`: checks the corpus; sends contexts and orders them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.sorting import Keys, Order, Sorter, key_order, ranges_of
from retomaton_dist.stages.columns import ColumnsWorker, ColumnUnit
from retomaton_dist.stages.runner import Done
from retomaton_dist.storage.corpus import DOCUMENTS, TOKENS
from retomaton_dist.storage.exchange import Exchange, Records, Slice
from retomaton_dist.storage.guarded import GuardedReader

if TYPE_CHECKING:
    from retomaton_dist.stages.suffix import SuffixPlan

# Entries of a run that 16 bits tell apart.
BLOCK = 1 << 16


@dataclass(frozen=True, kw_only=True)
class SentContexts(Exchange):
    """Contexts on their way from ranges of entries to ranges of contexts.

    Runs are consecutive entries, `sender_entries` of each sender. So of an entry only its number
    within a block is sent, and each range has a destination per block: the exchange's tables say
    where blocks begin. What is read are records of type `whole`.
    """

    sender_entries: int
    whole: np.dtype[Any]

    @property
    def blocks(self) -> int:
        """Blocks of a run."""
        return -(-self.most // BLOCK)

    def read(self, slices: Iterable[Slice]) -> Iterator[Records]:
        """The records of some slices, with the numbers of their entries."""
        for part in slices:
            first = part.sender * self.sender_entries + part.run * self.most
            blocks = np.repeat(np.arange(len(part.counts)), part.counts)
            for sent in super().read([part]):
                records = np.empty(len(sent), self.whole)
                records["entry"] = first + blocks * BLOCK + sent["low"]
                records["key"] = sent["key"]
                yield records


class SuffixWorker(ColumnsWorker):
    """Fills ranges of a suffix index's columns; ranges of contexts begin at `splitters`."""

    def __init__(self, plan: "SuffixPlan", splitters: Keys) -> None:
        super().__init__(plan)
        self._plan, self._splitters = plan, splitters
        self._sent = SentContexts(
            folder=plan.parts / "sent",
            record=np.dtype([("low", np.uint16), plan.record.descr[1]]),
            senders=-(-plan.shape.entries // plan.range_size),
            destinations=plan.ranges * -(-plan.most // BLOCK),
            most=plan.most,
            traffic=self.traffic,
            sender_entries=plan.range_size,
            whole=plan.record,
        )

    def check(self, unit: ColumnUnit) -> None:  # noqa: ARG002 - the whole corpus
        """Refuse a corpus whose bytes are not those that were written."""
        GuardedReader(self._plan.store).check_files("tokenize", (TOKENS, DOCUMENTS))
        listed = self._plan.store.stage("tokenize").files
        self.traffic.read += sum(listed[name].bytes for name in (TOKENS, DOCUMENTS))

    def send(self, unit: ColumnUnit) -> None:
        """The token before each of some entries; their contexts go to their ranges."""
        size = self._plan.most
        firsts = range(unit.first, unit.last, size)
        runs = (self._read_contexts(first, min(first + size, unit.last)) for first in firsts)
        self._sent.send(unit.number, map(self._addressed, runs))

    def _read_contexts(self, first: int, last: int) -> Keys:
        """Contexts of the entries first..last-1; the tokens before them are filled."""
        before, keys = self._plan.contexts(first, last)
        self.fill("before", first, self.counted(before))
        return keys

    def _addressed(self, keys: Keys) -> tuple[NDArray[Any], Records]:
        """A run of contexts with the destinations of their ranges and blocks."""
        block, low = np.divmod(np.arange(len(keys)), BLOCK)
        records = np.empty(len(keys), self._sent.record)
        records["low"], records["key"] = low, keys
        return ranges_of(keys, self._splitters) * np.int64(self._sent.blocks) + block, records

    def order(self, unit: ColumnUnit) -> Done:
        """The entries of a range of contexts, in order, and how many of them follow each token."""
        plan, place = self._plan, 0
        counts = np.zeros(plan.shape.vocabulary + 1, np.int64)
        if plan.ranges == 1:
            # Everything fits in memory, and was not sent.
            every = np.empty(plan.shape.entries, plan.record)
            every["entry"], every["key"] = np.arange(len(every)), self._read_contexts(0, len(every))
            pieces = iter([(every, _order(every))])
        else:
            blocks = self._sent.blocks
            found = self._sent.slices(unit.first * blocks, unit.last * blocks)
            place = sum(part.before for part in found)
            sorter = Sorter(plan.record, _keys, _order, plan.most, self.scratch)
            pieces = sorter.pieces(self._sent, found)
        for records, order in pieces:
            self.fill("order", place, records["entry"][order])
            counts += np.bincount(self._latest(records), minlength=len(counts))
            place += len(order)
        tokens = np.flatnonzero(counts)
        return Done(facts={"tokens": tokens.tolist(), "counts": counts[tokens].tolist()})

    def _latest(self, records: Records) -> NDArray[np.int64]:
        """The latest token of each context, counted from 1."""
        bits = self._plan.bits
        latest = records["key"][:, 0] >> np.uint64(bits * (64 // bits - 1))
        return latest.astype(np.int64)


def _keys(records: Records) -> Keys:
    return np.ascontiguousarray(records["key"])


def _order(records: Records) -> Order:
    return key_order(_keys(records))
