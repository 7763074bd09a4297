"""The stage `suffix/NAME`: entries in the order of the tokens before them, ready to be mapped.

Three rounds of units, each over what the round before has finished:

    check    the corpus: are its bytes sound?
    send     entries first..last-1: the token before each; send their contexts to the ranges of
             contexts that they lie in                                        -> before
    order    ranges of contexts: sort what was sent                           -> order

Ranges are cut by a sample of contexts. What is sent goes through files (`storage/exchange.py`):
every byte is read and written a fixed number of times. A unit holds at most `unit_entries` entries
and UNIT_BYTES in memory, whatever N and the commonest context are. No key is read, and no model.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from retomaton_dist.automaton.contexts import (
    Before,
    context_keys,
    first_tokens,
    key_words,
    token_bits,
)
from retomaton_dist.automaton.sorting import Keys, choose_splitters
from retomaton_dist.errors import DamagedStore
from retomaton_dist.settings import BuildSettings, SuffixSettings
from retomaton_dist.stages.columns import ColumnsPlan, ColumnUnit, cut
from retomaton_dist.stages.cost import StageEstimate, Work, columns_bytes
from retomaton_dist.stages.runner import Done, run_stage
from retomaton_dist.stages.stage import BuildStage, Running
from retomaton_dist.stages.suffix_worker import SuffixWorker
from retomaton_dist.storage import columns, exchange
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.corpus import TOKENS, Corpus
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.suffixes import SUFFIXES, SuffixShape

# Of an entry whose place among contexts is being found.
SORTING_BYTES = 80
# Of entries with their contexts, in a unit.
UNIT_BYTES = 256 << 20
# Contexts that are looked at for each range, and how many of them lie side by side.
SAMPLED, SAMPLED_BLOCK = 256, 64
SEED = 1


class SuffixStage(BuildStage):
    """Entries by the tokens before them."""

    keys = False
    needs = "tokenize"

    def run(self, running: Running) -> None:
        """Order what is missing."""
        plan = SuffixPlan(running.store, running.settings.of(SuffixSettings))
        run_stage(running.writer, plan, running.session)

    def estimate(self, settings: BuildSettings, work: Work) -> list[StageEstimate]:
        """The corpus is checked and read; contexts are sent to their ranges and sorted there."""
        chosen, entries, rates = settings.of(SuffixSettings), work.shape.entries, work.rates
        columns_made = SuffixShape(entries, work.vocabulary, chosen.longest).columns()
        disk = columns_bytes(columns_made)
        words = key_words(chosen.longest, token_bits(work.vocabulary))
        record = columns_made["order"][0].itemsize + 8 * words
        most = min(chosen.unit_entries, UNIT_BYTES // record, entries)
        unit = max(most, entries / exchange.MOST_DESTINATIONS)
        sent = entries * (2.0 + 8 * words) if entries > most else 0.0
        # Ranges that do not fit in memory are divided once more, which is no part of what stays.
        divided = float(entries * record) if unit > most else 0.0
        return [
            StageEstimate(
                stage="suffix",
                makes=f"suffixes/{chosen.name}: {disk / entries:.0f} bytes per entry",
                disk=disk,
                memory=work.memory(float(SORTING_BYTES + 2 * record) * most),
                workers=work.workers,
                core_seconds=entries / rates.ordered
                + 2 * (sent + divided) / rates.swept
                + (sent + divided + disk) / rates.hashed,
                alone=8.0 * entries / rates.hashed,
                unit=max(8.0 * entries / rates.hashed, unit / rates.ordered),
                reads=12.0 * entries + disk + 2 * divided,
                scratch=sent,
            )
        ]


@dataclass(frozen=True)
class SuffixPlan(ColumnsPlan):
    """A corpus, and the suffix index that it is to have."""

    settings: SuffixSettings

    kinds = ("check", "send", "order")

    @property
    def name(self) -> str:
        """After the index."""
        return f"suffix/{self.settings.name}"

    @cached_property
    def config(self) -> Json:
        """The corpus by its contents, and the settings."""
        return {
            "corpus": self.store.stage("tokenize").digest,
            "longest": self.settings.longest,
            "unit_entries": self.settings.unit_entries,
        }

    @cached_property
    def corpus(self) -> Corpus:
        """Whose tokens are looked up."""
        return self.store.corpus()

    @cached_property
    def shape(self) -> SuffixShape:
        """Sizes of the index."""
        return SuffixShape(self.corpus.entries, self.corpus.vocabulary, self.settings.longest)

    @property
    def folder(self) -> Path:
        """Where the index lies."""
        return SUFFIXES.path(self.store.path, self.settings.name)

    def filled(self) -> dict[str, tuple[Any, int]]:
        """The entries in order, and the token before each."""
        kinds = self.shape.columns()
        return {name: kinds[name] for name in ("order", "before")}

    @property
    def bits(self) -> int:
        """Of a token in a context's key."""
        return token_bits(self.shape.vocabulary)

    @cached_property
    def record(self) -> np.dtype[Any]:
        """An entry and its context."""
        words = key_words(self.shape.longest, self.bits)
        return np.dtype([("entry", self.shape.columns()["order"][0]), ("key", np.uint64, (words,))])

    @property
    def most(self) -> int:
        """Entries that a unit has in memory."""
        return min(self.settings.unit_entries, max(1, UNIT_BYTES // self.record.itemsize))

    @property
    def range_size(self) -> int:
        """Entries of a unit: more than are in memory if there are very many."""
        return max(self.most, -(-self.shape.entries // exchange.MOST_DESTINATIONS))

    @property
    def ranges(self) -> int:
        """Ranges of contexts: one, or such that most of them fit in memory."""
        entries = self.shape.entries
        return 1 if entries <= self.most else -(-entries // int(0.75 * self.range_size + 1))

    @cached_property
    def units(self) -> list[ColumnUnit]:
        """All units, round by round."""
        entries, ranges = self.shape.entries, self.ranges
        ordered = [
            ColumnUnit("order", number, number + 1, entries // ranges, number=number)
            for number in range(ranges)
        ]
        check = ColumnUnit("check", 0, 0, entries)
        # What fits in memory need not be sent.
        sent = cut("send", entries, self.range_size) if ranges > 1 else []
        return [check, *sent, *ordered]

    def splitters(self) -> Keys:
        """The contexts at which ranges begin, but for the first one: the same in every run."""
        if self.ranges == 1:
            return np.empty((0, key_words(self.shape.longest, self.bits)), np.uint64)
        blocks = -(-self.shape.entries // SAMPLED_BLOCK)
        wanted = min(blocks, -(-SAMPLED * self.ranges // SAMPLED_BLOCK))
        drawn = np.random.default_rng(SEED).choice(blocks, wanted, replace=False)
        firsts = (np.sort(drawn) * SAMPLED_BLOCK).tolist()
        lasts = (min(first + SAMPLED_BLOCK, self.shape.entries) for first in firsts)
        keys = [self.contexts(*bounds)[1] for bounds in zip(firsts, lasts, strict=True)]
        return choose_splitters(np.concatenate(keys), self.ranges - 1)

    def contexts(self, first: int, last: int) -> tuple[Before, Keys]:
        """The token before each of the entries first..last-1, and the key of its context."""
        begin = max(0, first - self.shape.longest + 1)
        before = self.corpus.before(begin, last)
        if first_tokens(before).max(initial=0) > self.shape.vocabulary:
            raise DamagedStore(
                f"{self.store.path / TOKENS}: a token is outside 0..{self.shape.vocabulary - 1}"
            )
        keys = context_keys(before, first - begin, self.shape.longest, self.bits)
        return before[first - begin :], keys

    def worker(self) -> Callable[[], SuffixWorker]:
        """Fills ranges of the columns."""
        return partial(SuffixWorker, self, self.splitters())

    def finish(self, units: Sequence[Record]) -> Done:
        """Write where tokens start, move the filled columns into place, and describe them."""
        counts = np.zeros(self.shape.vocabulary + 1, np.int64)
        for unit, record in zip(self.units, units, strict=True):
            if unit.kind == "order":
                tokens, found = (record.facts[name] for name in ("tokens", "counts"))
                counts[np.array(tokens, np.int64)] += np.array(found, np.int64)
        starts = np.cumsum(counts).astype(self.shape.columns()["starts"][0])
        path = self.folder / "starts.arrow"
        written = {"starts": columns.write_columns(path, {"starts": starts}), **self.in_place()}
        files = SUFFIXES.describe(self.folder, self.shape, written)
        total = sum(digest.bytes for digest in written.values())
        facts = {**asdict(self.shape), "bytes_per_entry": total / self.shape.entries}
        return Done(files, {**facts, **self.traffic(units, written)})
