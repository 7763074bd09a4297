"""The points of an evaluation's curves, as results.json has them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from retomaton_dist.errors import DamagedStore

Interval = tuple[float, float]
# What wall-clock is split into.
PARTS = ("lm", "search", "walk", "rest", "total")


class Curve(NamedTuple):
    """What tells curves apart: the method, and its clustering if it has one."""

    method: str
    clustering: str | None


LM = Curve("lm", None)


@dataclass(frozen=True)
class Row:
    """One point of a curve. `seconds` splits its wall-clock, if it was run alone (live mode).

    `interval` is a 95 % confidence interval; `against` is the perplexity's ratio to that of
    `baseline` with all its searches. `new_perplexity` and `new_against` are the same without
    duplicates, None if there are none. `worse_documents` have a higher perplexity than with the LM
    alone; the worst of them has `worst_ratio` times as much.
    """

    method: str
    clustering: str | None
    tau: float | None
    sigma: float | None
    foss: float
    searches: int
    perplexity: float
    interval: Interval | None
    perplexity_per_word: float | None
    lambda_: float | None
    temperature: float | None
    pointer_weight: float | None
    baseline: str | None
    against: float | None
    against_interval: Interval | None
    new_perplexity: float | None
    new_against: float | None
    worse_documents: float | None
    worst_document: str | None
    worst_ratio: float | None
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
        against, new = item.get("against") or {}, item.get("without_duplicates") or {}
        worse = item.get("worse_than_lm") or {}
        flat = {
            **item,
            "method": item["method"],
            "lambda_": item.get("lambda"),
            "against": against.get("ratio"),
            "against_interval": against.get("interval"),
            "new_perplexity": new.get("perplexity"),
            "new_against": (new.get("against") or {}).get("ratio"),
            "worse_documents": worse.get("documents"),
            "worst_document": worse.get("worst"),
            "worst_ratio": worse.get("ratio"),
        }
        return Row(**{one.name: _READERS[one.type](flat.get(one.name)) for one in fields(Row)})
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


def main_curves(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """By method: the curve with the main clustering, or the only one."""
    wanted = {None, main_clustering(rows)}
    found = curves(rows).items()
    return {curve.method: points for curve, points in found if curve.clustering in wanted}


def full_retrieval(rows: Sequence[Row]) -> float | None:
    """Seconds beyond the LM that kNN-LM takes when it searches at every position."""
    whole = [row.retrieval for row in rows if row.method == "knnlm" and row.foss == 0]
    return next((seconds for seconds in whole if seconds), None)


def _interval(value: Any) -> Interval:
    low, high = value
    return float(low), float(high)


def _seconds(value: Any) -> dict[str, float]:
    return {name: float(value[name]) for name in PARTS}


def _or_none(read: Any) -> Any:
    return lambda value: None if value is None else read(value)


# By the type of the field. What is not optional must be there: None is no number.
_READERS: dict[Any, Any] = {
    str: str,
    int: int,
    float: float,
    str | None: _or_none(str),
    float | None: _or_none(float),
    Interval | None: _or_none(_interval),
    Mapping[str, float] | None: _or_none(_seconds),
}
