"""From the folder of an evaluation to its report."""

from pathlib import Path

from retomaton_dist.report.data import report_data
from retomaton_dist.report.figures import draw_figures
from retomaton_dist.report.folder import read_evaluation
from retomaton_dist.report.render import write_pages


def write_report(out: Path) -> Path:
    """Write report.md, report.html and figures/*.png into the folder; return the HTML page.

    All of it comes from the folder's JSON files, and replaces a report that is there.
    """
    evaluation = read_evaluation(out)
    return write_pages(out, "report.jinja", report_data(evaluation, draw_figures(evaluation, out)))
