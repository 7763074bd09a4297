"""The page of the experiments: our figures beside the paper's, as Markdown and as HTML."""

import base64
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, select_autoescape

from retomaton_dist.jobs.paper_claims import (
    PAPER,
    Curve,
    Curves,
    PaperPoint,
    Studies,
    Study,
    find,
    level_at,
    per_state,
)
from retomaton_dist.storage import canonical, files

EVALUATIONS, FIGURES = "evaluations", "figures"
SHOWN_FOSS = (0.0, 0.5)
DASH = "–"  # noqa: RUF001 - a dash is meant
METHODS = {
    "lm": "LM alone",
    "knnlm": "kNN-LM",
    "knnlm+wide": "kNN-LM, as many candidates",
    "adaptret": "AdaptRet",
    "suffix": "suffixes alone",
}
# What the paper has a curve for; the rest is in the evaluation's own report.
DRAWN = ("knnlm", "adaptret", "retomaton")
SAVED = "fraction of saved searches (FoSS)"

Section = dict[str, Any]


def write_page(out: Path) -> Path:
    """Write report.md, report.html, figures/ and results.json of what the folder holds.

    results.json holds what is worth keeping of everything. Returns the HTML page.
    """
    folders = [out / EVALUATIONS / entry["name"] for entry in PAPER["evaluations"]]
    studies = {
        folder.name: Study.read(folder) for folder in folders if (folder / "results.json").exists()
    }
    (out / FIGURES).mkdir(parents=True, exist_ok=True)
    page = compose(studies, out)
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=select_autoescape(["html.jinja"]),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["embedded"] = lambda path: base64.b64encode(
        (out / path).read_bytes()
    ).decode()
    for kind in ("md", "html"):
        text = environment.get_template(f"paper_page.{kind}.jinja").render(page)
        files.write(out / f"report.{kind}", text.encode())
    kept = {
        name: {"settings": study.settings, "results": study.results}
        for name, study in studies.items()
    }
    found = [asdict(finding) for finding in find(studies)]
    canonical.write(out / "results.json", {"findings": found, "evaluations": kept})
    return out / "report.html"


def compose(studies: Studies, out: Path) -> Section:
    """What the templates show; figures are drawn below `out`."""
    findings = find(studies)
    verdicts = [finding.verdict for finding in findings]
    return {
        "findings": findings,
        "verdicts": {verdict: verdicts.count(verdict) for verdict in sorted({*verdicts})},
        "sections": [
            _section(entry, studies[entry["name"]], out)
            for entry in PAPER["evaluations"]
            if entry["name"] in studies
        ],
    }


def _section(entry: dict[str, Any], study: Study, out: Path) -> Section:
    name, kind = entry["name"], entry.get("kind")
    path = f"{FIGURES}/{name}.png"
    section: Section = {"title": entry["title"], "study": study, "figure": path}
    section["weak"] = study.weak_lm()
    if kind == "timed":
        _draw_saved_time(study, out / path)
        section["header"] = ("method", "FoSS", "wall-clock saved", "time beyond the LM saved")
        section["rows"] = [
            (curve_name(curve), *(f"{number:.3f}" for number in point))
            for curve, points in study.saved_times().items()
            for point in points
        ]
        return {**section, "caption": "Wall-clock saved against searches saved, beside kNN-LM."}
    section["published"] = PAPER["published"][name.removesuffix("-strong")]
    paper = Curves.published(name)
    table = _clusterings if kind == "clusterings" else _compared
    section["header"], section["rows"] = table(paper, study)
    _draw_beside(paper, study.curves, kind == "clusterings", out / path)
    what = "RetoMaton by clustering" if kind == "clusterings" else "Perplexity by saved searches"
    return {**section, "caption": f"{what}, in the paper and here. The scales differ."}


def _compared(paper: Curves, study: Study) -> tuple[list[str], list[list[str]]]:
    """Every method: its perplexities, and its ratio to kNN-LM with every search made."""
    main = study.curves.find("retomaton main")
    header = ["method"]
    for side in ("paper", "here"):
        header += [f"{side}, FoSS {foss:g}" for foss in SHOWN_FOSS]
        header += [f"{side}, most saved", f"{side}, FoSS 0 against kNN-LM"]
    rows = []
    for curve in study.curves:
        if curve[1] not in ("", "none") and (main is None or curve[1] != main[1]):
            continue
        there = (curve[0], "kmeans") if main and curve[1] == main[1] != "none" else curve
        sides = (paper, paper.get(there, [])), (study.curves, study.curves[curve])
        cells = [cell for side, points in sides for cell in _cells(side, curve, points)]
        rows.append([curve_name(curve), *cells])
    return header, rows


