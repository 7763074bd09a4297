"""The actor that serves one shard: maps it, and joins the calls that arrive while it is busy."""

import asyncio
import os
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import psutil
import ray

from retomaton_dist.search.layout import IndexFiles
from retomaton_dist.search.library import limit_threads
from retomaton_dist.search.merge import Found
from retomaton_dist.search.parameters import Parameters
from retomaton_dist.search.shard import Queries, Shard
from retomaton_dist.storage.canonical import Json

MOST_ROWS = 1024
REMEMBERED = 10_000
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class SearchCall:
    """One caller's queries, and where the answer goes."""

    queries: Queries
    k: int
    widen: int
    answer: "asyncio.Future[Found]"
    arrived: float = field(default_factory=time.monotonic)


class ShardServer:
    """All it knows comes from the store, so that a restarted actor goes on where it was.

    A call that finds the shard idle is served at once. Those that arrive meanwhile wait together
    and become one search, as far as they ask for the same k: results never depend on others.
    """

    def __init__(
        self, opened: IndexFiles, number: int, chosen: Parameters, threads: int, *, gpu: bool
    ) -> None:
        self._opened, self._number, self._chosen = opened, number, chosen
        self._threads, self._gpu = threads, gpu
        self._thread = ThreadPoolExecutor(1)
        self._waiting: deque[SearchCall] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._seconds: deque[float] = deque(maxlen=REMEMBERED)
        self._counts = {"calls": 0, "queries": 0, "searches": 0}

    async def ready(self) -> None:
        """Open the shard; what is wrong with it is raised here."""
        await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._shard)

    async def search(self, queries: Queries, k: int, widen: int) -> Found:
        """Search the shard for one caller."""
        answer: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._waiting.append(SearchCall(queries, k, widen, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await answer

    async def parameters(self) -> Parameters:
        """What the shard is searched with."""
        return self._chosen

    async def status(self) -> Json:
        """What the shard is, how much of it is in memory, and how it served its callers."""
        span = self._opened.layout.spans[self._number]
        seconds = np.array(self._seconds or [np.nan])
        return {
            "shard": self._number,
            "entries": span.last - span.first,
            "file_bytes": self._opened.digests[self._number].bytes,
            "resident_bytes": psutil.Process().memory_info().rss,
            "pid": os.getpid(),
            "node": ray.get_runtime_context().get_node_id(),
            **self._counts,
            "milliseconds": {
                f"p{rank}": round(float(np.percentile(seconds, rank)) * 1000, 3)
                for rank in PERCENTILES
            },
        }

    @cached_property
    def _shard(self) -> Shard:
        layout, path = self._opened.layout, self._opened.shard(self._number)
        limit_threads(self._threads, layout.factory)
        self._opened.verify(self._number)
        # Ray shows an actor only its own GPU, as number 0.
        return Shard(path, layout, self._number, self._chosen, 0 if self._gpu else None)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            calls = self._take()
            try:
                nearest = await loop.run_in_executor(self._thread, self._search, calls)
            except Exception as error:  # noqa: BLE001 - every caller must get its answer
                for call in calls:
                    if not call.answer.done():  # its caller may have gone away
                        call.answer.set_exception(error)
            else:
                self._answer(calls, nearest)

    def _take(self) -> list[SearchCall]:
        """The oldest call, and the others that ask for the same, up to a bound."""
        taken = [self._waiting.popleft()]
        rows = len(taken[0].queries)
        others: deque[SearchCall] = deque()
        for call in self._waiting:
            alike = (call.k, call.widen) == (taken[0].k, taken[0].widen)
            if alike and rows + len(call.queries) <= MOST_ROWS:
                taken.append(call)
                rows += len(call.queries)
            else:
                others.append(call)
        self._waiting = others
        return taken

    def _search(self, calls: list[SearchCall]) -> Found:
        queries = [call.queries for call in calls]
        joined = queries[0] if len(queries) == 1 else np.concatenate(queries)
        return self._shard.search(joined, calls[0].k, calls[0].widen)

    def _answer(self, calls: list[SearchCall], nearest: Found) -> None:
        start, now = 0, time.monotonic()
        for call in calls:
            rows = slice(start, start + len(call.queries))
            if not call.answer.done():  # its caller may have gone away
                call.answer.set_result((nearest[0][rows], nearest[1][rows]))
            self._seconds.append(now - call.arrived)
            start = rows.stop
        self._counts["calls"] += len(calls)
        self._counts["queries"] += start
        self._counts["searches"] += 1
