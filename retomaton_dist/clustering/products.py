"""Blocks of rows and slabs of targets, their matrix products, and what these leave to decide."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retomaton_dist.clustering.arrays import Centroids, Keys, blocks_of
from retomaton_dist.clustering.contenders import (
    SEGMENT,
    Contenders,
    fold,
    fold_listed,
    no_contenders,
    scan,
    settle,
    slack,
)
from retomaton_dist.errors import BadInput

_VECTOR = 16


@dataclass(frozen=True)
class Blocking:
    """How much is multiplied at once, and where. It bounds memory and never changes a result.

    `grouped_rows` rows at most, in `block_memory` bytes, are ordered by the cells that they see;
    slabs of cells are kept for others while they fit into `slab_memory` bytes.
    """

    rows: int = 1024
    grouped_rows: int = 1 << 16
    states: int = 1024
    device: str = "cpu"
    block_memory: int = 64 << 20
    slab_memory: int = 256 << 20

    def rows_in_block(self, dimension: int) -> int:
        """Rows whose grouping fits into memory, as float32."""
        return max(1, min(self.grouped_rows, self.block_memory // (4 * dimension)))


@dataclass(frozen=True)
class RowBlock:
    """Some rows, ready to be multiplied: float32, on the device and in memory, with |x|."""

    keys: Tensor
    host: NDArray[np.float32]
    lengths: NDArray[np.float32]


@dataclass(frozen=True)
class CentroidSlab:
    """Targets first..last-1, ready to be multiplied: -2t on the device, |t|^2 and |t| in memory.

    One column of `doubled` each, padded to whole vectors with targets that are infinitely far.
    """

    first: int
    last: int
    doubled: Tensor
    norms: NDArray[np.float32]
    lengths: NDArray[np.float32]
    reaches: NDArray[np.float32]


class ProductScratch:
    """The memory that one thread needs to multiply blocks with slabs: it costs no page faults."""

    def __init__(self, device: str) -> None:
        self._memory = {name: torch.empty(0, device=device) for name in ("keys", "products")}

    def matrix(self, name: str, rows: int, columns: int) -> Tensor:
        """Return an uninitialised matrix, valid until the next one of its name is asked for."""
        memory = self._memory[name]
        if memory.numel() < rows * columns:
            memory = self._memory[name] = torch.empty(rows * columns, device=memory.device)
        return memory[: rows * columns].view(rows, columns)


@dataclass(frozen=True)
class Contest:
    """The search for the `count` nearest targets of each row of a block.

    `seen` are the ranges of targets that contended so far, each with the rows for which it did,
    at most once. At most `at_once` rows are multiplied at a time.
    """

    block: RowBlock
    count: int
    contenders: Contenders
    scratch: ProductScratch
    fold: "Fold"
    at_once: int
    seen: list[tuple[int, int, NDArray[np.int64]]] = field(default_factory=list)


Fold = Callable[[Contest, CentroidSlab, NDArray[np.int64], Tensor], None]
"""Lets a slab's targets contend for some rows of the block, given their products."""


def begin(
    block: RowBlock, count: int, scratch: ProductScratch, at_once: int = Blocking.rows
) -> Contest:
    """Begin a search in which no target was seen yet."""
    fold_products = fold_here if block.keys.device.type == "cpu" else fold_lowest
    contenders = no_contenders(len(block.host), count)
    return Contest(block, count, contenders, scratch, fold_products, at_once)


def load_block(rows: Keys, device: str) -> RowBlock:
    """Bring rows to the device as float32, or raise BadInput if a key is not finite."""
    host = torch.from_numpy(np.array(rows)).float()  # a copy: torch warns of read-only maps
    lengths = torch.linalg.vector_norm(host, dim=1) * (1 + 2.0**-10)
    finite = torch.isfinite(lengths)
    if not bool(finite.all()):
        row = int((~finite).nonzero()[0, 0])
        raise BadInput(f"row {row} of a block of keys holds NaN or infinity: extract the keys anew")
    return RowBlock(host.to(device), host.numpy(), lengths.numpy())


