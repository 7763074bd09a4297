"""Ladders: what every source adds to those before it, with the same mixing and the same inputs.

The last line of a ladder is the automaton's own contribution: all else is there without it. One
ladder searches at every token, the other never. Beside weights that follow the text alone, a second
column has the same with a learned network (`+lambda`), where that was calibrated.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from retomaton_dist.evaluation.measure import Measured, Measurer
from retomaton_dist.methods.online import LAMBDA
from retomaton_dist.storage.canonical import Json

AUTOMATON = "+ automaton"
LM_ALONE = {"LM alone": "lm", "+ cache": "lm+cache", "+ n-grams": "lm+ngram+cache"}
LADDERS = {
    "With every search made": {
        **LM_ALONE,
        "+ kNN": "knnlm+ngram+cache",
        AUTOMATON: "retomaton+ngram+cache",
    },
    "Without any search": {
        **LM_ALONE,
        "+ suffix look-ups": "suffix+ngram+cache",
        AUTOMATON: "retomaton+suffix+ngram+cache",
    },
}
METHODS_OF_LINES = {name for lines in LADDERS.values() for name in lines.values()}
SEARCH_FREE = ("suffix", "retomaton+suffix")


@dataclass(frozen=True)
class Rungs:
    """The points that ladders are made of, by method. `automaton` is the main one."""

    automaton: str
    points: dict[str, Measured] = field(default_factory=dict)

    def offer(self, measured: Measured) -> None:
        """Keep the point if a line shows it: with every search made, or without any."""
        row = measured.row
        method = row["method"]
        if method.removesuffix(LAMBDA) not in METHODS_OF_LINES:
            return
        if row["clustering"] not in (self.automaton, None):
            return
        wanted = 0 if method.startswith(SEARCH_FREE) else row["positions"]
        if row["walk"] is not None and row["searches"] != wanted:
            return
        known = self.points.get(method)
        # Of several that never search, the one that looks up most.
        if known is None or float(row["tau"] or 0) > float(known.row["tau"] or 0):
            self.points[method] = measured

    def describe(self, measurer: Measurer) -> list[Json]:
        """The ladders, as results show them; one that only begins as another does is left out."""
        ladders = [
            {"title": title, "lines": list(self._lines(lines, measurer))}
            for title, lines in LADDERS.items()
        ]
        whole = [ladder for ladder in ladders if len(ladder["lines"]) > len(LM_ALONE)]
        return whole or [ladder for ladder in ladders[:1] if len(ladder["lines"]) > 1]

    def _lines(self, lines: dict[str, str], measurer: Measurer) -> Iterator[Json]:
        before: dict[str, Measured | None] = dict.fromkeys(("online", "learned"))
        for name, method in lines.items():
            rungs = {"online": self.points.get(method), "learned": self._learned(method)}
            if rungs["online"] is not None:
                cells = {
                    column: rung and _cell(rung, before[column], measurer)
                    for column, rung in rungs.items()
                }
                yield {"name": name, **cells}
            before = rungs

    def _learned(self, method: str) -> Measured | None:
        """The same point with a network; the LM alone has nothing to mix."""
        return self.points.get(method if method == "lm" else f"{method}{LAMBDA}")


def _cell(rung: Measured, before: Measured | None, measurer: Measurer) -> Json:
    """A line: its perplexity, and the change against the line before, if that is there."""
    row, other = rung.row, None if before is None else before.log_p
    return {
        "method": row["method"],
        "foss": row["foss"],
        "perplexity": row["perplexity"],
        "interval": row["interval"],
        "change": None if other is None else measurer.ratio(rung.log_p, other),
        "without_duplicates": measurer.without_duplicates(rung.log_p, other),
        "worse_than_lm": row["worse_than_lm"],
    }
