"""The report as a reader gets it: figures, Markdown and HTML from an evaluation's JSON files."""

import os
import re

import pytest

from retomaton_dist.report.render import visible
from retomaton_dist.report.write import write_report
from tests.report import made
from tests.report.browser import Page

ALL_FIGURES = {"curves", "ratio", "wall_clock", "runs", "reliability"}
SIZE = "store of 81,378 entries, 6,026 tokens of calibration text"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A live report whose every text is hostile."""
    content = made.files(live=True, text=made.HOSTILE)
    for row in content["results"]["rows"]:
        row["worse_than_lm"] |= {"worst": made.HOSTILE}
    folder = made.write(tmp_path_factory.mktemp("out"), content)
    assert write_report(folder) == folder / "report.html"
    return folder


def markdown(folder):
    return (folder / "report.md").read_text()


def pictures(page):
    return [link for link in page.links if link.startswith("data:image/png;base64,")]


def test_every_figure_is_drawn_and_shown_in_both_reports(reports):
    drawn = {path.stem for path in (reports / "figures").iterdir()}
    assert drawn == ALL_FIGURES
    assert all(
        (reports / f"figures/{name}.png").read_bytes().startswith(PNG) for name in ALL_FIGURES
    )
    assert {*re.findall(r"\]\(figures/(\w+)\.png\)", markdown(reports))} == ALL_FIGURES
    page = Page((reports / "report.html").read_text())
    assert len(pictures(page)) == len(ALL_FIGURES)


def test_the_page_needs_nothing_from_outside(reports):
    page = Page((reports / "report.html").read_text())
    inside = {link for link in page.links if link.startswith("#")}
    assert inside | {*pictures(page)} == {*page.links}
    assert not {"script", "link", "iframe", "object"} & {*page.tags}


def test_names_of_documents_are_shown_on_the_page_and_never_act(reports):
    page = Page((reports / "report.html").read_text())
    assert "script" not in page.tags
    assert visible(made.HOSTILE) in page.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", page.text)


def test_texts_of_others_in_markdown_are_escaped_or_inside_code(reports):
    text = markdown(reports)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", text)
    outside = re.sub(r"(?ms)^(`{3,})text\n.*?^\1$", "", text)
    outside = re.sub(r"<code>[\w &#;]*</code>", "", outside)
    outside = re.sub(r"(?<![`\\])(`+)(?!`)(.*?)(?<!`)\1(?!`)", "", outside)
    assert r"\<script\>" in outside
    assert not re.search(r"(?<!\\)<", outside)


def test_tables_of_markdown_have_as_many_cells_in_every_row(reports):
    tables = re.findall(r"(?m)(?:^\|.*\|$\n?)+", markdown(reports))
    assert len(tables) > 6
    for table in tables:
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(counts) == 1


def test_the_title_says_what_was_evaluated_with_what_and_when(tmp_path):
    folder = made.write(tmp_path / "out", made.files())
    os.utime(folder / "settings.json", (0, 1_800_000_000))
    write_report(folder)
    title = "test.en and 1 more with my.store (train.en, gpt2), 15 January 2027"
    assert markdown(folder).startswith(f"# {title}\n")
    page = (folder / "report.html").read_text()
    assert f"<title>{title}</title>" in page
    assert f"<h1>{title}</h1>" in page


def test_what_an_evaluation_did_not_note_is_left_out_of_the_title(tmp_path):
    content = made.small_files()
    for name in ("model", "corpus"):
        del content["settings"][name]
    folder = made.write(tmp_path / "out", content)
    os.utime(folder / "settings.json", (0, 1_800_000_000))
    write_report(folder)
    assert markdown(folder).startswith("# test.en and 1 more with my.store, 15 January 2027\n")


def test_foss_is_explained_before_the_result_that_uses_it(reports):
    _, about, result, *_ = markdown(reports).split("\n\n")
    assert about.startswith("1,000 tokens of 40 documents. ")
    assert "FoSS is the fraction of saved searches" in about
    assert "searches" in result


def test_the_headline_says_the_result_in_numbers_and_the_size_of_the_store(reports):
    result = markdown(reports).split("\n\n")[2].splitlines()
    level = "RetoMaton + lambda has perplexity 65.00, 94.1 % below the LM alone (1,100.00)"
    assert result[0] == f"- **{level}; {SIZE}.**"
    own = "With every search made, the automaton itself changes the perplexity by -7.9 %"
    assert result[1].startswith(f"- **{own} (95 % interval -9.9 % to -5.9 %), from 76.00 to 70.00;")
    replaced = "The automaton replaces 80.0 % of the searches at +10.5 % (95 % interval +8.5 % to"
    assert result[3].startswith(f"- **{replaced}")
    assert "no worse up to 53.3 %" in result[3]
    assert all(SIZE in line for line in result[:-1])
    assert "With RetoMaton + lambda, 2 of 40 documents are worse" in result[-1]


def test_ladders_stand_first_and_say_what_the_automaton_adds_and_is_for(tmp_path):
    content = made.files()
    content["results"]["ladders"] = made.ladders()
    folder = made.write(tmp_path / "out", content)
    write_report(folder)
    text = markdown(folder)
    assert text.index("### With every search made") < text.index("figures/curves.png")
    lines = text.splitlines()
    last = "| + automaton | 0.000 | 76.00 | -5.0 % (-6.0 % to -4.0 %) | 77.00 (-5.0 %) "
    assert f"{last}| 66.24 | -8.0 % (-9.0 % to -7.0 %) | 67.24 (-8.0 %) | 2 |" in lines
    assert f"{last}| 2 |" in lines, "nothing was learned for the second ladder"
    assert "The last line is the automaton's own contribution" in text
    assert "What the automaton is for is replacing searches" in text
    result = text.split("\n\n")[2]
    own = "the automaton itself changes the perplexity by -5.0 % (95 % interval -6.0 % to -4.0 %)"
    alone = f"With every search made, {own}, from 80.00 to 76.00"
    assert f"{alone}; store of 81,378 entries, no calibration." in result
    assert f"With every search made (learned mixing), {own.replace('5', '8', 1)[:-35]}" in result
    assert f"Without any search, {own}" in result


def test_a_ladder_without_automaton_claims_nothing_for_it(tmp_path):
    content = made.small_files()
    content["results"]["ladders"] = [
        {"title": "With every search made", "lines": made.ladders()[0]["lines"][:3]}
    ]
    folder = made.write(tmp_path / "out", content)
    write_report(folder)
    assert "| + n-grams | 0.000 | 100.00 |" in markdown(folder)
    assert "automaton" not in markdown(folder).partition("## ")[0]


def test_fewer_than_20_documents_are_said_to_have_no_intervals(tmp_path):
    content = made.small_files()
    content["results"] |= {"documents": 12}
    folder = made.write(tmp_path / "out", content)
    write_report(folder)
    said = "The text has 12 documents: intervals are given from 20 documents on."
    assert said in markdown(folder).split("\n\n")[2]


def test_contents_lead_to_every_section(reports):
    text = markdown(reports)
    listed = re.findall(r"(?m)^\d+\. \[(.*)\]\(#(.*)\)$", text)
    assert [title for title, _ in listed] == re.findall("(?m)^## (.*)$", text)
    page = (reports / "report.html").read_text()
    assert re.findall('<h2 id="([^"]*)">', page) == [anchor for _, anchor in listed]
    assert re.findall('href="#([^"]*)"', page) == [anchor for _, anchor in listed]


def test_calibration_is_a_table_with_a_row_for_each_constant(reports):
    lines = markdown(reports).splitlines()
    assert "| kNN-LM | – | 0.4375 | 8 | – | – | – | – | – |" in lines  # noqa: RUF001
    assert (
        "| RetoMaton + suffix | kmeans, sigma 2 | 0.5 | 4 | 1 | – | – | – | – |"  # noqa: RUF001
        in lines
    )


def test_the_main_table_has_baselines_duplicates_and_worse_documents(reports):
    lines = markdown(reports).splitlines()
    line = next(line for line in lines if line.startswith("| RetoMaton | kmeans"))
    assert line == (
        "| RetoMaton | kmeans (31,415) | kNN-LM, as many candidates | 0.000 | 70.00 | "
        "-7.9 % (-9.9 % to -5.9 %) | 71.00 (-6.9 %) | 2, +25.0 % at most | 0.533 |"
    )
    line = next(line for line in lines if line.startswith(r"| RetoMaton + lambda | kmeans"))
    assert "| kNN-LM + lambda | 0.000 | 65.00 | -9.7 %" in line
    assert line.endswith("| 0.600 |")


def test_without_duplicates_there_is_a_sentence_in_place_of_the_column(tmp_path):
    content = made.files()
    for row in content["results"]["rows"]:
        row["without_duplicates"] = None
    folder = made.write(tmp_path / "out", content)
    write_report(folder)
    assert "without duplicates |" not in markdown(folder)
    assert "No evaluated document is in the corpus or in the calibration text" in markdown(folder)


def test_what_is_needed_to_repeat_it_is_there(reports):
    text = markdown(reports)
    for fact in ("2.9.9", "0123abcd", "31415", "0.4375", "1024"):
        assert fact in text
    assert "retomaton eval my.store --text 'a text'" in text
    assert "86.4 % of the 220 tokens" in text


def test_a_sweep_reports_the_whole_pass_and_no_saved_time(tmp_path):
    folder = made.write(tmp_path / "out", made.files())
    write_report(folder)
    assert not (folder / "figures/wall_clock.png").exists()
    assert "the one pass that served all points" in markdown(folder)


def test_a_report_of_the_lm_alone_leaves_everything_else_out(tmp_path):
    folder = made.write(tmp_path / "out", made.small_files())
    (folder / "analysis.json").unlink()
    write_report(folder)
    assert [path.name for path in (folder / "figures").iterdir()] == ["curves.png"]
    said = "- **The LM alone has perplexity 1,100.00; store of 81,378 entries, no calibration.**"
    assert said in markdown(folder)
    titles = re.findall("(?m)^## (.*)$", markdown(folder))
    assert len(titles) == 3  # all points, settings, words


def test_a_figure_that_no_longer_applies_is_removed(tmp_path):
    runs = {"runs": made.files()["analysis"]["runs"]}
    folder = made.write(tmp_path / "out", made.small_files() | {"analysis": runs})
    write_report(folder)
    assert (folder / "figures/runs.png").exists()
    made.write(folder, {"analysis": {}})
    write_report(folder)
    assert not (folder / "figures/runs.png").exists()
    assert "Search-free runs" not in markdown(folder)


def test_the_same_results_give_the_same_bytes(tmp_path):
    pages = [write_report(made.write(tmp_path / name, made.small_files())) for name in "ab"]
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_an_unknown_method_is_shown_under_its_own_name(tmp_path):
    content = made.small_files()
    content["results"]["rows"].append(made.row("mine", "kmeans", 0.0, 60.0, tau=2))
    folder = made.write(tmp_path / "out", content)
    write_report(folder)
    assert "| mine | kmeans (31,415) | kNN-LM | 0.000 | 60.00 |" in markdown(folder)


def test_what_walks_left_out_is_a_share_of_positions(reports):
    said = "more states than max_states: at 50.0 % of the positions at most (walk kmeans@inf)."
    assert said.replace("_", r"\_") in markdown(reports)
    assert "no candidate at all" not in markdown(reports)


def test_losses_are_shown_beside_gains(reports):
    lines = markdown(reports).splitlines()
    line = next(line for line in lines if line.startswith("| RetoMaton | FoSS 0.40 (tau 8) | kNN"))
    assert line == (
        "| RetoMaton | FoSS 0.40 (tau 8) | kNN-LM | -19.0 % (-24.0 % to -14.0 %) | 50.0 % | 25.0 % "
        "| 10.0 % | 3.0 % | -37.5 % | +10.0 % |"
    )
    assert "| 0 | 10 | 80.00 | +25.0 % | 25 % |" in lines
    assert "| 1 or more | 990 | 80.00 | -20.0 % (-25.0 % to -15.0 %) | 25 % |" in lines


def test_shared_documents_and_other_calibrations_are_counted(reports):
    lines = markdown(reports).splitlines()
    assert "| evaluated text | corpus | 12 | 2 | 2.5 % | 1 | 5.0 % |" in lines
    line = next(line for line in lines if "0.61 to 0.69" in line and "RetoMaton" in line)
    assert "8 (25%), 16 (75%)" in line
    assert line.endswith("| -15.0 % to -10.0 % | -15.0 % to -10.0 % |")


def test_what_was_promised_stands_beside_what_came(reports):
    lines = markdown(reports).splitlines()
    assert "| RetoMaton | kmeans | FoSS 0.40 (tau 8) | 45.00 % | 36.00 % | 9.00 % |" in lines


def test_where_the_matched_baseline_did_not_run_nothing_is_claimed(tmp_path):
    content = made.files()
    rows = [row for row in content["results"]["rows"] if not row["method"].startswith("knnlm+")]
    content["results"]["rows"] = [row | {"against": None} for row in rows]
    folder = made.write(tmp_path / "out", content)
    write_report(folder)
    result = markdown(folder).split("\n\n")[2]
    missing = "Nothing is claimed for RetoMaton: its matched baseline, knnlm+wide, did not run"
    assert missing in result
    assert "replaces" not in result
