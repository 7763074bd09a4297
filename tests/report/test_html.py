"""Texts of others on the HTML page, wherever they stand."""

import pytest
from jinja2 import UndefinedError

from retomaton_dist.report.render import Figure, Table, Verbatim, environment, visible
from tests.report.browser import Page
from tests.report.made import HOSTILE

TABLE = ["div", "table", "thead", "tr", "th", "tbody", "tr", "td"]
# What a template says, the text's place in it being `text`, and the tags that it is made of.
BLOCKS = {
    "heading": ("{{ write.heading(2, text) }}", ["h2"]),
    "contents": ("{{ write.contents([text]) }}", ["nav", "ol", "li", "a"]),
    "p": ("{% call write.p() %}a {{ text }}{% endcall %}", ["p"]),
    "code": ("{{ write.code(text) }}", ["code"]),
    "result": ("{{ write.result([text]) }}", ["ul", "li"]),
    "bullets": ("{{ write.bullets(['a', text]) }}", ["ul", "li", "li"]),
    "terms": ("{{ write.terms([(text, text)]) }}", ["dl", "dt", "dd"]),
    "table": ("{{ write.table(table) }}", [*TABLE, "code"]),
    "columns": ("{{ write.columns([text], [['a']]) }}", TABLE),
    "cell": ("{{ write.cell('td', text, true) }}", ["td"]),
    "figure": ("{{ write.figure(figure, text) }}", ["figure", "img", "figcaption"]),
    "passage": ("{{ write.passage(text) }}", ["pre"]),
}


def page(folder, template):
    (folder / "picture.png").write_bytes(b"png")
    said = environment("html", folder).from_string(template)
    table = Table(("a",), [[Verbatim(HOSTILE)]])
    return Page(said.render(text=HOSTILE, table=table, figure=Figure("picture.png", {})))


@pytest.mark.parametrize("name", BLOCKS)
def test_text_is_shown_wherever_it_stands_and_is_never_a_tag(tmp_path, name):
    template, tags = BLOCKS[name]
    found = page(tmp_path, template)
    assert found.tags == tags
    assert visible(HOSTILE, lines=name == "passage") in found.text


@pytest.mark.parametrize("language", ["html", "md"])
def test_every_block_of_both_languages_is_tried(tmp_path, language):
    module = environment(language, tmp_path).globals["write"]
    known = {name for name in vars(module) if not name.startswith("_")}
    assert known == {*BLOCKS} - ({"cell"} if language == "md" else set())


def test_numbers_stand_to_the_right_of_texts(tmp_path):
    write = environment("html", tmp_path).globals["write"]
    text = write.table(Table(("a", "b"), [["c", "1"]]))
    assert '<td>c</td><td class="number">1</td>' in text


def test_an_empty_text_is_named(tmp_path):
    assert "(nothing)" in page(tmp_path, "{{ write.code('') }}").text


def test_a_name_that_a_template_does_not_know_is_an_error(tmp_path):
    with pytest.raises(UndefinedError):
        page(tmp_path, "{{ write.heading(1, nothing) }}")