def _cells(side: Curves, curve: Curve, points: Sequence[PaperPoint]) -> list[str]:
    base, first = side.at("knnlm @ 0"), _read(curve, points, 0.0)[1]
    ratio = f"{first / base.value - 1:+.1%}" if first and base else DASH
    levels = [_read(curve, points, foss)[0] for foss in SHOWN_FOSS]
    return [*levels, _most_saved(curve, points), ratio]


def _read(curve: Curve, points: Sequence[PaperPoint], foss: float) -> tuple[str, float | None]:
    """A level as it is shown; ~ is between two points. The LM alone is the same at every FoSS."""
    exact = curve[0] == "lm" or any(point.foss == foss for point in points)
    level = points[0].level if curve[0] == "lm" and points else level_at(points, foss)
    if level is None:
        return DASH, None
    return f"{'' if exact else '~'}{level.value:,.2f}", level.value


def _most_saved(curve: Curve, points: Sequence[PaperPoint]) -> str:
    if not points or curve[0] == "lm":
        return DASH
    return f"{points[-1].level.value:,.2f} at {points[-1].foss:.2f}"


def _clusterings(paper: Curves, study: Study) -> tuple[list[str], list[list[str]]]:
    """Plain RetoMaton by clustering, theirs first."""
    automata = study.settings.get("automata", {})
    rows = []
    for whose, side in (("paper", paper), ("here", study.curves)):
        for curve in (curve for curve in side if curve[0] == "retomaton"):
            states = automata.get(curve[1], {}).get("states") if whose == "here" else None
            levels = [_read(curve, side[curve], foss)[0] for foss in SHOWN_FOSS]
            known = DASH if states is None else f"{states:,}"
            last = _most_saved(curve, side[curve])
            rows.append([whose, clustering_name(curve[1]), known, *levels, last])
    levels = [f"FoSS {foss:g}" for foss in SHOWN_FOSS]
    return ["whose", "clustering", "states", *levels, "most saved"], rows


def curve_name(curve: Curve) -> str:
    """A method, and its clustering if it has one."""
    method, clustering = curve
    plain, _, more = method.partition("+")
    named = METHODS.get(method) or METHODS.get(plain, plain.replace("retomaton", "RetoMaton"))
    if more and method not in METHODS:
        named += f" + {more.replace('+', ' + ')}"
    return f"{named} ({clustering_name(clustering)})" if clustering else named


def clustering_name(clustering: str) -> str:
    """A clustering by what it does; numbers are entries per state."""
    if clustering.startswith("kmeans"):
        return f"k-means, {per_state(clustering):,} per state"
    return "no clustering" if clustering == "none" else clustering


def _draw_beside(paper: Curves, ours: Curves, clusterings: bool, path: Path) -> None:
    """The paper's curves on the left and ours on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.4, 5.4), layout="constrained")
    for axes, curves, title in zip(
        figure.subplots(1, 2), (paper, ours), ("the paper", "here"), strict=True
    ):
        shown = ("retomaton",) if clusterings else DRAWN
        for curve, points in curves.items():
            if curve[0] in shown:
                levels = [point.level.value for point in points]
                label = clustering_name(curve[1]) if clusterings else curve_name(curve)
                axes.plot([point.foss for point in points], levels, marker="o", label=label)
        # Where a curve ends at the LM's level, the others would be pressed flat.
        low = [points[0].level.value for curve, points in curves.items() if curve[0] in shown]
        low += [
            p.level.value for c, points in curves.items() if c[0] == "retomaton" for p in points
        ]
        if low:
            spread = max(max(low) - min(low), 0.05 * max(low))
            axes.set_ylim(top=min(axes.get_ylim()[1], max(low) + spread))
        axes.set(xlabel=SAVED, ylabel="perplexity", title=title)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


def _draw_saved_time(study: Study, path: Path) -> None:
    """Saved wall-clock against FoSS: the paper's curves and ours."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 6), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linestyle=":", label="y = x")
    for name, points in PAPER["saved-time"].items():
        axes.plot(*zip(*points, strict=True), label=name, linestyle="--")
    for curve, saved in study.saved_times().items():
        foss, whole, _ = zip(*saved, strict=True)
        axes.plot(foss, whole, marker="o", label=f"here, {curve_name(curve)}")
    axes.set(xlabel=SAVED, ylabel="fraction of kNN-LM's wall-clock that is saved")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)
