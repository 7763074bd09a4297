"""The worker of the stage `score`: reads, searches and walks groups of documents."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.artifacts import open_automaton, open_index, open_suffixes
from retomaton_dist.automaton.automaton import Automaton
from retomaton_dist.automaton.suffixes import Suffixes
from retomaton_dist.evaluation.possible import check_columns
from retomaton_dist.evaluation.reading import DocumentBlock, Rows, Slab, TextReader, blocks, slabs
from retomaton_dist.evaluation.walking import BlockWalk, Find, most_neighbours
from retomaton_dist.runtime.search_service import SearchService
from retomaton_dist.scores.reading import Reading
from retomaton_dist.scores.walks import Gate, Walked, WalkSpec
from retomaton_dist.search.searcher import Searcher, open_searcher
from retomaton_dist.settings import WalkSettings
from retomaton_dist.stages.runner import Done
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.checked import check_stage
from retomaton_dist.storage.pickling import PicklesFieldsOnly
from retomaton_dist.storage.scores import ScoreWriter
from retomaton_dist.storage.store import Store

CAPS = ("states", "candidates", "empty")
PARTS = ("lm", "search", "walk")

Caps = Counter[str]
ScoreUnit = tuple[int, list[int]]
"""Which pass, and the documents to score by it."""


@dataclass(frozen=True)
class Pass:
    """One way through the text. A live pass searches only what its walks ask for."""

    name: str
    specs: tuple[WalkSpec, ...]
    live: bool = False
    gate: Gate | None = None


@dataclass(frozen=True)
class Retrieval(PicklesFieldsOnly):
    """What is walked, searched and looked up in; opened where it is used, shared by all who do.

    Without `index` nothing is searched, without `suffixes` nothing looked up.
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

    @cached_property
    def opened(self) -> dict[str, Automaton]:
        """The automata, by name."""
        store = Store.open(self.store)
        return {name: open_automaton(store, name, verify=self.verify) for name in self.automata}

    @cached_property
    def searcher(self) -> Searcher | None:
        """The search index, if there is need of one."""
        if self.index is None:
            return None
        store, verify = Store.open(self.store), self.verify and not self.served
        opened = open_index(store, self.index, verify=verify)
        if self.served:
            return SearchService.connect(opened)
        return open_searcher(opened, self.parameters)

    @cached_property
    def suffix_index(self) -> Suffixes | None:
        """The suffix index, if there is need of one."""
        if self.suffixes is None:
            return None
        return open_suffixes(Store.open(self.store), self.suffixes, verify=self.verify)

    def check(self) -> None:
        """Refuse what was altered, before anything is opened or written.

        A service checks its own shards.
        """
        stages = [f"compile/{name}" for name in self.automata]
        if self.suffixes is not None:
            stages.append(f"suffix/{self.suffixes}")
        if self.index is not None and not self.served:
            stages.append(f"index/{self.index}")
        for stage in stages:
            check_stage(Store.open(self.store), stage)

    def block(self, specs: Sequence[WalkSpec], block: DocumentBlock) -> BlockWalk:
        """Lanes for a block of documents."""
        shape = block.documents, block.lengths
        return BlockWalk(self.opened, specs, self.settings, *shape, self.suffix_index, self.threads)


@dataclass(frozen=True)
class ScoreJob:
    """What a worker needs: the text, what is walked, and what is written down."""

    reader: TextReader
    retrieval: Retrieval
    passes: tuple[Pass, ...]
    temperatures: tuple[float, ...]
    keeps_queries: bool


