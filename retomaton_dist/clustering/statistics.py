"""What a clustering looks like: sizes, empty and giant states, values per state, a histogram."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.arrays import Counts, blocks_of
from retomaton_dist.compiled import compiled

GIANT_SHARE = 0.01
_SEVERAL = -1
# States that are looked at together.
BLOCK = 1 << 20


@dataclass(frozen=True)
class Giant:
    """A state that holds a large share of all entries."""

    state: int
    size: int
    share: float


@dataclass(frozen=True)
class ClusteringStatistics:
    """The figures of a clustering. Sizes are of states that have members."""

    states: int
    entries: int
    empty: int
    smallest: int
    median: float
    p99: float
    largest: int
    several_values: float
    giants: tuple[Giant, ...]
    inertia: float | None = None
    mean_distance: float | None = None


def summarise(
    sizes: Counts, values: Counts, inertia: float | None = None, distances: float | None = None
) -> ClusteringStatistics:
    """Sum up a clustering from its sizes, `values_of_states`, and sums over all entries.

    `distances` is the sum of the entries' (not squared) distances to their centroids. Clusterings
    without centroids have neither.
    """
    entries, several = int(sizes.sum()), 0
    for part in blocks_of(len(values), BLOCK):
        several += int(np.count_nonzero(values[part] == _SEVERAL))
    tally = tally_of(sizes)
    empty = tally.pop(0, 0)
    filled = len(sizes) - empty
    return ClusteringStatistics(
        states=len(sizes),
        entries=entries,
        empty=empty,
        smallest=min(tally),
        median=_quantile(tally, filled, 0.5),
        p99=_quantile(tally, filled, 0.99),
        largest=max(tally),
        several_values=several / filled,
        giants=giants_of(sizes),
        inertia=inertia,
        mean_distance=None if distances is None else distances / entries,
    )


def tally_of(sizes: Counts) -> dict[int, int]:
    """How many states there are of each size, by size: few sizes, however many states."""
    found: Counter[int] = Counter()
    for part in blocks_of(len(sizes), BLOCK):
        each, counts = np.unique(sizes[part], return_counts=True)
        found.update(dict(zip(each.tolist(), counts.tolist(), strict=True)))
    return dict(sorted(found.items()))


def _quantile(tally: Mapping[int, int], total: int, share: float) -> float:
    """What `np.quantile` would say of all sizes."""
    place = share * (total - 1)
    ends = np.cumsum(list(tally.values()))
    sides = np.searchsorted(ends, [math.floor(place), math.ceil(place)], side="right")
    left, right = np.array(list(tally))[sides]
    return float(np.quantile([left, right], place - math.floor(place)))


def giants_of(sizes: Counts) -> tuple[Giant, ...]:
    """Return the states that hold more than GIANT_SHARE of all entries, the largest first.

    A state of one or two entries is no giant, however few there are in all.
    """
    entries = int(sizes.sum())
    least = max(2.0, GIANT_SHARE * entries)
    found = [
        part.start + np.flatnonzero(sizes[part] > least) for part in blocks_of(len(sizes), BLOCK)
    ]
    states = np.concatenate([np.empty(0, np.int64), *found])
    order = states[np.argsort(-sizes[states], kind="stable")]
    return tuple(
        Giant(int(state), int(sizes[state]), float(sizes[state] / entries)) for state in order
    )


@compiled
def see_members(
    sizes: Counts, seen: Counts, states: NDArray[np.uint32], values: NDArray[np.int32]
) -> None:
    """Count some entries of states, and note their values: a state's only one, or several.

    Both start from zeros; `seen` holds 1 + the only value, or -1 where there are several.
    """
    for i in range(states.shape[0]):
        state = states[i]
        sizes[state] += 1
        if seen[state] == 0:
            seen[state] = 1 + values[i]
        elif seen[state] != 1 + values[i]:
            seen[state] = _SEVERAL


def histogram(sizes: Counts, width: int = 40) -> str:
    """Draw how many states there are of each size, in powers of two, as lines of text."""
    counts = np.zeros(1, np.int64)
    for size, states in tally_of(sizes).items():
        power = size.bit_length()
        counts.resize(max(len(counts), power + 1), refcheck=False)
        counts[power] += states
    first = 0 if counts[0] else 1
    labels = ["0", *(_label(1 << power - 1) for power in range(1, len(counts)))]
    margin = max(map(len, labels))
    bars = np.ceil(counts * width / counts.max()).astype(int)
    return "\n".join(
        f"{labels[i]:>{margin}} {'#' * bars[i]:<{width}} {counts[i]:,}"
        for i in range(first, len(counts))
    )


def _label(low: int) -> str:
    return f"{low:,}" if low == 1 else f"{low:,}-{2 * low - 1:,}"
