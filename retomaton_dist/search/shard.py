"""One shard, opened for search: its file is mapped, not loaded."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.errors import DamagedStore
from retomaton_dist.search import parameters
from retomaton_dist.search.layout import Layout
from retomaton_dist.search.library import faiss, ivf_of, reason
from retomaton_dist.search.merge import Found, settle
from retomaton_dist.search.parameters import Parameters

Queries = NDArray[np.float32]

# Parts of a product code whose tables, 256 float32 each, fit the 48 KiB that a GPU's blocks share.
MOST_WIDE_PARTS = 48
# Neighbours that FAISS finds on a GPU.
MOST_ON_GPU = 2048


class Shard:
    """Searches one shard. Not for several threads at once: widening sets a parameter.

    On a GPU (`gpu` is its number) the shard is copied there instead of being mapped.
    """

    def __init__(
        self,
        path: Path,
        layout: Layout,
        number: int,
        chosen: Parameters,
        gpu: int | None = None,
    ) -> None:
        self.path, self.span = path, layout.spans[number]
        self._offset = 0 if layout.takes_entries else self.span.first
        self._gpu = gpu is not None
        self._cells, self._chosen = layout.cells, dict[str, float]()
        self._index = _open(path)
        self._check(layout)
        if gpu is not None:
            self._resources = faiss.StandardGpuResources()
            self._index = _copied(self._resources, gpu, self._index)
        self.configure(chosen)

    def configure(self, chosen: Parameters) -> None:
        """Search with these parameters from now on; those not named stay as they are."""
        parameters.apply(self._index, chosen, gpu=self._gpu)
        self._chosen |= chosen

    def search(self, queries: Queries, k: int, widen: int = 1) -> Found:
        """The nearest entries of this shard, in order (distance, entry); gaps are (inf, -1).

        `widen` searches so many times more cells. At most as many columns as the shard has
        entries come back, or as a GPU gives, even if k is larger.
        """
        width = min(k, self.span.last - self.span.first)
        if self._gpu:
            width = min(width, MOST_ON_GPU)
        distances, rows = self._widened(queries, width, widen)
        if not settle(distances, rows, self._offset, self.span.first, self.span.last):
            raise DamagedStore(
                f"{self.path} names an entry outside {self.span.first}..{self.span.last - 1}: it "
                f"is damaged; `retomaton verify {self.path.parents[2]} --repair` helps"
            )
        return distances, rows

    def _widened(self, queries: Queries, width: int, widen: int) -> Found:
        if widen == 1:
            found: Found = self._index.search(queries, width)
            return found
        wider, usual = (parameters.widened(self._cells, self._chosen, by) for by in (widen, 1))
        parameters.apply(self._index, wider, gpu=self._gpu)
        try:
            return self._widened(queries, width, 1)
        finally:
            parameters.apply(self._index, usual, gpu=self._gpu)

    def _check(self, layout: Layout) -> None:
        entries = self.span.last - self.span.first
        ivf = ivf_of(self._index)
        held = self._index.ntotal if ivf is None else ivf.invlists.compute_ntotal()
        found = (self._index.d, self._index.ntotal, held)
        if found != (layout.dimension, entries, entries):
            raise DamagedStore(
                f"{self.path} holds {found[2]:,} keys of {found[0]} numbers instead of {entries:,} "
                f"of {layout.dimension}: it belongs to another index or is damaged"
            )


def _open(path: Path) -> Any:
    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise DamagedStore(f"{path} is no whole FAISS index: {reason(error)}") from error
    except MemoryError as error:
        raise DamagedStore(f"{path} is damaged: it asks for absurd amounts of memory") from error


def _copied(resources: Any, gpu: int, index: Any) -> Any:
    """The index on a GPU; tables of long product codes are float16 there, or they would not fit."""
    options, ivf = faiss.GpuClonerOptions(), ivf_of(index)
    inner = ivf if ivf is None else faiss.downcast_index(ivf)
    options.useFloat16 = isinstance(inner, faiss.IndexIVFPQ) and inner.pq.M > MOST_WIDE_PARTS
    return faiss.index_cpu_to_gpu(resources, gpu, index, options)
