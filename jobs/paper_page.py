"""The page of the experiments: our figures beside the paper's, as Markdown and as HTML."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, select_autoescape

from retomaton_dist.jobs.paper_claims import Studies, find
from retomaton_dist.jobs.paper_curves import PAPER, Curve, Curves, Study, level_at, per_state
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

Section = dict[str, Any]
Panels = Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]
"""Points by the title of a panel and the name of a curve."""


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
    """What is shown of one evaluation."""
    name, kind = entry["name"], entry.get("kind")
    section: Section = {"title": entry["title"], "study": study, "figure": f"{FIGURES}/{name}.png"}
    section["weak"] = study.weak_lm()
    if kind == "timed":
        draw(_saved_time(study), "fraction of kNN-LM's wall-clock saved", out / section["figure"])
        section["caption"] = "Wall-clock saved against searches saved, relative to kNN-LM."
        section["header"] = ("method", "FoSS", "wall-clock saved", "time beyond the LM saved")
        section["rows"] = [
            (curve_name(curve), *(f"{number:.3f}" for number in point))
            for curve, points in study.saved_times().items()
            for point in points
        ]
        return section
    # Of methods that the paper has no curve for, the evaluation's own report has figures.
    shown = ("retomaton",) if kind == "clusterings" else ("knnlm", "adaptret", "retomaton")
    sides = {"the paper": Curves.published(name), "here": study.curves}
    panels = {
        title: {
            curve_name(curve): [(point.foss, point.level.value) for point in points]
            for curve, points in curves.items()
            if curve[0] in shown
        }
        for title, curves in sides.items()
    }
    draw(panels, "perplexity", out / section["figure"])
    section["caption"] = "Perplexity by saved searches, in the paper and here. The scales differ."
    section["published"] = PAPER["published"][name.removesuffix("-strong")]
    levels = [f"FoSS {foss:g}" for foss in SHOWN_FOSS]
    section["header"] = ("method", "whose", *levels, "most saved", "FoSS 0 against kNN-LM")
    order = dict.fromkeys([*study.curves, *sides["the paper"]])
    section["rows"] = [
        (curve_name(curve), whose, *_cells(curves, curve))
        for curve in order
        for whose, curves in sides.items()
        if curve in curves
    ]
    return section


def _cells(curves: Curves, curve: Curve) -> list[str]:
    """Levels of a curve; ~ is between two points. The LM alone is the same at every FoSS."""
    points, base, cells = curves[curve], curves.at("knnlm @ 0"), []
    if curve[0] == "lm":
        points = [replace(points[0], foss=foss) for foss in SHOWN_FOSS]
    for foss in SHOWN_FOSS:
        level, exact = level_at(points, foss), any(point.foss == foss for point in points)
        cells.append(f"{'' if exact else '~'}{level.value:,.2f}" if level else DASH)
    most = f"{points[-1].level.value:,.2f} at {points[-1].foss:.2f}"
    first = level_at(points, 0.0)
    ratio = f"{first.value / base.value - 1:+.1%}" if first and base else DASH
    return [*cells, DASH if curve[0] == "lm" else most, ratio]


def _saved_time(study: Study) -> Panels:
    ours = {
        f"here, {curve_name(curve)}": [(foss, whole) for foss, whole, _ in points]
        for curve, points in study.saved_times().items()
    }
    return {"": {"y = x": [(0, 0), (1, 1)], **PAPER["saved-time"], **ours}}


def draw(panels: Panels, label: str, path: Path) -> None:
    """Curves over FoSS, a panel per title."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3 + 4.2 * len(panels), 5.4), layout="constrained")
    for axes, (title, curves) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        for name, points in curves.items():
            axes.plot(*zip(*points, strict=True), marker="o", label=name)
        # Curves that end at the LM's level leave the panel, or they would press others flat.
        lasting = [
            level for name, points in curves.items() if "Reto" in name for _, level in points
        ]
        lasting += [points[0][1] for points in curves.values()]
        if lasting:
            spread = max(max(lasting) - min(lasting), 0.05 * max(lasting))
            low, high = axes.get_ylim()
            axes.set_ylim(max(low, min(lasting) - spread / 5), min(high, max(lasting) + spread))
        axes.set(xlabel="fraction of saved searches (FoSS)", ylabel=label, title=title)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


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
