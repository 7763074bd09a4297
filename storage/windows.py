"""Values or pointers of a datastore, mapped some chunks at a time.

A map per chunk and array is more than a process may have if it opens two large datastores. Keys
are looked up at random and stay mapped; these two are read in order, and need only a window.
"""

from collections.abc import Iterator
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
            return self._stretch(wanted.start, wanted.stop)
        found = np.empty(len(wanted), self._kind)
        for window, part in self._cut(wanted):
            found[part] = self._mapped(window)[wanted[part] - window * self._entries]
        return found

    def _stretch(self, first: int, last: int) -> NDArray[Any]:
        found = np.empty(last - first, self._kind)
        for window in range(first // self._entries, -(-last // self._entries)):
            begin = window * self._entries
            part = self._mapped(window)[max(first - begin, 0) : last - begin]
            place = max(begin - first, 0)
            found[place : place + len(part)] = part
        return found

    def _cut(self, entries: NDArray[Any]) -> Iterator[tuple[int, slice]]:
        """Windows, and which of the entries lie in each."""
        done = 0
        while done < len(entries):
            window = int(entries[done]) // self._entries
            end = min((window + 1) * self._entries, len(self))
            upto = done + int(np.searchsorted(entries[done:], np.array(end, entries.dtype)))
            yield window, slice(done, upto)
            done = upto

    def _mapped(self, window: int) -> NDArray[Any]:
        found = self._held.get(window)
        if found is None:
            shape = self.datastore.shape
            chunks = range(shape.chunks)[window * self.chunks :][: self.chunks]
            first, last = shape.entry_range(chunks)
            paths = [self.datastore.chunk_file(self.name, chunk) for chunk in chunks]
            found = map_rows(paths, self._kind, (shape.chunk_entries,), (last - first,))
            self._held.clear()
            self._held[window] = found
        return found

    @cached_property
    def _held(self) -> dict[int, NDArray[Any]]:
        return {}

    @property
    def _entries(self) -> int:
        return self.chunks * self.datastore.shape.chunk_entries

    @property
    def _kind(self) -> np.dtype[Any]:
        return np.dtype(DTYPES[self.name])
