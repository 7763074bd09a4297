"""Walks: which one (an automaton, when to restart, and by what), and what it came to."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.engine.lm_output import LMOutput
from retomaton_dist.settings import WalkSettings

# The most entries that a wide search looks for.
MOST_WIDE = 4096


@dataclass(frozen=True, order=True)
class WalkSpec:
    """A walk of `automaton` that restarts below `tau`.

    It restarts by a search where the longest suffix that the corpus has is shorter than `sigma`,
    else by the entries that follow this suffix: infinity always searches, 0 never does. At a
    document's start these are the entries that begin documents. Of the restarts that sigma leaves
    to a search, only a `share` does, drawn by position.

    A walk that is `stateless` begins anew at every position: it follows nothing and its
    candidates are what the restart finds. With searches that is what kNN-LM does. One that is
    `wide` searches for as many as a walk that follows may score.
    """

    automaton: str
    tau: float
    stateless: bool = False
    sigma: float = math.inf
    share: float = 1.0
    wide: bool = False

    @property
    def label(self) -> str:
        """The name of the walk's columns."""
        if self.stateless:
            return "suffix" if self.looks_up else "knnlm+wide" if self.wide else "knnlm"
        thresholds = [self.tau, *[self.sigma] * self.looks_up, *[self.share] * (self.share < 1)]
        return f"{self.automaton}@{','.join(map(format_threshold, thresholds))}"

    @property
    def searches(self) -> bool:
        """Whether it may search at all."""
        return self.sigma > 0 and self.share > 0

    def neighbours(self, settings: WalkSettings, entries: int) -> int:
        """How many entries it searches for, of so many that there are."""
        if not self.wide:
            return min(settings.k, entries)
        # Farther ones weigh nothing, and searches would take most of the time.
        return min(settings.k + settings.max_knns, max(settings.k, MOST_WIDE), entries)

    @property
    def looks_up(self) -> bool:
        """Whether it may restart by a suffix."""
        return math.isfinite(self.sigma) or self.share < 1


def stateless_walk(automaton: str, sigma: float = math.inf, *, wide: bool = False) -> WalkSpec:
    """The walk of kNN-LM, or with sigma 0 of suffixes alone; the automaton lends its codec."""
    return WalkSpec(automaton, math.inf, stateless=True, sigma=sigma, wide=wide)


def format_threshold(threshold: float) -> str:
    """A threshold as people write it; others have other names, however near they are."""
    short = f"{threshold:g}"
    return short if float(short) == threshold else repr(threshold)


def each_once(specs: Iterable[WalkSpec]) -> list[WalkSpec]:
    """The walks without repetition, in a fixed order."""
    return sorted(set(specs))


KEPT_COLUMNS = (
    "sums", "favoured", "searched", "matched", "states", "candidates", "pointed", "nearest",
)  # fmt: skip


@dataclass(frozen=True)
class WalkResult:
    """What one walk came to, row by row.

    `sums` are log-sums [rows, temperatures, target or all, pointed or other], relative to the
    nearest candidate: log sum exp((nearest - distance) / temperature). `favoured` are those of the
    LM's favourite, [rows, temperatures, pointed or other]. `states` is n. `matched` is the length
    of the suffix that the walk restarted by (the longest at a document's start), 0 where it did
    not. `since` is how many steps ago the last restart was, or the document's start. `further` is
    what the walks of further stores came to at the same rows.
    """

    temperatures: tuple[float, ...]

    sums: NDArray[np.float32]
    favoured: NDArray[np.float32]
    searched: NDArray[np.bool_]
    matched: NDArray[np.int32]
    states: NDArray[np.int32]
    candidates: NDArray[np.int32]
    pointed: NDArray[np.int32]
    nearest: NDArray[np.float32]
    since: NDArray[np.int64]
    further: tuple["WalkResult", ...] = ()

    @classmethod
    def empty(
        cls, shape: tuple[int, ...], temperatures: tuple[float, ...], further: int = 0
    ) -> "WalkResult":
        """Rows, or walks and rows, without candidates and without searches."""
        return cls(
            temperatures=temperatures,
            sums=np.full((*shape, len(temperatures), 2, 2), -np.inf, np.float32),
            favoured=np.full((*shape, len(temperatures), 2), -np.inf, np.float32),
            searched=np.zeros(shape, np.bool_),
            matched=np.zeros(shape, np.int32),
            states=np.zeros(shape, np.int32),
            candidates=np.zeros(shape, np.int32),
            pointed=np.zeros(shape, np.int32),
            nearest=np.full(shape, np.inf, np.float32),
            since=np.zeros(shape, np.int64),
            further=tuple(cls.empty(shape, temperatures) for _ in range(further)),
        )

    def of_store(self, store: int) -> "WalkResult":
        """What the walk of a store came to; store 0 is the main one."""
        return self.further[store - 1] if store else self

    def columns(self) -> dict[str, NDArray[Any]]:
        """What is kept of it: `since` follows from the rest."""
        return {name: getattr(self, name) for name in KEPT_COLUMNS}

    def at(self, temperature: float) -> NDArray[np.float64]:
        """The log-sums of one temperature, [rows, target or all, pointed or other]."""
        return self.sums[:, self.temperatures.index(temperature)].astype(np.float64)

    def without_sums(self) -> "WalkResult":
        """The same without what takes most of the memory."""
        empty = self.sums[:, :0], self.favoured[:, :0]
        return replace(self, temperatures=(), sums=empty[0], favoured=empty[1])

    def of_favourites(self) -> "WalkResult":
        """The same walk as if the tokens to be predicted were the LM's favourites."""
        return replace(self, sums=np.stack([self.favoured, self.sums[:, :, 1]], axis=2))

    def of_walk(self, place: int) -> "WalkResult":
        """The rows of one walk, if there are several."""
        columns = {name: column[place] for name, column in self.columns().items()}
        return WalkResult(self.temperatures, **columns, since=self.since[place])

    def rows(self, chosen: NDArray[np.int64] | slice) -> "WalkResult":
        """Some of its rows."""
        columns = {name: column[chosen] for name, column in self.columns().items()}
        further = tuple(other.rows(chosen) for other in self.further)
        return WalkResult(self.temperatures, **columns, since=self.since[chosen], further=further)

    def put(self, rows: NDArray[np.int64], other: "WalkResult") -> None:
        """Write the rows of another result into these."""
        for name, column in (self.columns() | {"since": self.since}).items():
            column[rows] = getattr(other, name)
        for own, given in zip(self.further, other.further, strict=True):
            own.put(rows, given)

    @property
    def restarted(self) -> NDArray[np.bool_]:
        """Where the walk restarted."""
        return self.searched | (self.matched > 0)


class Gate(Protocol):
    """Decides, from what the LM says, at which positions a stateless walk searches."""

    def __call__(
        self, reading: LMOutput, documents: NDArray[np.int32], positions: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """Say of each row whether it is searched."""
        ...
