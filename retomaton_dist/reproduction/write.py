"""From the folder of all experiments to one report and one small file of results."""

from dataclasses import asdict
from pathlib import Path

from retomaton_dist.report.folder import read_evaluation
from retomaton_dist.report.render import write_pages
from retomaton_dist.reproduction.findings import Studies, find
from retomaton_dist.reproduction.page import TITLES, compose
from retomaton_dist.storage import canonical

EVALUATIONS = "evaluations"
FINISHED = "results.json"


def read_studies(out: Path) -> Studies:
    """The finished evaluations of the folder, in the order of the report."""
    folders = {name: out / EVALUATIONS / name for name in TITLES}
    return {
        name: read_evaluation(folder)
        for name, folder in folders.items()
        if (folder / FINISHED).exists()
    }


def write_comparison(out: Path) -> Path:
    """Write report.md, report.html, figures/ and results.json; return the HTML page.

    results.json holds what is worth keeping of everything: settings, rows and findings.
    """
    studies = read_studies(out)
    package = "retomaton_dist.reproduction"
    page = write_pages(out, "comparison.jinja", compose(studies, out), package)
    kept = {
        name: {"settings": study.settings, "results": study.results}
        for name, study in studies.items()
    }
    found = [asdict(finding) for finding in find(studies)]
    canonical.write(out / "results.json", {"findings": found, "evaluations": kept})
    return page
