"""The points of an evaluation's curves, as results.json has them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from retomaton_dist.errors import DamagedStore

Interval = tuple[float, float]


class Curve(NamedTuple):
    """What tells curves apart: the method, and its clustering if it has one."""

    method: str
    clustering: str | None


LM = Curve("lm", None)
KNNLM = Curve("knnlm", None)
ADAPTRET = Curve("adaptret", None)


@dataclass(frozen=True)
class Row:
    """One point of a curve. `seconds` splits its wall-clock, if it was run alone (live mode).

    `interval` is a 95 % confidence interval; `against` is the perplexity's ratio to that of
    `baseline` at FoSS 0, with `against_interval` for it, and `against_knnlm` that to kNN-LM's,
    with `knnlm_interval`.
    `sigma` is for walks that look up suffixes, `share` for those that search at random instead.
    """

    method: str
    clustering: str | None
    tau: float | None
    sigma: float | None
    share: float | None
    foss: float
    searches: int
    perplexity: float
    interval: Interval | None
    perplexity_per_word: float | None
    interval_per_word: Interval | None
    reference_foss: float | None
    lambda_: float | None
    temperature: float | None
    pointer_weight: float | None
    baseline: str | None
    against: float | None
    against_interval: Interval | None
    against_knnlm: float | None
    knnlm_interval: Interval | None
    seconds: Mapping[str, float] | None

    @property
    def curve(self) -> Curve:
        """The curve that the point belongs to."""
        return Curve(self.method, self.clustering)

    @property
    def retrieval(self) -> float | None:
        """Seconds beyond the LM's forward pass."""
        return None if self.seconds is None else self.seconds["total"] - self.seconds["lm"]


def read_row(item: Mapping[str, Any], where: str) -> Row:
    """Check and convert a row of results.json; anything unfit is damage, found `where`."""
    try:
        against, searched = item.get("against") or {}, item.get("against_knnlm") or {}
        return Row(
            method=str(item["method"]),
            clustering=_text(item.get("clustering")),
            tau=_number(item.get("tau")),
            sigma=_number(item.get("sigma")),
            share=_number(item.get("share")),
            foss=float(item["foss"]),
            searches=int(item["searches"]),
            perplexity=float(item["perplexity"]),
            interval=_interval(item.get("interval")),
            perplexity_per_word=_number(item.get("perplexity_per_word")),
            interval_per_word=_interval(item.get("interval_per_word")),
            reference_foss=_number(item.get("reference_foss")),
            lambda_=_number(item.get("lambda")),
            temperature=_number(item.get("temperature")),
            pointer_weight=_number(item.get("pointer_weight")),
            baseline=_text(item.get("baseline")),
            against=_number(against.get("ratio")),
            against_interval=_interval(against.get("interval")),
            against_knnlm=_number(searched.get("ratio")),
            knnlm_interval=_interval(searched.get("interval")),
            seconds=_seconds(item.get("seconds")),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DamagedStore(f"{where} is no point of a curve ({error}); evaluate again") from error


def curves(rows: Sequence[Row]) -> dict[Curve, list[Row]]:
    """The points of each curve by rising FoSS, the best of each; without infinite perplexities."""
    made: dict[Curve, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.foss, row.perplexity)):
        points = made.setdefault(row.curve, [])
        if math.isfinite(row.perplexity) and (not points or points[-1].foss < row.foss):
            points.append(row)
    return {row.curve: made[row.curve] for row in rows if made[row.curve]}


def main_clustering(rows: Sequence[Row]) -> str | None:
    """The clustering that stands for RetoMaton: the first that is one, else none at all."""
    plain_first = sorted(rows, key=lambda row: row.method != "retomaton")
    names = [row.clustering for row in plain_first if row.clustering]
    return next((name for name in names if name != "none"), names[0] if names else None)


def full_retrieval(rows: Sequence[Row]) -> float | None:
    """Seconds beyond the LM that kNN-LM takes when it searches at every position."""
    whole = [row.retrieval for row in rows if row.method == "knnlm" and row.foss == 0]
    return next((seconds for seconds in whole if seconds), None)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _interval(value: Any) -> Interval | None:
    if value is None:
        return None
    low, high = value
    return float(low), float(high)


def _seconds(value: Any) -> dict[str, float] | None:
    if value is None:
        return None
    return {name: float(value[name]) for name in ("lm", "search", "walk", "rest", "total")}
