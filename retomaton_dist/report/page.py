"""What a report's page is made of, before it becomes Markdown or HTML.

A plain `str` is prose and is escaped by whoever writes it out. `Verbatim` is text of a corpus or
of the user's: it is shown as code, with nothing in it that could act as markup.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Verbatim:
    """A piece of somebody else's text inside a line."""

    text: str


Inline = str | Verbatim
"""A piece of a line."""


@dataclass(frozen=True)
class Heading:
    """A title; level 1 is the report's own."""

    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    """Prose, with pieces of other text in it; `strong` for the result itself."""

    pieces: tuple[Inline, ...]
    strong: bool = False


@dataclass(frozen=True)
class Bullets:
    """A list of prose."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table. The first `texts` columns are text, all others numbers that stand to the right."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[Inline]]
    texts: int = 1


@dataclass(frozen=True)
class Figure:
    """A picture, by its path relative to the report, and what is seen on it."""

    path: Path
    caption: str


@dataclass(frozen=True)
class Passage:
    """Lines of somebody else's text, kept as they are."""

    text: str


PagePart = Heading | Paragraph | Bullets | Table | Figure | Passage


def prose(*pieces: Inline, strong: bool = False) -> Paragraph:
    """A paragraph of these pieces."""
    return Paragraph(pieces, strong)


def visible(text: str, lines: bool = False) -> str:
    """Text with nothing invisible in it: control and format characters become escapes.

    Ends of lines and tabs become arrows, unless `lines` are kept.
    """
    return "".join(_visible(character, lines) for character in text)


def shorten(text: str, longest: int) -> str:
    """Text with its middle left out if it is longer than this."""
    if len(text) <= longest:
        return text
    half = longest // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]} [... {left_out:,} characters ...] {text[-half:]}"


def _visible(character: str, lines: bool) -> str:
    if character.isprintable() or (lines and character in "\n\t"):
        return character
    arrows = {"\n": "⏎", "\t": "⇥"}
    escape = character.encode("unicode_escape", "backslashreplace").decode("ascii")
    return arrows.get(character, escape)
