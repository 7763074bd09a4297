"""Self-tests over arrays: nearest states, neighbours, searches, and distances from codes."""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.checkup.paths import CPU, Numbers, SelfTest
from retomaton_dist.clustering.assign import Cells, find_among_all, find_in_cells
from retomaton_dist.clustering.greedy import exact_neighbours
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.codec.pq import PqCodes, pq_codec
from retomaton_dist.codec.threads import Threads
from retomaton_dist.search.layout import Layout, ShardSpan
from retomaton_dist.search.library import faiss, ivf_of, limit_threads, takes_entries
from retomaton_dist.search.shard import Shard

ROWS, STATES, DIMENSION = 3000, 500, 128
CELLS, PROBES = 20, 3
NEIGHBOURS = 10
# As many neighbours as a walk asks for: some indexes of GPUs give out below that.
QUERIES, K = 50, 1024
FACTORIES = ("Flat", "IVF32,SQ8", "IVF32,PQ64")
CODE_SIZE = 64


def array_tests() -> list[SelfTest]:
    """All of them. What is exact by its making has tolerance 0 on every device."""
    drawn = _Drawn()
    return [
        SelfTest("nearest states", drawn.states, drawn.states_plainly, 0.0, 0.0),
        SelfTest("nearest states in cells", drawn.in_cells, drawn.in_cells_plainly, 0.0, 0.0),
        SelfTest("neighbours for greedy", drawn.neighbours, drawn.neighbours_plainly, 0.0, 0.0),
        *(
            SelfTest(
                f"search {factory}",
                partial(drawn.search, factory),
                partial(drawn.search_plainly, factory),
                1e-4,
                # On a GPU the tables of long product codes are float16.
                1e-2 if "PQ" in factory else 1e-3,
            )
            for factory in FACTORIES
        ),
        SelfTest("distances from codes", drawn.codes, drawn.codes_plainly, 1e-4, None),
    ]


