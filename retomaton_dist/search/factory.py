"""Which index: chosen by the number of entries and the keys' width, or checked if it was named.

And what of it can be made in parts, by many workers at once: training, filling, or neither. Filling
can, where an index is inverted lists of codes and nothing else (`blocks.py`), below whatever
transforms keys first. Training can, where it is cells and then a codec of residuals
(`codebooks.py`), and no transform has to be learned before. Any other index is trained by one
worker, or filled a shard at a time.
"""

from dataclasses import dataclass
from typing import Any

from retomaton_dist.errors import BadInput
from retomaton_dist.search.library import faiss, ivf_of, reason

FLAT_ENTRIES = 50_000
SCALAR_BYTES = 16 << 30
MOST_CELLS = 65_536
LEAST_PER_CELL = 39
SAMPLE_PER_CELL = 64
LEAST_SAMPLE = 65_536
SHARD_BYTES = 1 << 30
SHARD_ENTRIES = 500_000
FEW_SHARDS = 8
MOST_CODE_BYTES = 64
# Exactly these: what derives from them (IVFPQR, FlatDedup) holds more than lists of codes.
_LISTS_OF_CODES = (faiss.IndexIVFFlat, faiss.IndexIVFScalarQuantizer, faiss.IndexIVFPQ)
# How FAISS says that cells are found by k-means, and not in a way of their quantiser's own.
_BY_KMEANS = ("\0", "\2")


@dataclass(frozen=True)
class Choice:
    """A FAISS factory string, and why it was taken."""

    factory: str
    why: str


def choose_factory(entries: int, dimension: int) -> Choice:
    """Exact for small stores, IVF with one byte per number beyond, product codes for large ones."""
    if entries < FLAT_ENTRIES:
        return Choice("Flat", f"{entries:,} entries are few enough for exact search")
    cells = _cells(entries)
    if entries * dimension <= SCALAR_BYTES:
        size = f"{entries * dimension / 2**30:.1f} GiB"
        return Choice(f"IVF{cells},SQ8", f"one byte per number, {size} in all, loses next to none")
    code = max(size for size in range(1, MOST_CODE_BYTES + 1) if dimension % size == 0)
    why = f"{entries:,} keys of {dimension} numbers are too many for a byte per number"
    return Choice(f"IVF{cells},PQ{code}", why)


def _cells(entries: int) -> int:
    """The power of two nearest to 2 sqrt(N) from below, with enough entries to train each cell.

    A search is for a thousand neighbours, which fill several cells anyway: more and smaller cells
    would cost training, in proportion to their square, and gain nothing.
    """
    wanted = min(2 * entries**0.5, entries / LEAST_PER_CELL, MOST_CELLS)
    return 1 << (max(1, int(wanted)).bit_length() - 1)


def make_index(factory: str, dimension: int, entries: int) -> Any:
    """Make the empty index that a factory string describes; what FAISS rejects is bad input."""
    try:
        return faiss.index_factory(dimension, factory)
    except RuntimeError as error:
        example = choose_factory(entries, dimension).factory
        raise BadInput(
            f"--factory {factory}: FAISS says: {reason(error)}, here d = {dimension}; "
            f"{example} would work"
        ) from error


def check_trainable(factory: str, index: Any, entries: int, sample: int | None) -> None:
    """Refuse an index whose cells cannot be learned from what there is."""
    cells = _least_sample(index)
    have = entries if sample is None else min(sample, entries)
    if not index.is_trained and have < cells:
        what = f"the store's {entries:,} entries" if have == entries else f"--sample {sample}"
        raise BadInput(
            f"--factory {factory} has {cells:,} centroids to train, {what} are fewer; "
            f"{choose_factory(entries, index.d).factory} would work"
        )


def _least_sample(index: Any) -> int:
    ivf = ivf_of(index)
    return int(ivf.nlist) if ivf is not None else 1


def choose_sample(index: Any, entries: int) -> int:
    """How many entries to train on; none for an index that needs no training."""
    if index.is_trained:
        return 0
    return min(entries, max(LEAST_SAMPLE, SAMPLE_PER_CELL * _least_sample(index)))


def choose_shards(index: Any, entries: int, chunks: int) -> int:
    """About 1 GiB of codes per shard, and some to share out if there are many entries."""
    by_bytes = -(-entries * code_bytes(index) // SHARD_BYTES)
    by_entries = min(FEW_SHARDS, entries // SHARD_ENTRIES)
    return max(1, min(max(by_bytes, by_entries), chunks))


def code_bytes(index: Any) -> int:
    """Of the code of an entry."""
    try:
        return int(index.sa_code_size())
    except RuntimeError:
        return 4 * int(index.d)


@dataclass(frozen=True)
class Division:
    """Whether an index is trained in parts, and whether shards are filled in blocks."""

    training: bool
    filling: bool


UNDIVIDED = Division(training=False, filling=False)


def division_of(index: Any) -> Division:
    """What of this empty index can be made in parts."""
    outer = inner = faiss.downcast_index(index)
    while isinstance(inner, faiss.IndexPreTransform):
        inner = faiss.downcast_index(inner.index)
    if type(inner) not in _LISTS_OF_CODES:
        return UNDIVIDED
    by_kmeans = inner.quantizer_trains_alone in _BY_KMEANS and inner.quantizer.is_trained
    return Division(training=outer is inner and bool(by_kmeans), filling=True)


def trained_how(index: Any, division: Division) -> str:
    """How an index is trained, in the words of `index.json`: in parts, whole, or not at all."""
    if division.training:
        return "in parts"
    return "not" if index.is_trained else "whole"
