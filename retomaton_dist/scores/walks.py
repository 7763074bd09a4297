"""Walks: which one (an automaton, and when to search), and what it came to."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.scores.reading import Reading


@dataclass(frozen=True, order=True)
class WalkSpec:
    """A walk of `automaton` that searches below `tau`.

    A walk that is `forgetful` begins anew at every position: it follows nothing and its
    candidates are what the search finds. That is what kNN-LM does.
    """

    automaton: str
    tau: float
    forgetful: bool = False

    @property
    def label(self) -> str:
        """The name of the walk's columns."""
        return "knnlm" if self.forgetful else f"{self.automaton}@{format_tau(self.tau)}"


def forgetful(automaton: str) -> WalkSpec:
    """The walk of kNN-LM; the automaton only lends its distance codec."""
    return WalkSpec(automaton, math.inf, forgetful=True)


def format_tau(tau: float) -> str:
    """A threshold as people write it; others have other names, however near they are."""
    short = f"{tau:g}"
    return short if float(short) == tau else repr(tau)


def each_once(specs: Iterable[WalkSpec]) -> list[WalkSpec]:
    """The walks without repetition, in a fixed order."""
    return sorted(set(specs))


@dataclass(frozen=True)
class Walked:
    """What one walk came to, row by row.

    `sums` are log-sums [rows, temperatures, target or all, pointed or other], relative to the
    nearest candidate: log sum exp((nearest - distance) / temperature). `states` is n.
    """

    sums: NDArray[np.float32]
    searched: NDArray[np.bool_]
    states: NDArray[np.int32]
    candidates: NDArray[np.int32]
    pointed: NDArray[np.int32]
    nearest: NDArray[np.float32]

    @classmethod
    def empty(cls, shape: tuple[int, ...], temperatures: int) -> "Walked":
        """Rows, or walks and rows, without candidates and without searches."""
        return cls(
            sums=np.full((*shape, temperatures, 2, 2), -np.inf, np.float32),
            searched=np.zeros(shape, np.bool_),
            states=np.zeros(shape, np.int32),
            candidates=np.zeros(shape, np.int32),
            pointed=np.zeros(shape, np.int32),
            nearest=np.full(shape, np.inf, np.float32),
        )

    def of_walk(self, place: int) -> "Walked":
        """The rows of one walk, if there are several."""
        return Walked(**{name: column[place] for name, column in vars(self).items()})


class Gate(Protocol):
    """Decides, from what the LM says, at which positions a forgetful walk searches."""

    def __call__(
        self, reading: Reading, documents: NDArray[np.int32], positions: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """Say of each row whether it is searched."""
        ...
