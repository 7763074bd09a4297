"""What `eval`, `report` and `compare` print of results."""

from collections.abc import Sequence
from typing import Any

from retomaton_dist.analysis.bootstrap import why_no_intervals
from retomaton_dist.dry_run.tables import aligned
from retomaton_dist.evaluation.ladder import AUTOMATON
from retomaton_dist.evaluation.results import Evaluation

Row = dict[str, Any]
HEAD = (
    "method", "states", "tau", "sigma", "FoSS", "perplexity", "matched baseline", "against it",
    "without duplicates", "worse documents",
)  # fmt: skip
LADDER_HEAD = (
    "", "FoSS", "perplexity", "against the line above", "without duplicates", "learned",
    "against the line above", "worse documents",
)  # fmt: skip
# Of each curve, the points nearest to these FoSS are printed; the report has all.
SHOWN_FOSS = (0.0, 0.5, 1.0)


def results_as_text(evaluation: Evaluation) -> str:
    """Some points of every curve, the ladders, and what a reader must know of them."""
    documents = evaluation.settings["text"]["documents"]
    blocks = [points_as_text(evaluation.rows)]
    blocks += [ladder_as_text(ladder) for ladder in evaluation.ladders]
    worse = [one for one in _last_points(evaluation) if one["worse_than_lm"]["documents"]]
    notes = [worse_as_text(one, documents) for one in worse]
    notes = notes or ["No document is worse than with the LM alone."]
    blocks.append("\n".join([*notes, *([few] if (few := why_no_intervals(documents)) else [])]))
    return "\n\n".join(blocks)


def points_as_text(rows: Sequence[Row]) -> str:
    """A line for each of the points that are shown."""
    lines = [_cells(row) for row in shown_points(rows)]
    return "\n".join(aligned(_filled([HEAD, *lines]), texts=(0, 1)))


def shown_points(rows: Sequence[Row]) -> list[Row]:
    """Of every curve, the points with the fewest, about half and the most searches saved."""
    curves: dict[tuple[str, str | None], list[Row]] = {}
    for row in rows:
        curves.setdefault((row["method"], row["clustering"]), []).append(row)
    chosen = [
        min(curve, key=lambda row: abs(row["foss"] - foss))
        for curve in curves.values()
        for foss in SHOWN_FOSS
    ]
    return [row for row in rows if any(row is one for one in chosen)]


def ladder_as_text(ladder: Row) -> str:
    """A ladder, and in words what its last line is."""
    lines = [LADDER_HEAD]
    for line in ladder["lines"]:
        online, learned = line["online"], line["learned"]
        lines.append(
            (
                line["name"],
                f"{online['foss']:.3f}",
                f"{online['perplexity']:.2f}",
                _change(online["change"]),
                _without_duplicates(online["without_duplicates"]),
                f"{learned['perplexity']:.2f}" if learned else "",
                _change(learned and learned["change"]),
                _worse(online["worse_than_lm"]),
            )
        )
    text = "\n".join([f"{ladder['title']}:", *aligned(_filled(lines), texts=(0,))])
    automaton = ladder["lines"][-1]["name"] == AUTOMATON
    own = (
        "\nThe last line is the automaton's own contribution; what it is for is replacing searches."
    )
    return text + (own if automaton else "")


def worse_as_text(row: Row, documents: int) -> str:
    """How many documents a method makes worse, in one sentence."""
    worse = row["worse_than_lm"]
    return (
        f"{worse['documents']:,} of {documents:,} documents are worse with {row['method']} than "
        f"with the LM alone; the worst, {worse['worst']}, by {worse['ratio'] - 1:+.1%}."
    )


def _last_points(evaluation: Evaluation) -> list[Row]:
    """What the last lines of the ladders show; without ladders, where each method searches most."""
    lines = [ladder["lines"][-1] for ladder in evaluation.ladders]
    cells = [line[column] for line in lines for column in ("online", "learned")]
    by_foss = sorted(evaluation.rows, key=lambda row: -row["foss"])
    most = {row["method"]: row for row in by_foss}
    return [cell for cell in cells if cell] if lines else list(most.values())


def _cells(row: Row) -> tuple[str, ...]:
    against = row["against"]
    return (
        row["method"],
        row["clustering"] or "",
        *("" if row[name] is None else f"{row[name]:g}" for name in ("tau", "sigma")),
        f"{row['foss']:.3f}",
        f"{row['perplexity']:.2f}",
        row["baseline"] if against else "",
        _change(against),
        _without_duplicates(row["without_duplicates"]),
        _worse(row["worse_than_lm"]),
    )


def _change(change: Row | None) -> str:
    if not change:
        return ""
    bounds = change["interval"]
    shown = f" ({bounds[0] - 1:+.1%} to {bounds[1] - 1:+.1%})" if bounds else ""
    return f"{change['ratio'] - 1:+.1%}{shown}"


def _without_duplicates(new: Row | None) -> str:
    if not new:
        return ""
    change = f" ({new['against']['ratio'] - 1:+.1%})" if new["against"] else ""
    return f"{new['perplexity']:.2f}{change}"


def _worse(worse: Row) -> str:
    return f"{worse['documents']:,}"


def _filled(lines: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """A table without the columns that hold nothing below their heads."""
    columns = [column for column in zip(*lines, strict=True) if any(column[1:])]
    return list(zip(*columns, strict=True))
