"""Blocks of rows and slabs of targets, their matrix products, and what these leave to decide."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retomaton_dist.clustering.arrays import Centroids, Keys
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
    """How much is multiplied at once, and where. It bounds memory and never changes a result."""

    rows: int = 1024
    grouped_rows: int = 8192
    states: int = 1024
    device: str = "cpu"


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


class ScratchMatrix:
    """Memory for one matrix after another, so that none of them costs page faults."""

    def __init__(self, device: str) -> None:
        self._memory = torch.empty(0, device=device)

    def matrix(self, rows: int, columns: int) -> Tensor:
        """Return an uninitialised matrix, valid until the next one is asked for."""
        if self._memory.numel() < rows * columns:
            self._memory = torch.empty(rows * columns, device=self._memory.device)
        return self._memory[: rows * columns].view(rows, columns)


@dataclass(frozen=True)
class ProductScratch:
    """The memory that one thread needs to multiply blocks with slabs."""

    keys: ScratchMatrix
    products: ScratchMatrix


def scratch_on(device: str) -> ProductScratch:
    """Return scratch memory on a device, empty as yet."""
    return ProductScratch(ScratchMatrix(device), ScratchMatrix(device))


@dataclass(frozen=True)
class Contest:
    """The search for the `count` nearest targets of each row of a block.

    `seen` are the slabs that contended so far, each with the rows for which it did, at most once.
    """

    block: RowBlock
    count: int
    contenders: Contenders
    scratch: ProductScratch
    fold: "Fold"
    seen: list[tuple[CentroidSlab, NDArray[np.int64]]] = field(default_factory=list)


Fold = Callable[[Contest, CentroidSlab, NDArray[np.int64], Tensor], None]
"""Lets a slab's targets contend for some rows of the block, given their products."""


def begin(block: RowBlock, count: int, scratch: ProductScratch) -> Contest:
    """Begin a search in which no target was seen yet."""
    fold_products = fold_here if block.keys.device.type == "cpu" else fold_lowest
    contenders = no_contenders(len(block.host), count)
    return Contest(block, count, contenders, scratch, fold_products)


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
    """Let the targets of slabs contend for the given rows of the block, or for all of them."""
    keys, scratch = contest.block.keys, contest.scratch
    rows = np.arange(len(keys)) if rows is None else rows
    if len(rows) < len(keys):
        places, room = torch.from_numpy(rows), scratch.keys.matrix(len(rows), keys.shape[1])
        keys = torch.index_select(keys, 0, places.to(keys.device), out=room)
    for slab in slabs:
        products = scratch.products.matrix(len(rows), slab.doubled.shape[1])
        torch.mm(keys, slab.doubled, out=products)
        contest.fold(contest, slab, rows, products)
        contest.seen.append((slab, rows))


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
        for slab, rows in contest.seen:
            scan(host, rows[missed[rows]], targets, slab.first, slab.last, found, distances)
    return found, distances
