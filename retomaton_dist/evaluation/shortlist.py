"""The points that a closer look is worth: few, so that all their tokens fit in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from retomaton_dist.analysis.gains import Compared
from retomaton_dist.analysis.reliability import reliability
from retomaton_dist.engine.online import log_target
from retomaton_dist.engine.scores import Scores
from retomaton_dist.evaluation.measure import BASELINES, Measured, walked_by
from retomaton_dist.methods.method import CurvePoint
from retomaton_dist.storage.canonical import Json

# Runs are shown for the plain walk that saves about so many searches.
SHOWN_FOSS = 0.5
# Of each curve: without saved searches, with about half, and with the most.
WANTED_FOSS = (0.0, SHOWN_FOSS, 1.0)
PLAIN = "retomaton"
COMPARED = (
    "knnlm", PLAIN, "retomaton+lambda", "lm+ngram+cache",
    *(f"{walk}+ngram+cache{learned}" for walk in (PLAIN, "retomaton+suffix")
      for learned in ("", "+lambda")),
)  # fmt: skip


@dataclass(frozen=True)
class ShortlistedPoint:
    """A point with what it came to, and the scores that tell."""

    point: CurvePoint
    measured: Measured
    scores: Scores

    @property
    def foss(self) -> float:
        """Its fraction of saved searches."""
        found: float = self.measured.row["foss"]
        return found

    @property
    def baselines(self) -> list[str]:
        """What it is compared with, the fairest first; a method is not its own baseline."""
        names = (self.measured.row["baseline"], "knnlm", "lm")
        return [name for name in names if name != self.point.method]

    @property
    def facts(self) -> Json:
        """Which point it is."""
        names = ("method", "clustering", "tau", "sigma", "foss")
        return {name: self.measured.row[name] for name in names}


@dataclass(frozen=True)
class Shortlist:
    """Of every method of `COMPARED`, the points whose FoSS are nearest to those wanted.

    Only walks of the main `automaton` count; of baselines, the point with all its searches.
    """

    automaton: str
    nearest: dict[tuple[str, float], ShortlistedPoint] = field(default_factory=dict)
    whole: dict[str, ShortlistedPoint] = field(default_factory=dict)

    def offer(self, listed: ShortlistedPoint) -> None:
        """Keep the point if it is nearer than what was kept before."""
        row = listed.measured.row
        method, clustering = row["method"], row["clustering"]
        if method in BASELINES:
            self.whole.setdefault(method, listed)
        if method not in COMPARED or clustering not in (self.automaton, None):
            return
        for foss in WANTED_FOSS if clustering else WANTED_FOSS[:1]:
            best = self.nearest.get((method, foss))
            if best is None or abs(listed.foss - foss) < abs(best.foss - foss):
                self.nearest[method, foss] = listed

    @property
    def scores(self) -> Scores:
        """Those of any point: documents, positions and tokens are the same of all."""
        return self.with_baselines()[0].scores

    @property
    def shown(self) -> ShortlistedPoint | None:
        """The plain walk whose runs are shown."""
        return self.nearest.get((PLAIN, SHOWN_FOSS))

    def each_once(self) -> list[ShortlistedPoint]:
        """Every point that was kept, though it may be the nearest to several FoSS."""
        return list(
            {(method, item.foss): item for (method, _), item in self.nearest.items()}.values()
        )

    def reliabilities(self) -> list[Json]:
        """Of every point and baseline: how well it knows how often the LM's favourite comes."""
        return [{**one.facts, **_reliability(one)} for one in self.with_baselines()]

    def with_baselines(self) -> list[ShortlistedPoint]:
        """The baselines that ran, and every point that was kept."""
        points = {(one.point.method, one.foss): one for one in self.whole.values()}
        points |= {(one.point.method, one.foss): one for one in self.each_once()}
        return list(points.values())

    def compared(self) -> Iterator[Compared]:
        """Every point that was kept, beside its baseline."""
        for listed in self.each_once():
            ran = (self.whole[name] for name in listed.baselines if name in self.whole)
            baseline = next(ran, None)
            if baseline is not None:
                facts = {**listed.facts, "against": baseline.facts}
                measured = listed.measured
                yield Compared(facts, measured.log_p, baseline.measured.log_p, measured.walked)


def _reliability(listed: ShortlistedPoint) -> Json:
    scores = listed.scores
    walked = walked_by(listed.point, scores)
    asked = scores.of_favourites(), walked.of_favourites()
    log_p = log_target(listed.point.mixing, scores, walked, scores.document, asked)
    return reliability(log_p, scores.token == scores.favourite)
