"""Wall-clock that was saved, as a fraction of what kNN-LM takes when it searches everywhere."""

from collections.abc import Sequence
from dataclasses import dataclass

from retomaton_dist.report.rows import Curve, Row, curves, full_retrieval


@dataclass(frozen=True)
class SavedTime:
    """Of one point: its FoSS, and what it saves of all time and of the time beyond the LM."""

    foss: float
    whole: float
    retrieval: float


def saved_times(rows: Sequence[Row]) -> dict[Curve, list[SavedTime]]:
    """By curve of RetoMaton, by rising FoSS; nothing if kNN-LM was not timed."""
    timed = [row for row in rows if row.seconds is not None]
    retrieval = full_retrieval(timed)
    totals = [_total(row) for row in timed if row.method == "knnlm" and row.foss == 0]
    if not retrieval or not totals:
        return {}
    return {
        curve: [
            SavedTime(row.foss, 1 - _total(row) / totals[0], 1 - (row.retrieval or 0) / retrieval)
            for row in points
        ]
        for curve, points in curves(timed).items()
        if curve.method == "retomaton"
    }


def _total(row: Row) -> float:
    assert row.seconds is not None, "only rows that were timed"
    return row.seconds["total"]
