"""Pages from templates and data: one HTML page with its pictures inside, and Markdown.

What a page says is one template (report.jinja) in terms of blocks: headings, paragraphs, tables,
figures. blocks.html and blocks.md say how each block is written. Values that a template prints
are always escaped, so that text of a corpus stays text.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from retomaton_dist.report import names
from retomaton_dist.report.rows import PARTS
from retomaton_dist.storage import files

_HERE = "retomaton_dist.report"
_MARKUP = re.compile(r"[\\`*_\[\]<>|#~&$!]")


@dataclass(frozen=True)
class Verbatim:
    """Text of a corpus or of the user's in a table's cell: it is shown as code."""

    text: str


Cell = str | Verbatim


@dataclass(frozen=True)
class Table:
    """A table. The first `texts` columns are text, all others numbers that stand to the right."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    texts: int = 1


@dataclass(frozen=True)
class Figure:
    """A picture, by its path relative to the page, and facts that its caption needs."""

    path: str
    facts: Mapping[str, Any]


def write_pages(out: Path, body: str, data: Mapping[str, Any], package: str = _HERE) -> Path:
    """Write report.md and report.html of a template of `package`; return the HTML page.

    The template's `data` must have a `title`; figures are read from `out`.
    """
    markdown = environment("md", out, package).get_template(body).render(data)
    files.write(out / "report.md", (markdown.rstrip("\n") + "\n").encode())
    html = environment("html", out, package).get_template("page.html").render(data, body=body)
    page = out / "report.html"
    files.write(page, html.encode())
    return page


def environment(language: Literal["html", "md"], folder: Path, package: str = _HERE) -> Environment:
    """Templates whose `write` has the blocks of this language; an unknown name is an error."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(_HERE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        extensions=["jinja2.ext.do"],
        finalize=_visible_in_html if language == "html" else _escaped_in_markdown,
    )
    made.filters |= {
        # How things are called and written.
        "change": names.change,
        "change_interval": names.change_interval,
        "change_with": names.change_with,
        "clustering": names.clustering_name,
        "count": lambda value: f"{value:,}",
        "interval": names.interval,
        "method": names.method_name,
        "number": names.number,
        "percent": names.percent,
        "point": names.point_name,
        "seconds": lambda found: [names.number(found[part]) for part in PARTS],
        "share_of": names.share_of,
        "short": names.short,
        "filled": filled,
        "by_factor": lambda pairs: dict(map(tuple, pairs)),
        "slug": lambda title: re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")),
        "verbatim": Verbatim,
        # For HTML, where Jinja escapes what is not Markup.
        "lines": lambda text: escape(visible(text, lines=True)),
        "embedded": lambda path: _embedded(folder / path),
        # For Markdown, where nothing else does.
        "one_line": lambda text: Markup(re.sub(r"\s*\n\s*", " ", text.strip())),  # noqa: S704
        "code_span": code_span,
        "fenced": fenced,
        "table_row": table_row,
    }
    made.globals["write"] = made.get_template(f"blocks.{language}").module
    return made


def filled(header: Sequence[str], rows: Sequence[Sequence[Cell]], texts: int) -> Table:
    """A table without the columns of numbers that hold nothing but dashes."""
    kept = [
        column
        for column in range(len(header))
        if column < texts or any(row[column] != names.DASH for row in rows)
    ]
    body = [[row[column] for column in kept] for row in rows]
    return Table(tuple(header[column] for column in kept), body, texts)


def visible(text: str, lines: bool = False) -> str:
    """Text with nothing invisible in it: control and format characters become escapes.

    Ends of lines and tabs become arrows, unless `lines` are kept.
    """
    return "".join(_visible(character, lines) for character in text)


def code_span(text: str) -> Markup:
    """Text as code inside a line of Markdown."""
    shown = visible(text)
    if not shown:
        return Markup("(nothing)")
    fence = "`" * (_longest_ticks(shown) + 1)
    # One space at both ends is taken away again by whoever renders it.
    edge = " " if shown.strip() and (shown[0] in " `" or shown[-1] in " `") else ""
    return Markup(f"{fence}{edge}{shown}{edge}{fence}")  # noqa: S704 - fenced, so it is code


def fenced(text: str) -> Markup:
    """Lines of text as a block of code of Markdown, in a fence that is not in them."""
    shown = visible(text, lines=True)
    fence = "`" * max(3, _longest_ticks(shown) + 1)
    return Markup(f"{fence}text\n{shown}\n{fence}")  # noqa: S704 - fenced, so it is code


def table_row(cells: Sequence[Cell]) -> Markup:
    """A line of a Markdown table."""
    written = [_markdown_cell(cell) for cell in cells]
    return Markup(f"| {' | '.join(written)} |")  # noqa: S704 - every cell is escaped


def _markdown_cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return _escaped_in_markdown(cell)
    # A table is cut at its pipes before code spans are found, and a backslash before one may
    # itself be escaped: a pipe is safe as an entity only, which code spans do not know.
    if "|" in cell.text:
        shown = visible(cell.text)
        safe = (one if one.isalnum() or one == " " else f"&#{ord(one)};" for one in shown)
        return f"<code>{''.join(safe)}</code>"
    return code_span(cell.text)


def _escaped_in_markdown(value: Any) -> Markup:
    if isinstance(value, Markup):
        return value
    text = _MARKUP.sub(lambda found: f"\\{found[0]}", visible(str(value)))
    return Markup(text)  # noqa: S704 - escaped for Markdown


def _visible_in_html(value: Any) -> str:
    return value if isinstance(value, Markup) else visible(str(value))


def _visible(character: str, lines: bool) -> str:
    if character.isprintable() or (lines and character in "\n\t"):
        return character
    arrows = {"\n": "⏎", "\t": "⇥"}
    escaped = character.encode("unicode_escape", "backslashreplace").decode("ascii")
    return arrows.get(character, escaped)


def _longest_ticks(text: str) -> int:
    return max((len(ticks) for ticks in re.findall("`+", text)), default=0)


def _embedded(picture: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode('ascii')}"
