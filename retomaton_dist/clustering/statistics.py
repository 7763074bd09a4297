"""What a clustering looks like: sizes, empty and giant states, values per state, a histogram."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.clustering.arrays import Counts, StateOfRow
from retomaton_dist.compiled import compiled

GIANT_SHARE = 0.01
_NONE = -1
_SEVERAL = -2


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
    entries, filled = int(sizes.sum()), sizes[sizes > 0]
    median, p99 = np.quantile(filled, [0.5, 0.99])
    return ClusteringStatistics(
        states=len(sizes),
        entries=entries,
        empty=len(sizes) - len(filled),
        smallest=int(filled.min()),
        median=float(median),
        p99=float(p99),
        largest=int(filled.max()),
        several_values=float(np.count_nonzero(values == _SEVERAL) / len(filled)),
        giants=giants_of(sizes),
        inertia=inertia,
        mean_distance=None if distances is None else distances / entries,
    )


def giants_of(sizes: Counts) -> tuple[Giant, ...]:
    """Return the states that hold more than GIANT_SHARE of all entries, the largest first.

    A state of one or two entries is no giant, however few there are in all.
    """
    entries = int(sizes.sum())
    order = np.argsort(-sizes, kind="stable")[: int(1 / GIANT_SHARE) + 1]
    return tuple(
        Giant(int(state), int(sizes[state]), float(sizes[state] / entries))
        for state in order
        if sizes[state] > max(2.0, GIANT_SHARE * entries)
    )


def no_values(states: int) -> Counts:
    """Return what `see_values` starts from."""
    return np.full(states, _NONE, np.int64)


def see_values(seen: Counts, states: StateOfRow, values: NDArray[np.int32]) -> None:
    """Note the values of some entries: a state's only value, or that it has several."""
    _see(seen, states, values)


@compiled
def _see(seen: NDArray[np.int64], states: NDArray[np.int32], values: NDArray[np.int32]) -> None:
    for i in range(states.shape[0]):
        state = states[i]
        if seen[state] == _NONE:
            seen[state] = values[i]
        elif seen[state] != values[i]:
            seen[state] = _SEVERAL


def histogram(sizes: Counts, width: int = 40) -> str:
    """Draw how many states there are of each size, in powers of two, as lines of text."""
    bins = np.where(sizes > 0, np.frexp(sizes.astype(np.float64))[1], 0)
    counts = np.bincount(bins)
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
