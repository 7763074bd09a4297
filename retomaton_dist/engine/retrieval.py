"""What texts are walked, searched and looked up in; opened where it is used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.artifacts import open_automaton, open_index, open_ngrams, open_suffixes
from retomaton_dist.automaton.automaton import Automaton
from retomaton_dist.automaton.ngrams import NGrams
from retomaton_dist.automaton.suffixes import Matches, Suffixes
from retomaton_dist.engine.walks import WalkSpec
from retomaton_dist.runtime.search_service import SearchService
from retomaton_dist.search.searcher import Searcher, open_searcher
from retomaton_dist.settings import WalkSettings
from retomaton_dist.storage.checked import check_stage
from retomaton_dist.storage.pickling import PicklesFieldsOnly
from retomaton_dist.storage.store import Store


@dataclass(frozen=True)
class Retrieval(PicklesFieldsOnly):
    """Names of automata and indexes of a store, and how they are used; can be sent to workers.

    Without `index` nothing is searched, without `suffixes` nothing looked up, without `ngrams` no
    n-gram model asked; `cache` is whether documents' own n-grams are.
    """

    store: Path
    automata: tuple[str, ...]
    index: str | None
    suffixes: str | None
    parameters: str | None
    served: bool
    settings: WalkSettings
    threads: int
    verify: bool = True
    ngrams: str | None = None
    cache: bool = False

    @cached_property
    def opened(self) -> "OpenRetrieval":
        """All of it, opened."""
        return OpenRetrieval(
            self.settings, self.open_automata, self.searcher, self.suffix_index, self.threads
        )

    @cached_property
    def open_automata(self) -> dict[str, Automaton]:
        """The automata, by name."""
        store = Store.open(self.store)
        return {name: open_automaton(store, name, verify=self.verify) for name in self.automata}

    @cached_property
    def searcher(self) -> Searcher | None:
        """The search index, or None."""
        if self.index is None:
            return None
        store, verify = Store.open(self.store), self.verify and not self.served
        opened = open_index(store, self.index, verify=verify)
        if self.served:
            return SearchService.connect(opened)
        return open_searcher(opened, self.parameters)

    @cached_property
    def suffix_index(self) -> Suffixes | None:
        """The suffix index, or None."""
        if self.suffixes is None:
            return None
        return open_suffixes(Store.open(self.store), self.suffixes, verify=self.verify)

    @cached_property
    def ngram_model(self) -> NGrams | None:
        """The n-gram model, or None."""
        if self.ngrams is None:
            return None
        return open_ngrams(Store.open(self.store), self.ngrams, verify=self.verify)

    def check(self) -> None:
        """Refuse what was altered, before anything is opened or written.

        A search service checks its own shards.
        """
        stages = [f"compile/{name}" for name in self.automata]
        if self.suffixes is not None:
            stages.append(f"suffix/{self.suffixes}")
        if self.ngrams is not None:
            stages.append(f"ngram/{self.ngrams}")
        if self.index is not None and not self.served:
            stages.append(f"index/{self.index}")
        for stage in stages:
            check_stage(Store.open(self.store), stage)


@dataclass(frozen=True)
class OpenRetrieval:
    """Automata of one codec, perhaps a search index and a suffix index, and the walk's settings."""

    settings: WalkSettings
    automata: Mapping[str, Automaton]
    searcher: Searcher | None = None
    suffixes: Suffixes | None = None
    threads: int = 1

    def neighbours(self, specs: Sequence[WalkSpec]) -> int:
        """How many entries a search must find to serve all these walks."""
        return max(
            spec.neighbours(self.settings, self.automata[spec.automaton].entries) for spec in specs
        )

    def search(self, queries: NDArray[np.float16], count: int) -> NDArray[np.int64]:
        """The `count` entries nearest to each query, [queries, count]."""
        assert self.searcher is not None, "walks that search are given an index"
        return self.searcher.search_more(queries, min(self.settings.k, count), count)[1]

    def look_up(self, recent: NDArray[np.int32], which: NDArray[np.bool_]) -> Matches:
        """What follows the longest suffixes of these rows in the corpus; of the others, nothing.

        `recent` are the last tokens, the latest first. At a document's start all that precedes is
        known: it matches the starts of the corpus's documents in full.
        """
        rows, k = len(recent), self.settings.k
        if self.suffixes is None or not which.any():
            entries, lengths = np.full((rows, 1), -1), np.zeros(rows, np.int32)
            return Matches(entries, lengths, np.zeros(rows, np.int64))
        matches = self.suffixes.look_up(np.where(which[:, None], recent, -1), k)
        starting = which & (recent[:, 0] < 0)
        if starting.any() and len(first := self._document_starts):
            matches.entries[starting, : len(first)] = first
            matches.lengths[starting] = self.suffixes.longest
            matches.counts[starting] = len(first)
        return matches

    @cached_property
    def _document_starts(self) -> NDArray[np.int64]:
        """Entries that nothing precedes, k at most, evenly spaced over the corpus."""
        assert self.suffixes is not None
        columns = self.suffixes.columns
        first = columns.order[: int(columns.starts[0])].astype(np.int64)
        first = first[first < self.suffixes.entries]
        count = min(self.settings.k, len(first))
        evenly = (2 * np.arange(count) + 1) * len(first) // (2 * count or 1)
        chosen: NDArray[np.int64] = first[evenly]
        return chosen
