"""From the folder of an evaluation to its report."""

from pathlib import Path

from retomaton_dist.report.figures import draw_figures
from retomaton_dist.report.folder import read_evaluation
from retomaton_dist.report.html import to_html
from retomaton_dist.report.markdown import to_markdown
from retomaton_dist.report.sections import compose
from retomaton_dist.storage import files


def write_report(out: Path) -> Path:
    """Write report.md, report.html and figures/*.png into the folder; return the HTML page.

    All of it comes from the folder's JSON files, and replaces a report that is there.
    """
    evaluation = read_evaluation(out)
    parts = compose(evaluation, draw_figures(evaluation, out))
    files.write(out / "report.md", to_markdown(parts).encode())
    page = out / "report.html"
    files.write(page, to_html(parts, out).encode())
    return page
