"""Texts of others on the HTML page, wherever they stand."""

from pathlib import Path
from typing import get_args

import pytest

from retomaton_dist.report.html import to_html
from retomaton_dist.report.page import (
    Bullets,
    Figure,
    Heading,
    PagePart,
    Passage,
    Table,
    Verbatim,
    prose,
    visible,
)
from tests.report.browser import Page
from tests.report.made import HOSTILE

PICTURE = Path("picture.png")
# Each with the tags that it is made of.
PARTS = [
    (Heading(2, HOSTILE), ["h2"]),
    (prose(HOSTILE), ["p"]),
    (prose("a ", Verbatim(HOSTILE), strong=True), ["p", "code"]),
    (Bullets(("a", HOSTILE)), ["ul", "li", "li"]),
    (Table((HOSTILE,), [["a"]]), ["div", "table", "thead", "tr", "th", "tbody", "tr", "td"]),
    (Table(("a",), [[HOSTILE]]), ["div", "table", "thead", "tr", "th", "tbody", "tr", "td"]),
    (Figure(PICTURE, HOSTILE), ["figure", "img", "figcaption"]),
    (Passage(HOSTILE), ["pre"]),
]


def page(folder, part):
    (folder / PICTURE).write_bytes(b"png")
    return Page(to_html([part], folder))


@pytest.mark.parametrize(("part", "tags"), PARTS)
def test_text_is_shown_wherever_it_stands_and_is_never_a_tag(tmp_path, part, tags):
    found = page(tmp_path, part)
    assert found.tags[found.tags.index("main") + 1 :] == tags
    assert visible(HOSTILE, lines=isinstance(part, Passage)) in found.text


def test_every_kind_of_part_has_its_place_on_the_page():
    assert {type(part) for part, _ in PARTS} == {*get_args(PagePart)}


def test_the_title_is_the_first_heading(tmp_path):
    text = to_html([prose("a"), Heading(1, "A < B"), Heading(2, "C")], tmp_path)
    assert "<title>A &lt; B</title>" in text


def test_numbers_stand_to_the_right_of_texts(tmp_path):
    text = to_html([Table(("a", "b"), [["c", "1"]])], tmp_path)
    assert '<td>c</td><td class="number">1</td>' in text


def test_an_empty_text_is_named(tmp_path):
    assert "(nothing)" in page(tmp_path, prose(Verbatim(""))).text
