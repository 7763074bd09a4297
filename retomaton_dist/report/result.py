"""The result of an evaluation in one plain sentence, with its numbers."""

from collections.abc import Mapping

from retomaton_dist.report.folder import Evaluation
from retomaton_dist.report.headline import Points, largest_foss, perplexity_at, targets
from retomaton_dist.report.names import curve_name, percent
from retomaton_dist.report.rows import Curve, Row, curves, main_clustering


def result_sentence(evaluation: Evaluation) -> str:
    """What came out; nothing is said about methods that did not run."""
    found = curves(evaluation.rows)
    ours: Curve = ("retomaton", main_clustering(evaluation.rows))
    results = evaluation.results
    many = "" if results["documents"] == 1 else "s"
    text = f"On {results['positions']:,} positions of {results['documents']:,} document{many}"
    parts = [_levels(found, ours), _change(found.get(ours, [])), _still_equal(found, ours)]
    return f"{text}, {'; '.join(part for part in parts if part)}."


def _levels(found: Mapping[Curve, Points], ours: Curve) -> str:
    """The perplexities themselves, all at FoSS 0 but for the LM's, which has none."""
    levels = {
        curve: reading.perplexity
        for curve in (ours, ("knnlm", None))
        if (reading := perplexity_at(found.get(curve, []), 0.0))
    }
    named = [f"{curve_name(curve)} has perplexity {level:,.2f}" for curve, level in levels.items()]
    searching = " and ".join(named) + " at FoSS 0" if named else ""
    alone = [f"LM alone has {row.perplexity:,.2f}" for row in found.get(("lm", None), [])[:1]]
    return ", the ".join([searching, *alone]) if named else "".join(f"the {one}" for one in alone)


def _change(points: Points) -> str:
    row = next((row for row in points if row.foss == 0 and row.against_knnlm is not None), None)
    if row is None or row.against_knnlm is None:
        return ""
    side = "below" if row.against_knnlm < 1 else "above"
    return f"RetoMaton is {percent(abs(1 - row.against_knnlm))} {side} kNN-LM{_margin(row)}"


def _margin(row: Row) -> str:
    if row.against_interval is None:
        return ""
    low, high = (100 * (bound - 1) for bound in row.against_interval)
    return f" (95 % interval of the change: {low:+.1f} % to {high:+.1f} %)"


def _still_equal(found: Mapping[Curve, Points], ours: Curve) -> str:
    target = next((one.perplexity for one in targets(found) if one.name == "knnlm"), None)
    if target is None or ours not in found:
        return ""
    crossing = largest_foss(found[ours], target)
    if crossing.foss is None:
        return "at no FoSS does it reach kNN-LM's perplexity"
    saved = percent(crossing.foss)
    if crossing.kind == "all":
        return (
            f"it is still no worse than kNN-LM with {saved} of the searches saved, its last point"
        )
    return f"it equals kNN-LM with {saved} of the searches saved"
