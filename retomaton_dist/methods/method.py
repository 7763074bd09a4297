"""What a method is: the walks it needs, how it is calibrated, and the points of its curve.

A method sees a text only through `Scores`: everything it does is arithmetic over cached numbers,
which is why one pass over a text serves all methods.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from numpy.typing import NDArray

from retomaton_dist.engine.mixture import Mixing, TextExpert
from retomaton_dist.engine.online import OnlineMixing
from retomaton_dist.engine.scores import Scores
from retomaton_dist.engine.walks import Gate, WalkSpec
from retomaton_dist.methods.token_statistics import TokenStatistics
from retomaton_dist.storage.canonical import Json

# Fractions of saved searches that methods without a threshold tau are asked for.
FRACTIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


class Restart(NamedTuple):
    """When a walk restarts, and by what: below tau; by a search if the suffix is below sigma.

    `share` is how many of its restarts searched on the calibration text.
    """

    tau: float
    sigma: float
    share: float = 1.0

    def by_sigma(self, automaton: str) -> WalkSpec:
        """The walk that restarts so."""
        return WalkSpec(automaton, self.tau, sigma=self.sigma)

    def at_random(self, automaton: str) -> WalkSpec:
        """The walk that searches for as many restarts, drawn at random."""
        if self.sigma == 0 or math.isinf(self.sigma):
            return self.by_sigma(automaton)
        return WalkSpec(automaton, self.tau, share=self.share)


class Searching(Enum):
    """Whether a method searches: never, where a suffix is shorter than sigma, or anyhow."""

    NEVER = 0
    BELOW_SIGMA = 1
    ANYHOW = 2


def _no_statistics() -> TokenStatistics:
    raise AssertionError("this setup knows no corpus")


def _no_distance() -> float:
    raise AssertionError("this setup knows no automaton")


@dataclass(frozen=True)
class Setup:
    """What all methods are evaluated with.

    The first automaton is the main one. `taus` are for walks that always search to restart,
    `restarts` for those that may look up suffixes. `weight` and `temperature` are None where they
    are to be calibrated. `statistics` counts the corpus's tokens, which takes a while: only who
    learns from them asks. `distance` is what two entries drawn at random have.
    """

    automata: tuple[str, ...]
    taus: Mapping[str, tuple[float, ...]]
    restarts: Mapping[str, tuple[Restart, ...]] = field(default_factory=dict)
    fractions: tuple[float, ...] = FRACTIONS
    weight: float | None = None
    temperature: float | None = None
    pointer_weight: float = 1.0
    statistics: Callable[[], TokenStatistics] = _no_statistics
    distance: Callable[[], float] = _no_distance


@dataclass(frozen=True)
class Calibrated:
    """What calibration found: facts for people and, for networks, their weights."""

    facts: Json
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def arrays_below(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with the prefix, without it."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


@dataclass(frozen=True)
class CurvePoint:
    """A point of a method's curve before it is measured.

    Without `spec` it is the LM alone. `gate` decides what is searched if the walk is stateless;
    where it is closed there are no candidates. `facts` are what the table of results shows. A
    method that searches just as another one does may name it: they share its passes.
    """

    method: str
    spec: WalkSpec | None
    mixing: Mixing | OnlineMixing
    gate: Gate | None = None
    facts: Json = field(default_factory=dict)
    searches_as: str | None = None

    @property
    def pass_name(self) -> str:
        """What its pass is called in live mode: points that search alike share one."""
        if self.spec is None:
            return "lm"
        if self.gate is None:
            return self.spec.label
        return f"{self.searches_as or self.method}-{self.facts['fraction']:g}"


class Method(ABC):
    """A way to predict tokens with an LM and, perhaps, an automaton.

    `baseline` is the method that its gain is stated against: the same but for the automaton.
    """

    name: str
    baseline = "knnlm"
    uses_queries = False
    uses_suffixes = False
    searching = Searching.ANYHOW
    learns = True
    """Whether it finds anything on held-out text."""
    text: tuple[TextExpert, ...] = ()
    """The models of text alone that it mixes in."""

    @abstractmethod
    def walks(self, setup: Setup) -> Sequence[WalkSpec]:
        """Walks that its points need."""

    def calibration_walks(self, setup: Setup) -> Sequence[WalkSpec]:
        """Walks over the calibration text that `calibrate` needs; by default, all."""
        return self.walks(setup)

    @abstractmethod
    def calibrate(self, scores: Scores | None, setup: Setup) -> Calibrated:
        """Find the constants on the calibration text; None if everything was given."""

    @property
    def is_walk(self) -> bool:
        """Whether it needs an automaton, if only for its codec."""
        setup = Setup(("any",), {"any": (math.inf,)}, {"any": (Restart(math.inf, 0.0),)})
        return bool(self.walks(setup))

    @abstractmethod
    def points(self, setup: Setup, calibrated: Calibrated) -> Iterator[CurvePoint]:
        """The points of the curve, from no saved search to the most."""
