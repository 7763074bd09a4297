"""A report as one HTML page that needs nothing else: pictures inside, and no script."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from retomaton_dist.report.page import (
    Bullets,
    Figure,
    Heading,
    Inline,
    PagePart,
    Paragraph,
    Passage,
    Table,
    Verbatim,
    visible,
)

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  color: #1d2733; background: #f5f6f8; margin: 0; }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 2.5rem 4rem; background: #fff;
  box-shadow: 0 0 24px rgba(20, 30, 50, .07); }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 .75rem; padding-bottom: .3rem;
  border-bottom: 1px solid #dde2e8; }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .5rem; }
p.result { font-size: 1.15rem; padding: 1rem 1.25rem; background: #eef4fa;
  border-left: 4px solid #0072b2; border-radius: 0 4px 4px 0; }
figure { margin: 1.5rem 0; }
figure img { max-width: 100%; height: auto; display: block; margin: 0 auto; }
figcaption { color: #5a6675; font-size: .9rem; text-align: center; margin-top: .4rem; }
div.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .8rem; text-align: left; border-bottom: 1px solid #e4e8ee;
  vertical-align: top; }
th { background: #f0f3f7; font-weight: 600; }
td.number, th.number { text-align: right; white-space: nowrap; }
tbody tr:hover { background: #f8fafc; }
code, pre { font: .87em/1.5 ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace; }
code { background: #f0f3f7; padding: .1em .3em; border-radius: 3px; white-space: pre-wrap;
  overflow-wrap: anywhere; }
pre { background: #f0f3f7; padding: .9rem 1.1rem; border-radius: 4px; white-space: pre-wrap;
  overflow-wrap: anywhere; }
"""


def to_html(parts: Sequence[PagePart], folder: Path) -> str:
    """The whole report; figures are read from `folder`."""
    title = next((part.text for part in parts if isinstance(part, Heading)), "")
    body = "\n".join(_part(part, folder) for part in parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_prose(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _part(part: PagePart, folder: Path) -> str:
    match part:
        case Heading(level, text):
            return f"<h{level}>{_prose(text)}</h{level}>"
        case Paragraph(pieces, strong):
            kind = ' class="result"' if strong else ""
            return f"<p{kind}>{''.join(_inline(piece) for piece in pieces)}</p>"
        case Bullets(items):
            return f"<ul>{''.join(f'<li>{_prose(item)}</li>' for item in items)}</ul>"
        case Table():
            return _table(part)
        case Figure(path, caption):
            return _figure(folder / path, caption)
        case Passage(text):
            return f"<pre>{escape(visible(text, lines=True))}</pre>"


def _figure(path: Path, caption: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    text = _prose(caption)
    return (
        f'<figure><img src="data:image/png;base64,{data}" alt="{text}">'
        f"<figcaption>{text}</figcaption></figure>"
    )


def _table(table: Table) -> str:
    head = "".join(_tag("th", i, table, _prose(name)) for i, name in enumerate(table.header))
    rows = "\n".join(
        "<tr>"
        + "".join(_tag("td", i, table, _inline(cell)) for i, cell in enumerate(row))
        + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


def _tag(name: str, column: int, table: Table, content: str) -> str:
    kind = "" if column < table.texts else ' class="number"'
    return f"<{name}{kind}>{content}</{name}>"


def _inline(piece: Inline) -> str:
    if isinstance(piece, Verbatim):
        return f"<code>{escape(visible(piece.text))}</code>" if piece.text else "(nothing)"
    return _prose(piece)


def _prose(text: str) -> str:
    return escape(visible(text))
