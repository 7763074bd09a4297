"""Which walks an evaluation needs: an automaton, and when to search."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


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
