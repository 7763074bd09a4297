"""Runs the commands that use a store: calibrate, evaluate and score texts, compare evaluations."""

import math
from collections.abc import Sequence
from typing import Any

from retomaton_dist.analysis.bootstrap import why_no_intervals
from retomaton_dist.api.evaluate import calibrate, evaluate, run_report
from retomaton_dist.api.score import score_files
from retomaton_dist.cli.command import Invocation
from retomaton_dist.cli.results import results_as_text
from retomaton_dist.dry_run.tables import aligned
from retomaton_dist.errors import BadInput
from retomaton_dist.evaluation.results import Evaluation, MeasuredPoint, measured_points
from retomaton_dist.generation.loaded import load_with

Row = dict[str, Any]
COMPARED = (
    "method", "states", "FoSS A", "FoSS B", "perplexity A", "perplexity B", "B to A",
    "95 % interval",
)  # fmt: skip
SCORED = ("perplexity", "LM alone", "FoSS", "tokens")


def calibrate_store(call: Invocation) -> int:
    """Calibrate, then say what for."""
    name = f"calibrate/{call.settings['calibrate'].name}"
    facts = calibrate(call.store, **call.keywords()).store.stage(name).facts
    print(f"{name}: {', '.join(facts['methods'])} on {facts['positions']:,} positions")
    for automaton, taus in facts["taus"].items():
        found = ", ".join(f"FoSS {foss} by tau {float(tau):g}" for foss, tau in taus.items())
        print(f"  {automaton}: {found}")
    return 0


def evaluate_text(call: Invocation) -> int:
    """Evaluate, then print the table and where the report is."""
    return _show(evaluate(call.store, **call.keywords()))


def report(call: Invocation) -> int:
    """Measure anew, write the report and print the table."""
    return _show(run_report(call.get("evaluation"), call.settings["report"]))


def _show(evaluation: Evaluation) -> int:
    print(results_as_text(evaluation))
    print(f"\nreport: {evaluation.path / 'report.html'}")
    return 0


def compare(call: Invocation) -> int:
    """Print a line for every point of A, beside B's point of the same method."""
    first, second = (Evaluation.open(call.get(name)) for name in ("first", "second"))
    texts = [
        (one.text.stage("tokenize").digest, one.text.stage("score").config["documents"])
        for one in (first, second)
    ]
    if texts[0] != texts[1]:
        raise BadInput(
            f"{first.path} and {second.path} evaluate different texts, or other documents of one: "
            f"their perplexities cannot be compared"
        )
    print(f"A: {first.path}\nB: {second.path}\n")
    print(compared_as_text(measured_points(first), measured_points(second)))
    note = why_no_intervals(first.settings["text"]["documents"])
    if note:
        print(f"\n{note}")
    return 0


def compared_as_text(first: Sequence[MeasuredPoint], second: Sequence[MeasuredPoint]) -> str:
    """A line for every point of the first that the second has a method for, as a table."""
    lines: list[tuple[str, ...]] = [COMPARED]
    for one in first:
        other = _partner(one.row, second)
        if other is not None:
            rows, bounds = (one.row, other.row), other.ratio_to(one)
            ratio = rows[1]["perplexity"] / rows[0]["perplexity"] - 1
            lines.append(
                (
                    rows[0]["method"],
                    " / ".join(sorted({row["clustering"] or "" for row in rows})),
                    *(f"{row['foss']:.3f}" for row in rows),
                    *(f"{row['perplexity']:.2f}" for row in rows),
                    f"{ratio:+.2%}",
                    f"{bounds[0] - 1:+.2%} to {bounds[1] - 1:+.2%}" if bounds else "",
                )
            )
    return "\n".join(aligned(lines, texts=(0, 1)))


def _partner(row: Row, others: Sequence[MeasuredPoint]) -> MeasuredPoint | None:
    """The point of the same method, and of the same states if there is one, nearest in FoSS."""
    alike = [other for other in others if other.row["method"] == row["method"]]
    alike = [one for one in alike if one.row["clustering"] == row["clustering"]] or alike
    return min(alike, key=lambda other: abs(other.row["foss"] - row["foss"]), default=None)


def score(call: Invocation) -> int:
    """Print a line per document as it is scored, then one for all."""
    settings = call.settings["score"]
    lm = load_with(call.store, call.settings["load"])
    documents = score_files(lm, settings)
    print(lm)
    print("".join(f"{name:>12}" for name in SCORED) + "  document")
    tokens = searches = 0
    log_p = log_lm = 0.0
    ratios: dict[str, float] = {}
    for name, scored in documents:
        levels = scored.perplexity, scored.perplexity_of_lm
        _show_scored(*levels, scored.foss, len(scored.tokens), name)
        ratios[name] = levels[0] / levels[1]
        tokens += len(scored.tokens)
        searches += int(scored.searched.sum())
        log_p += scored.total
        log_lm += float(scored.log_lm.astype("float64").sum())
    whole = math.exp(-log_p / tokens), math.exp(-log_lm / tokens)
    _show_scored(*whole, 1 - searches / tokens, tokens, "in all")
    worse = {name: ratio for name, ratio in ratios.items() if ratio > 1}
    if worse:
        worst = max(worse, key=worse.__getitem__)
        print(
            f"\n{len(worse):,} of {len(ratios):,} documents are worse than with the LM alone; the "
            f"worst, {worst}, by {worse[worst] - 1:+.1%}"
        )
    if settings.out:
        print(f"\ntokens: {settings.out}")
    return 0


def _show_scored(perplexity: float, lm: float, foss: float, tokens: int, name: str) -> None:
    print(f"{perplexity:12.2f}{lm:12.2f}{foss:12.3f}{tokens:12,}  {name}")
