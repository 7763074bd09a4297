"""Cutting things of known sizes into ranges of about as many entries."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SCAN = 1 << 20

Places = NDArray[np.int64]


def ranges_within(offsets: Places, most: int) -> list[tuple[int, int]]:
    """Cut what begins at `offsets` into ranges of at most so many entries, at least one thing each.

    `offsets` holds the total at its end.
    """
    ranges, first, last = [], 0, len(offsets) - 1
    while first < last:
        stop = int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1
        stop = min(max(stop, first + 1), last)
        ranges.append((first, stop))
        first = stop
    return ranges


class Run(NamedTuple):
    """Consecutive things first..last-1, how many entries they have, and where these begin."""

    first: int
    last: int
    entries: int
    begins: int


def runs_within(sizes: Iterable[Places], most: int) -> Iterator[Run]:
    """Cut things of known sizes as `ranges_within` does; sizes come block by block."""
    run, known, end = Run(0, 0, 0, 0), 0, 0
    for block in sizes:
        ends = end + np.cumsum(block)
        while run.last < known + len(block):
            fitting = known + int(np.searchsorted(ends, run.begins + most, side="right"))
            full = fitting < known + len(block)
            last = max(fitting, run.first + 1) if full else fitting
            if last > run.last:
                run = run._replace(last=last, entries=int(ends[last - 1 - known]) - run.begins)
            if full:
                yield run
                run = Run(last, last, 0, run.begins + run.entries)
        known, end = known + len(block), int(ends[-1])
    if run.last > run.first:
        yield run
