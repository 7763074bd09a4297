"""The report on all experiments that a folder holds: our figures beside the paper's."""

from collections.abc import Sequence
from pathlib import Path

from retomaton_dist.report import names
from retomaton_dist.report.folder import EvaluationFiles
from retomaton_dist.report.headline import ReadOff, perplexity_at
from retomaton_dist.report.render import Cell, Table
from retomaton_dist.report.rows import KNNLM, LM, Curve, Row, curves, main_clustering
from retomaton_dist.reproduction.figures import (
    draw_clusterings,
    draw_compared,
    draw_saved_time,
    written,
)
from retomaton_dist.reproduction.findings import PaperFinding, Studies, find, weak_lm
from retomaton_dist.reproduction.paper import PUBLISHED, Published
from retomaton_dist.reproduction.wall_clock import saved_times
from retomaton_dist.storage.canonical import Json

TITLES = {
    "in-domain": "In-domain datastore",
    "adaptation": "Domain adaptation",
    "adaptation-strong": "Domain adaptation with a stronger LM",
    "fine-tuned": "A fine-tuned LM",
    "ablation-wiki": "Clusterings on Wikipedia",
    "ablation-law": "Clusterings on law",
    "wall-clock": "Wall-clock",
}
SHOWN_FOSS = (0.0, 0.5)
NOTES = (
    "Perplexities of the paper and of ours are of other texts, tokens and language models: compare "
    "ratios and shapes, not levels.",
    "Lambda, temperature, networks and thresholds are fitted on validation text; nothing is fitted "
    "or chosen on test text. The clustering of the experiments, k-means with 100 entries per "
    "state, is the paper's, not the ablation's winner.",
    "Holds, does not hold: told by 95 % intervals over documents of ratios to kNN-LM, which must "
    "not overlap; within chance: they do. No interval: told by the points alone.",
    "Weak LM: a look-up of the last few tokens, without any key, is below kNN-LM. What pointers "
    "gain then is context that the keys lack, and no verdict is given.",
    "~ is read off between two points of a curve; nothing is read off outside its points.",
)


def compose(studies: Studies, out: Path) -> Json:
    """What the report says, for comparison.jinja; figures are drawn below `out`."""
    findings = find(studies)
    return {
        "title": "The paper's experiments, and ours",
        "summary": summary(findings),
        "notes": NOTES,
        "findings": findings_table(findings) if findings else None,
        "studies": [
            {"title": title, **_made_with(studies[name]), **_compared(name, studies[name], out)}
            for name, title in TITLES.items()
            if name in studies
        ],
    }


def summary(findings: Sequence[PaperFinding]) -> str:
    """How many findings hold, and how many do not."""
    verdicts = [one.verdict for one in findings]
    counts = {verdict: verdicts.count(verdict) for verdict in sorted({*verdicts})}
    told = "; ".join(f"{verdict}: {count}" for verdict, count in counts.items())
    return f"{len(findings)} findings could be checked here. {told}".strip()


def findings_table(findings: Sequence[PaperFinding]) -> Table:
    """A row per finding."""
    body = [[one.study, one.claim, one.verdict, one.ours, one.paper] for one in findings]
    return Table(("experiment", "finding", "here it", "here", "the paper"), body, texts=5)


def _compared(name: str, study: EvaluationFiles, out: Path) -> Json:
    """The figure and the table of an experiment, and what the paper did."""
    if name == "wall-clock":
        figure, table = draw_saved_time(study.rows, out), time_table(study.rows)
        return {"paper": None, "figure": figure, "table": table}
    published = PUBLISHED[name.removesuffix("-strong")]
    if name.startswith("ablation"):
        figure = draw_clusterings(published.rows, study.rows, out, name)
        table = clusterings_table(published, study)
    else:
        figure = draw_compared(published.rows, study.rows, out, name)
        table = compared_table(published, study.rows)
    return {"paper": published, "figure": figure, "table": table}


def _made_with(study: EvaluationFiles) -> Json:
    """What we did; `weak` are the levels that show the LM to be too weak to tell."""
    settings, results = study.settings, study.results
    given = settings.get("evaluate", {})
    return {
        "model": str(settings.get("model", "")),
        "entries": settings.get("datastore", {}).get("entries"),
        "positions": results["positions"],
        "documents": results["documents"],
        "text": str((given.get("text") or [""])[0]),
        "held": str((given.get("calibrate_on") or ["nothing"])[0]),
        "weak": weak_lm(study.rows),
    }


def compared_table(published: Published, rows: Sequence[Row]) -> Table:
    """Every method: its perplexities, and its ratio to kNN-LM with every search made."""
    paper, ours = curves(published.rows), curves(rows)
    main = main_clustering(rows)
    header = ["method"]
    for side in ("paper", "here"):
        header += [f"{side}, FoSS {foss:g}" for foss in SHOWN_FOSS]
        header += [f"{side}, most saved", f"{side}, FoSS 0 against kNN-LM"]
    body: list[list[Cell]] = []
    for curve, points in ours.items():
        if curve.clustering not in (None, "none", main):
            continue
        there = paper.get(Curve(curve.method, "kmeans") if curve.clustering == main else curve, ())
        base = [perplexity_at(side.get(KNNLM, ()), 0.0) for side in (paper, ours)]
        levels = [*_levels(curve, there, base[0]), *_levels(curve, points, base[1])]
        body.append([names.curve_name(curve), *levels])
    return Table(tuple(header), body)


def _levels(curve: Curve, points: Sequence[Row], base: ReadOff | None) -> list[Cell]:
    # The LM alone is the same at every FoSS.
    read = [
        ReadOff(points[0].perplexity, False) if curve == LM and points else perplexity_at(points, f)
        for f in SHOWN_FOSS
    ]
    first = read[0]
    ratio = f"{first.perplexity / base.perplexity - 1:+.1%}" if first and base else names.DASH
    return [*(_level(one) for one in read), _last(curve, points), ratio]


def _last(curve: Curve, points: Sequence[Row]) -> str:
    """Where most searches are saved; what skips retrieval with the search ends at the LM alone."""
    if not points or curve == LM:
        return names.DASH
    return f"{names.number(points[-1].perplexity)} at {points[-1].foss:.2f}"


def clusterings_table(published: Published, study: EvaluationFiles) -> Table:
    """Plain RetoMaton by clustering, theirs first."""
    levels = (f"FoSS {foss:g}" for foss in SHOWN_FOSS)
    header = ("whose", "clustering", "states", *levels, "most saved")
    automata = study.settings.get("automata", {})
    body: list[list[Cell]] = []
    for whose, rows in (("paper", published.rows), ("here", study.rows)):
        for curve, points in curves(rows).items():
            if curve.method != "retomaton" or curve.clustering is None:
                continue
            known = automata.get(curve.clustering, {}) if whose == "here" else {}
            states = f"{known['states']:,}" if "states" in known else names.DASH
            read = [_level(perplexity_at(points, foss)) for foss in SHOWN_FOSS]
            cells = [whose, written(curve.clustering), states, *read, _last(curve, points)]
            body.append(list(cells))
    return Table(header, body, texts=2)


def time_table(rows: Sequence[Row]) -> Table:
    """Saved wall-clock by point."""
    body = [
        [names.curve_name(curve), *(f"{x:.3f}" for x in (one.foss, one.whole, one.retrieval))]
        for curve, saved in saved_times(rows).items()
        for one in saved
    ]
    return Table(("method", "FoSS", "wall-clock saved", "time beyond the LM saved"), body)


def _level(found: ReadOff | None) -> str:
    return ("~" if found and found.interpolated else "") + names.number(
        found.perplexity if found else None
    )
