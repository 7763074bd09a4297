"""Values or pointers of a datastore, mapped some chunks at a time.

A map per chunk and array is more than a process may have if it opens two large datastores. Keys
are looked up at random and stay mapped; these two are read in order, and need only a window.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.storage.datastore import DTYPES, Datastore
from retomaton_dist.storage.pickling import PicklesFieldsOnly
from retomaton_dist.storage.rows import map_rows

WINDOW_CHUNKS = 256


@dataclass(frozen=True)
class Windows(PicklesFieldsOnly):
    """One array of a datastore, to be read as one array is: by slices, or by ascending entries.

    Chunks are mapped in groups of `chunks`; the group that was read last stays.
    """

    datastore: Datastore
    name: str
    chunks: int = WINDOW_CHUNKS

    def __len__(self) -> int:
        return self.datastore.shape.entries

    def __getitem__(self, wanted: slice | NDArray[Any]) -> NDArray[Any]:
        """Numbers of the reader's own: of entries start..stop-1, or of the ascending ones given."""
        if isinstance(wanted, slice):
            return self._between(wanted.start, wanted.stop)
        numbers, size, done = np.empty(len(wanted), self._kind), self._entries, 0
        while done < len(wanted):
            window = int(wanted[done]) // size
            end = np.array(min((window + 1) * size, len(self)), wanted.dtype)
            part = slice(done, done + int(np.searchsorted(wanted[done:], end)))
            numbers[part] = self._mapped(window)[wanted[part] - window * size]
            done = part.stop
        return numbers

    def _between(self, first: int, last: int) -> NDArray[Any]:
        size = self._entries
        parts = [
            self._mapped(window)[max(first - window * size, 0) : last - window * size].copy()
            for window in range(first // size, -(-last // size))
        ]
        return np.concatenate([np.empty(0, self._kind), *parts])

    def _mapped(self, window: int) -> NDArray[Any]:
        if window not in self._held:
            shape = self.datastore.shape
            chunks = range(shape.chunks)[window * self.chunks :][: self.chunks]
            first, last = shape.entry_range(chunks)
            paths = [self.datastore.chunk_file(self.name, chunk) for chunk in chunks]
            self._held.clear()
            self._held[window] = map_rows(
                paths, self._kind, (shape.chunk_entries,), (last - first,)
            )
        return self._held[window]

    @cached_property
    def _held(self) -> dict[int, NDArray[Any]]:
        return {}

    @property
    def _entries(self) -> int:
        return self.chunks * self.datastore.shape.chunk_entries

    @property
    def _kind(self) -> np.dtype[Any]:
        return np.dtype(DTYPES[self.name])
