"""A report as Markdown, in GitHub's dialect.

Not a template: how a text is fenced depends on what is in it, and blank lines mean something.
"""

import re
from collections.abc import Sequence

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

_MARKUP = re.compile(r"[\\`*_\[\]<>|#~&$!]")


def to_markdown(parts: Sequence[PagePart]) -> str:
    """The whole report."""
    return "\n\n".join(_part(part) for part in parts) + "\n"


def _part(part: PagePart) -> str:
    match part:
        case Heading(level, text):
            return f"{'#' * level} {_prose(text)}"
        case Paragraph(pieces, strong):
            text = "".join(_inline(piece) for piece in pieces)
            return f"**{text}**" if strong else text
        case Bullets(items):
            return "\n".join(f"- {_prose(item)}" for item in items)
        case Table():
            return _table(part)
        case Figure(path, caption):
            text = _prose(caption)
            return f"![{text}]({path.as_posix()})\n\n*{text}*"
        case Passage(text):
            return _fenced(text)


def _table(table: Table) -> str:
    rules = ["---" if i < table.texts else "---:" for i in range(len(table.header))]
    head = [_prose(name) for name in table.header]
    body = [[_cell(cell) for cell in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rules, *body])


def _cell(cell: Inline) -> str:
    # A table is cut at its pipes before code spans are found, and a backslash before one may
    # itself be escaped: a pipe is safe as an entity only, which code spans do not know.
    if isinstance(cell, Verbatim) and "|" in cell.text:
        return f"<code>{_entities(visible(cell.text))}</code>"
    return _inline(cell)


def _entities(text: str) -> str:
    """Text in which only letters, digits and spaces stand for themselves."""
    return "".join(one if one.isalnum() or one == " " else f"&#{ord(one)};" for one in text)


def _inline(piece: Inline) -> str:
    return _code_span(piece.text) if isinstance(piece, Verbatim) else _prose(piece)


def _prose(text: str) -> str:
    return _MARKUP.sub(lambda found: f"\\{found[0]}", visible(text))


def _code_span(text: str) -> str:
    shown = visible(text)
    if not shown:
        return "(nothing)"
    fence = "`" * (_longest_ticks(shown) + 1)
    # One space at both ends is taken away again by whoever renders it.
    edge = " " if shown.strip() and (shown[0] in " `" or shown[-1] in " `") else ""
    return f"{fence}{edge}{shown}{edge}{fence}"


def _fenced(text: str) -> str:
    shown = visible(text, lines=True)
    fence = "`" * max(3, _longest_ticks(shown) + 1)
    return f"{fence}text\n{shown}\n{fence}"


def _longest_ticks(text: str) -> int:
    return max((len(ticks) for ticks in re.findall("`+", text)), default=0)