class Stopwatch:
    """Seconds by part; a part inside another counts for itself alone."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys((*PARTS, "rest"), 0.0)
        self._part, self._since = "rest", time.perf_counter()

    @contextlib.contextmanager
    def timing(self, part: str) -> Iterator[None]:
        """Have what happens in the block count for `part`."""
        before = self._switch(part)
        try:
            yield
        finally:
            self._switch(before)

    def stop(self) -> dict[str, float]:
        """Seconds of every part until now, and their sum."""
        self._switch(self._part)
        return {**self.seconds, "total": sum(self.seconds.values())}

    def _switch(self, part: str) -> str:
        now, before = time.perf_counter(), self._part
        self.seconds[before] += now - self._since
        self._part, self._since = part, now
        return before


class ScoreWorker:
    """Writes the scores of units: pairs of a pass and the documents to score by it."""

    def __init__(self, job: ScoreJob) -> None:
        self._job = job
        # Loaded now, so that no unit's seconds count it.
        _ = job.reader.lm, job.retrieval.opened
        _ = job.retrieval.searcher, job.retrieval.suffix_index

    def run(self, number: int, payload: ScoreUnit) -> Done:
        """Score the unit's documents; count, and say where the time went."""
        which, documents = payload
        chosen, corpus = self._job.passes[which], self._job.reader.corpus
        path = f"scores/{chosen.name}/unit-{number:05d}.parquet"
        watch, positions = Stopwatch(), 0
        caps: Caps = Counter()
        with ScoreWriter(corpus.store / path, self._facts(chosen)) as writer:
            for block in blocks(documents, corpus.lengths):
                for columns in self.scored(chosen, block, watch, caps):
                    writer.write(columns)
                    positions += len(columns["token"])
        seconds = watch.stop()
        facts = {"pass": which, "positions": positions, "seconds": seconds, "caps": dict(caps)}
        return Done({path: writer.result}, facts, seconds)

    def _facts(self, chosen: Pass) -> Json:
        walks = [spec.label for spec in chosen.specs]
        return {"temperatures": list(self._job.temperatures), "walks": walks}

    def scored(
        self, chosen: Pass, block: DocumentBlock, watch: Stopwatch, caps: Caps
    ) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield the columns of a block, some positions of all its documents at a time."""
        temperatures = np.array(self._job.temperatures)
        walked = self._walk(chosen, block) if chosen.specs else None
        for slab in slabs(block):
            with watch.timing("lm"):
                reading = self._job.reader.read(slab.spans)
            columns = self._read_columns(slab, reading)
            if walked is not None:
                gate = _gate(chosen, reading, columns)
                find = self._find(chosen, reading, watch)
                with watch.timing("walk"):
                    found = walked.walk(reading, slab.starts, slab.steps, temperatures, find, gate)
                for spec, made in found.items():
                    columns |= _walk_columns(spec.label, made)
            check_columns(columns, self._job.retrieval.store)
            yield columns
        if walked is not None:
            for label, row in walked.close().items():
                caps.update({f"{label}.{name}": hit for name, hit in zip(CAPS, row, strict=True)})

    def _walk(self, chosen: Pass, block: DocumentBlock) -> BlockWalk:
        walk, corpus = self._job.retrieval.block(chosen.specs, block), self._job.reader.corpus
        if corpus.lead:
            firsts = [corpus.first_token(int(number)) for number in block.documents]
            walk.begin_after(corpus.tokens[firsts])
        return walk

    def _find(self, chosen: Pass, reading: Reading, watch: Stopwatch) -> Find:
        retrieval, searcher = self._job.retrieval, self._job.retrieval.searcher
        most = most_neighbours(chosen.specs, retrieval.settings, retrieval.opened)
        k = min(retrieval.settings.k, most)

        def search(rows: Rows) -> NDArray[np.int64]:
            assert searcher is not None, "walks that search are given an index"
            with watch.timing("search"):
                return searcher.search_more(reading.queries[rows], k, most)[1]

        if chosen.live or not any(spec.searches for spec in chosen.specs):
            return search
        everything = search(np.arange(len(reading)))
        return everything.__getitem__

    def _read_columns(self, slab: Slab, reading: Reading) -> dict[str, NDArray[Any]]:
        documents, positions = slab.positions()
        columns: dict[str, NDArray[Any]] = {
            "document": documents,
            "position": positions,
            "token": reading.tokens,
            "log_lm": reading.log_lm,
            "entropy": reading.entropy,
            "confidence": reading.confidence,
            "favourite": reading.favourites,
        }
        return columns | ({"query": reading.queries} if self._job.keeps_queries else {})


def _gate(chosen: Pass, reading: Reading, columns: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
    if chosen.gate is None:
        return np.ones(len(reading), np.bool_)
    return chosen.gate(reading, columns["document"], columns["position"])


def _walk_columns(label: str, walked: Walked) -> dict[str, NDArray[Any]]:
    return {f"{label}.{item.name}": getattr(walked, item.name) for item in fields(walked)}
