"""Values or pointers of a datastore, mapped a few chunks at a time.

A map per chunk and array is more than a process may have if it opens two large datastores. Keys
are looked up at random and stay mapped; these two are read in order, and need only a window.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.datastore import DTYPES, Datastore
from storage.rows import map_rows

WINDOW_CHUNKS = 256


@dataclass(frozen=True)
class Windows:
    """One array of a datastore, to be read as one array is: by slices, or by ascending entries."""

    datastore: Datastore
    name: str

    def __len__(self) -> int:
        return self.datastore.shape.entries

    def __getitem__(self, wanted: slice | NDArray[Any]) -> NDArray[Any]:
        """Numbers of the reader's own: of entries start..stop-1, or of the ascending ones given."""
        if isinstance(wanted, slice):
            return self._stretch(wanted.start, wanted.stop)
        found = np.empty(len(wanted), self._kind)
        for chunks, part in self._cut(wanted):
            first, _ = self.datastore.shape.chunk_range(chunks[0])
            found[part] = self._mapped(chunks)[wanted[part] - first]
        return found

    def _stretch(self, first: int, last: int) -> NDArray[Any]:
        found, size = np.empty(last - first, self._kind), self.datastore.shape.chunk_entries
        end = -(-last // size)
        for start in range(first // size, end, WINDOW_CHUNKS):
            begin = start * size
            window = self._mapped(range(start, min(start + WINDOW_CHUNKS, end)))
            part = window[max(first - begin, 0) : last - begin]
            place = max(begin - first, 0)
            found[place : place + len(part)] = part
        return found

    def _cut(self, entries: NDArray[Any]) -> Iterator[tuple[range, slice]]:
        """Chunks that are mapped together, and which of the entries lie in them."""
        shape, done = self.datastore.shape, 0
        while done < len(entries):
            first = int(entries[done]) // shape.chunk_entries
            last = min(first + WINDOW_CHUNKS, shape.chunks)
            end = np.array(shape.chunk_range(last - 1)[1]).astype(entries.dtype)
            upto = done + int(np.searchsorted(entries[done:], end))
            last = int(entries[upto - 1]) // shape.chunk_entries + 1
            yield range(first, last), slice(done, upto)
            done = upto

    def _mapped(self, chunks: range) -> NDArray[Any]:
        shape = self.datastore.shape
        first, last = shape.entry_range(chunks)
        paths = [self.datastore.chunk_file(self.name, chunk) for chunk in chunks]
        return map_rows(paths, self._kind, (shape.chunk_entries,), (last - first,))

    @property
    def _kind(self) -> np.dtype[Any]:
        return np.dtype(DTYPES[self.name])