def load_slab(targets: Centroids, first: int, last: int, device: str) -> CentroidSlab:
    """Bring targets first..last-1 to the device; those of NaN are infinitely far from all rows."""
    some = np.zeros((-(-(last - first) // _VECTOR) * _VECTOR, targets.shape[1]), np.float32)
    some[: last - first] = targets[first:last]
    absent = np.isnan(some).any(axis=1) | (np.arange(len(some)) >= last - first)
    some[absent] = 0
    norms = np.einsum("ij,ij->i", some, some, dtype=np.float64)
    lengths = (np.sqrt(norms) * (1 + 2.0**-20)).astype(np.float32)
    norms[absent] = np.inf
    reaches = np.maximum.reduceat(lengths, np.arange(0, len(some), SEGMENT))
    doubled = torch.from_numpy(np.ascontiguousarray(some.T) * np.float32(-2)).to(device)
    return CentroidSlab(first, last, doubled, norms.astype(np.float32), lengths, reaches)


def load_slabs(
    targets: Centroids, first: int, last: int, blocking: Blocking
) -> tuple[CentroidSlab, ...]:
    """Bring targets first..last-1 to the device in slabs of `blocking.states` of them."""
    return tuple(
        load_slab(targets, start, min(start + blocking.states, last), blocking.device)
        for start in range(first, last, blocking.states)
    )


def contend(
    contest: Contest, slabs: Iterable[CentroidSlab], rows: NDArray[np.int64] | None = None
) -> None:
    """Let the targets of slabs contend for the given, ascending rows of the block, or for all."""
    whole = contest.block.keys
    rows = np.arange(len(whole)) if rows is None else rows
    slabs = tuple(slabs)
    for part in blocks_of(len(rows), contest.at_once):
        some = rows[part]
        keys = _selected(whole, some, contest.scratch)
        for slab in slabs:
            products = contest.scratch.matrix("products", len(some), slab.doubled.shape[1])
            torch.mm(keys, slab.doubled, out=products)
            contest.fold(contest, slab, some, products)
    contest.seen.extend((slab.first, slab.last, rows) for slab in slabs)


def _selected(keys: Tensor, rows: NDArray[np.int64], scratch: ProductScratch) -> Tensor:
    """Rows of a block: a view where they follow each other, else copied to scratch memory."""
    if len(rows) and int(rows[-1]) - int(rows[0]) + 1 == len(rows):
        return keys[int(rows[0]) : int(rows[-1]) + 1]
    room = scratch.matrix("keys", len(rows), keys.shape[1])
    return torch.index_select(keys, 0, torch.from_numpy(rows).to(keys.device), out=room)


def fold_here(
    contest: Contest, slab: CentroidSlab, rows: NDArray[np.int64], products: Tensor
) -> None:
    """Fold products that lie in memory."""
    fold(
        products.numpy(),
        rows,
        contest.block.lengths,
        slab.norms,
        slab.lengths,
        slab.reaches,
        slab.first,
        np.float32(slack(contest.block.host.shape[1])),
        contest.count,
        contest.contenders,
    )


def fold_lowest(
    contest: Contest, slab: CentroidSlab, rows: NDArray[np.int64], products: Tensor
) -> None:
    """Fold products that lie on a device: only the few lowest of each row leave it."""
    relative = slack(contest.block.host.shape[1])
    norms, lengths, row_lengths = (
        torch.from_numpy(array).to(products.device)
        for array in (slab.norms, slab.lengths, contest.block.lengths[rows])
    )
    lows = products + (norms - relative * lengths * lengths)
    lows -= row_lengths[:, None] * (2 * relative * lengths)
    room = min(contest.contenders.highs.shape[1], len(slab.norms))
    lowest = torch.topk(lows, room, dim=1, largest=False, sorted=True)
    fold_listed(
        lowest.values.cpu().numpy(),
        lowest.indices.cpu().numpy(),
        rows,
        contest.block.lengths,
        slab.lengths,
        slab.first,
        np.float32(relative),
        contest.count,
        contest.contenders,
    )


def settled(
    contest: Contest, targets: Centroids, ranked: bool = True
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return the nearest of the targets that contended for each row, and their distances.

    They come nearest first, and -1 where there are too few, unless `ranked` is false: then in any
    order, and without distances. Rows that missed some see the same targets once more.
    """
    shape = len(contest.block.host), contest.count
    found, distances = np.full(shape, -1, np.int32), np.full(shape, np.inf)
    host, missed = contest.block.host, contest.contenders.missed
    settle(host, targets, contest.contenders, ranked, found, distances)
    if missed.any():
        for first, last, rows in contest.seen:
            scan(host, rows[missed[rows]], targets, first, last, found, distances)
    return found, distances
