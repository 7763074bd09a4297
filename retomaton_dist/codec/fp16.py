"""The codec `fp16`: the keys themselves, in slot order."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.codec.codec import (
    Codec,
    CodecSizes,
    Column,
    KeyCodec,
    Rows,
    all_numbers,
    read_only,
)
from retomaton_dist.codec.threads import Threads
from retomaton_dist.compiled import compiled, compiled_sums

_MAGNITUDE = np.uint32(0x7FFF)
_SIGN = np.uint32(0x8000)
# From here on bits mean infinity or NaN; decoded as above they are 65,536 and more.
_INFINITE = np.uint16(0x7C00)
# So such a key is as far as this from any query below 49,152: only then is it worth a look.
_SUSPICIOUS = np.float32(2.0**28)
# A float16's exponent is 112 lower than the float32's that has the same bits shifted by 13.
_SCALE = np.float32(2.0**112)


class Fp16Codes(NamedTuple):
    """What lies in the automaton: the bits of the float16 keys, [N, d]."""

    keys: NDArray[np.uint16]


class Fp16Queries(NamedTuple):
    """Queries made ready."""

    queries: NDArray[np.float32]


class Fp16Codec(KeyCodec):
    """Nothing is encoded: keys are copied from the datastore."""

    name = "fp16"
    encodes = False

    def sizes(self, entries: int, dimension: int, code_size: int | None) -> CodecSizes:  # noqa: ARG002
        """There are no codes."""
        return CodecSizes(dimension)

    def rows(self, sizes: CodecSizes) -> Mapping[str, Column]:
        """A key per entry."""
        return {"keys": (np.dtype(np.float16), sizes.dimension)}

    def open(self, column: Callable[[str], NDArray[Any]], sizes: CodecSizes) -> Codec:
        """Over keys."""
        return fp16_codec(column("keys").reshape(-1, sizes.dimension))


class Fp16Distances(Codec):
    """Distances from keys."""

    def prepared(self, queries: NDArray[np.float32], threads: Threads) -> Fp16Queries:  # noqa: ARG002
        """Queries are taken as they are."""
        return Fp16Queries(queries)

    def keys(self, slots: Rows) -> NDArray[np.float32]:
        """The keys themselves."""
        found: NDArray[np.float32] = self.codes.keys[slots].view(np.float16).astype(np.float32)
        return found


def fp16_codec(keys: NDArray[np.float16]) -> Codec:
    """The codec `fp16` over keys [N, d]."""
    codes = Fp16Codes(read_only(keys.view(np.uint16)))
    return Fp16Distances(codes, keys.shape[1], measure)


@compiled
def _has_none(key: NDArray[np.uint16]) -> bool:
    """Whether some of a key's numbers is none."""
    found = False
    for j in range(key.shape[0]):
        found |= key[j] & _INFINITE == _INFINITE
    return found


@compiled_sums
def _measure(
    codes: Fp16Codes,
    query: NDArray[np.float32],
    slots: NDArray[np.int64],
    distances: NDArray[np.float32],
) -> None:
    """Measure slots from one query; infinite for slots below 0, NaN for keys that are none."""
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
        if total >= _SUSPICIOUS and _has_none(codes.keys[slot]):
            total = np.float32(np.nan)
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
) -> bool:
    """The kernel of `Codec.measure`; slots below 0 are infinitely far. False: some is NaN."""
    sound = True
    for i in range(rows.shape[0]):
        row, first, last = rows[i], firsts[rows[i]], lasts[rows[i]]
        query, some = ready.queries[asking[i]], slots[row, first:last]
        _measure(codes, query, some, distances[row, first:last])
        sound = sound and all_numbers(distances[row, first:last])
    return sound
