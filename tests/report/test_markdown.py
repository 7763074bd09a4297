"""Text of others in Markdown, read back by the rules of CommonMark."""

import re
from html import unescape
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.report.render import Verbatim, environment, visible

PIECES = [
    "`",
    "```",
    "\n```\n",
    " ",
    "~",
    "|",
    "\\",
    "a",
    "\n",
    "\t",
    "<",
    "*",
    "_",
    "\x00",
    "\u202e",
]
HOSTILE = st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join)


TEMPLATES = environment("md", Path())
write = TEMPLATES.globals["write"]


def code_span(text):
    """What a code span that fills the whole text shows; a longer or shorter fence is no end."""
    fence = re.match("`+", text)[0]
    end = next(m for m in re.finditer("`+", text[len(fence) :]) if len(m[0]) == len(fence))
    inner = text[len(fence) : len(fence) + end.start()]
    assert len(fence) + end.end() == len(text)
    spaced = inner.startswith(" ") and inner.endswith(" ") and inner.strip(" ")
    return inner[1:-1] if spaced else inner


@given(HOSTILE)
def test_a_code_span_shows_the_text_and_nothing_else(text):
    assert code_span(write.code(text)) == visible(text)


@given(HOSTILE)
def test_a_code_span_in_a_table_stays_in_its_cell(text):
    made = write.columns(["a", "b"], [[Verbatim(text), "1"]]).splitlines()
    cell = made[2].removeprefix("| ").removesuffix(" | 1 |")
    assert "|" not in cell
    if cell.startswith("<code>"):
        inner = cell.removeprefix("<code>").removesuffix("</code>")
        assert unescape(inner) == visible(text)
        assert not re.search(r"[^\w &#;]", inner)
    else:
        assert code_span(cell) == visible(text)


@given(HOSTILE)
def test_a_passage_ends_only_at_its_own_fence(text):
    first, *inner, last = write.passage(text).removesuffix("\n").split("\n")
    fence = first.removesuffix("text")
    assert last == fence
    assert "\n".join(inner) == visible(text, lines=True)
    assert not any(re.fullmatch(f" {{0,3}}{fence}`*[ \t]*", line) for line in inner)


def test_markup_in_prose_is_escaped():
    prose = TEMPLATES.from_string("{% call write.p() %}{{ text }}{% endcall %}")
    said = prose.render(text="a_b *c* <d> `e` |")
    assert said == "a\\_b \\*c\\* \\<d\\> \\`e\\` \\|\n\n"
    assert write.code("") == "(nothing)"
