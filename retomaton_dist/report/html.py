"""A report as one HTML page that needs nothing else: pictures inside, and no script.

What the page looks like is said in page.html, a template.
"""

import base64
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from retomaton_dist.report.page import Heading, PagePart, visible


def to_html(parts: Sequence[PagePart], folder: Path) -> str:
    """The whole report; figures are read from `folder`."""
    title = next((part.text for part in parts if isinstance(part, Heading)), "")
    page = _environment(folder).get_template("page.html")
    return page.render(title=title, parts=parts)


def _environment(folder: Path) -> Environment:
    """Templates in which every text is escaped, and a name that is not known is an error."""
    made = Environment(
        loader=PackageLoader("retomaton_dist.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "kind": lambda part: type(part).__name__,
        "visible": visible,
        "base64": lambda path: base64.b64encode((folder / path).read_bytes()).decode("ascii"),
    }
    return made