class _Drawn:
    """Keys, centroids and queries drawn at random, always the same, and what is made of them."""

    def __init__(self) -> None:
        random = np.random.default_rng(5)
        self.keys = random.normal(size=(ROWS, DIMENSION)).astype(np.float16)
        self.centroids = random.normal(size=(STATES, DIMENSION)).astype(np.float32)
        self.centres = random.normal(size=(CELLS, DIMENSION)).astype(np.float32)
        self.offsets = np.linspace(0, STATES, CELLS + 1).astype(np.int64)
        self.queries = random.normal(size=(QUERIES, DIMENSION)).astype(np.float32)
        self._random = random

    def states(self, device: str) -> Numbers:
        """The state of every key."""
        nearest = find_among_all(self.centroids, Blocking(device=device))(self.keys)
        return nearest.states.astype(np.float64)

    def states_plainly(self) -> Numbers:
        """The same by all distances."""
        return np.asarray(squared(self.keys, self.centroids).argmin(axis=1), np.float64)

    def in_cells(self, device: str) -> Numbers:
        """The state of every key within its nearest cells."""
        cells = Cells(self.centres, self.offsets, PROBES)
        find = find_in_cells(self.centroids, cells, Blocking(device=device))
        return find(self.keys).states.astype(np.float64)

    def in_cells_plainly(self) -> Numbers:
        """The same by all distances, of which those outside of the cells are infinite."""
        near = np.argsort(squared(self.keys, self.centres), axis=1)[:, :PROBES]
        cell_of = np.searchsorted(self.offsets, np.arange(STATES), side="right") - 1
        seen = (cell_of[None, :, None] == near[:, None, :]).any(axis=2)
        distances = np.where(seen, squared(self.keys, self.centroids), np.inf)
        return np.asarray(distances.argmin(axis=1), np.float64)

    def neighbours(self, device: str) -> Numbers:
        """The nearest other entries of every entry."""
        find = exact_neighbours(self.keys, NEIGHBOURS, Blocking(device=device))
        return find(slice(0, ROWS)).astype(np.float64)

    def neighbours_plainly(self) -> Numbers:
        """The same by all distances."""
        distances = squared(self.keys, self.keys)
        np.fill_diagonal(distances, np.inf)
        return np.argsort(distances, axis=1, kind="stable")[:, :NEIGHBOURS].astype(np.float64)

    def search(self, factory: str, device: str) -> Numbers:
        """Distances to the nearest keys, by a shard of all keys that is opened from its file."""
        index = self._index(factory)
        ivf = ivf_of(index)
        cells = 0 if ivf is None else int(ivf.nlist)
        layout = Layout(
            name="self-test",
            factory=factory,
            why="",
            datastore="",
            entries=ROWS,
            dimension=DIMENSION,
            cells=cells,
            takes_entries=takes_entries(index),
            spans=(ShardSpan((0, 1), 0, ROWS),),
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "shard.faiss"
            faiss.write_index(index, str(path))
            chosen = {"nprobe": cells} if cells else {}
            shard = Shard(path, layout, 0, chosen, gpu_number(device))
            return shard.search(self.queries, K)[0].astype(np.float64)

    def search_plainly(self, factory: str) -> Numbers:
        """Distances to the nearest of all that the index's codes stand for."""
        index = self._index(factory)
        if (ivf := ivf_of(index)) is not None:
            ivf.make_direct_map()
        return np.sort(squared(self.queries, index.reconstruct_n(0, ROWS)), axis=1)[:, :K]

    def _index(self, factory: str) -> Any:
        limit_threads(1, factory)
        index = faiss.index_factory(DIMENSION, factory)
        keys = self.keys.astype(np.float32)
        if hasattr(index, "pq"):
            self._set_words(index)
        else:
            index.train(keys)
        index.add(keys)
        return index

    def _set_words(self, index: Any) -> None:
        """Give an index of product codes words at random: how good they are does not matter."""
        random = np.random.default_rng(7)
        index.quantizer.add(self.keys[: index.nlist].astype(np.float32))
        words = random.normal(size=index.pq.centroids.size()).astype(np.float32)
        faiss.copy_array_to_vector(words, index.pq.centroids)
        index.is_trained = True

    def codes(self, device: str) -> Numbers:
        """Distances by the codec `pq`, from every query to every code."""
        assert device == CPU
        codec, threads = pq_codec(self._codes()), Threads(2)
        slots = np.tile(np.arange(ROWS), (QUERIES, 1))
        try:
            distances = codec.distances(codec.ready(self.queries, threads), slots, threads)
        finally:
            threads.close()
        return distances.astype(np.float64)

    def codes_plainly(self) -> Numbers:
        """The same from what the codes stand for."""
        return squared(self.queries, pq_codec(self._codes()).keys(np.arange(ROWS)))

    def _codes(self) -> PqCodes:
        random = np.random.default_rng(6)
        words = random.normal(size=(CODE_SIZE, DIMENSION // CODE_SIZE, 256)).astype(np.float32)
        cells = random.integers(0, CELLS, ROWS).astype(np.uint16)
        codes = random.integers(0, 256, (ROWS, CODE_SIZE)).astype(np.uint8)
        residuals = np.hstack([book[:, codes[:, part]].T for part, book in enumerate(words)])
        brackets = np.sum(residuals**2 + 2 * self.centres[cells] * residuals, axis=1)
        return PqCodes(self.centres, words, cells, codes, brackets.astype(np.float32))


def squared(rows: NDArray[Any], columns: NDArray[Any]) -> Numbers:
    """All squared distances, in float64."""
    wide, other = rows.astype(np.float64), columns.astype(np.float64)
    norms = np.sum(wide**2, axis=1)[:, None] + np.sum(other**2, axis=1)[None, :]
    return np.asarray(norms - 2 * wide @ other.T)


def gpu_number(device: str) -> int | None:
    """FAISS's number for a device of torch: None for the CPU."""
    return None if device == CPU else int(device.partition(":")[2] or 0)
