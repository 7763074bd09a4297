"""Distances by the codec `fp16`: the keys themselves, in slot order."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.compiled import compiled, compiled_sums

_MAGNITUDE = np.uint32(0x7FFF)
_SIGN = np.uint32(0x8000)
# A float16's exponent is 112 lower than the float32's that has the same bits shifted by 13.
_SCALE = np.float32(2.0**112)


class Fp16Codes(NamedTuple):
    """What lies in the automaton: the bits of the float16 keys, [N, d]."""

    keys: NDArray[np.uint16]


class Fp16Queries(NamedTuple):
    """Queries made ready."""

    queries: NDArray[np.float32]


@compiled_sums
def _measure(
    codes: Fp16Codes,
    query: NDArray[np.float32],
    slots: NDArray[np.int64],
    distances: NDArray[np.float32],
) -> None:
    """Measure slots from one query; infinite for slots below 0."""
    for i in range(slots.shape[0]):
        if slots[i] < 0:
            distances[i] = np.float32(np.inf)
            continue
        slot = np.uint64(slots[i])
        total = np.float32(0)
        for j in range(query.shape[0]):
            # Compiled code knows no float16: its bits become a float32's, subnormals included.
            bits = np.uint32(codes.keys[slot, j])
            shifted = ((bits & _SIGN) << np.uint32(16)) | ((bits & _MAGNITUDE) << np.uint32(13))
            difference = query[j] - np.uint32(shifted).view(np.float32) * _SCALE
            total += difference * difference
        distances[i] = total


@compiled
def measure(
    codes: Fp16Codes,
    ready: Fp16Queries,
    asking: NDArray[np.int64],
    slots: NDArray[np.int64],
    distances: NDArray[np.float32],
    rows: NDArray[np.int64],
    firsts: NDArray[np.int64],
    lasts: NDArray[np.int64],
) -> None:
    """The kernel of `Codec.measure`; slots below 0 are infinitely far."""
    for i in range(rows.shape[0]):
        row, first, last = rows[i], firsts[rows[i]], lasts[rows[i]]
        query, some = ready.queries[asking[i]], slots[row, first:last]
        _measure(codes, query, some, distances[row, first:last])
