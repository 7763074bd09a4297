"""The report as a reader gets it: figures, Markdown and HTML from an evaluation's JSON files."""

import os
import re

import pytest

from retomaton_dist.report.render import visible
from retomaton_dist.report.write import write_report
from tests.report import made
from tests.report.browser import Page

ALL_FIGURES = {
    "curves", "ratio", "tau", "ablation", "wall_clock", "runs", "overlap", "gains_retomaton",
    "reliability",
}  # fmt: skip
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A live report whose every text is hostile."""
    folder = made.write(tmp_path_factory.mktemp("out"), made.files(live=True, text=made.HOSTILE))
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


def test_corpus_text_is_shown_on_the_page_and_never_acts(reports):
    page = Page((reports / "report.html").read_text())
    assert "script" not in page.tags
    assert visible(made.HOSTILE) in page.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", page.text)


def test_corpus_text_in_markdown_stays_inside_code(reports):
    text = markdown(reports)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", text)
    outside = re.sub(r"(?ms)^(`{3,})text\n.*?^\1$", "", text)
    outside = re.sub(r"<code>[\w &#;]*</code>", "", outside)
    outside = re.sub(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", "", outside)
    assert "script" not in outside
    assert "script" in text


def test_tables_of_markdown_have_as_many_cells_in_every_row(reports):
    tables = re.findall(r"(?m)(?:^\|.*\|$\n?)+", markdown(reports))
    assert len(tables) > 8
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
    del content["settings"]["model"]
    folder = made.write(tmp_path / "out", content)
    os.utime(folder / "settings.json", (0, 1_800_000_000))
    write_report(folder)
    assert markdown(folder).startswith("# test.en and 1 more with my.store, 15 January 2027\n")


def test_foss_is_explained_before_the_result_that_uses_it(reports):
    _, about, foss, result, *_ = markdown(reports).split("\n\n")
    assert "1,000 positions of 12 documents" in about
    assert foss.startswith("FoSS is the fraction of saved searches")
    assert "FoSS 0" in result


def test_the_headline_comes_first_and_says_the_result_in_numbers(reports):
    result = markdown(reports).split("\n\n")[3]
    assert "RetoMaton (kmeans) has perplexity 70.00 and kNN-LM has perplexity 80.00" in result
    assert "The LM alone has perplexity 1,100.00" in result
    matched = "7.9 % below kNN-LM of as many candidates (76.00)"
    assert f"RetoMaton is {matched}; 95 % interval of the change: -9.9 % to -5.9 %" in result
    learned = "9.7 % below kNN-LM with the same learned mixing (72.00)"
    assert f"RetoMaton + lambda is {learned}" in result
    equal = "RetoMaton equals kNN-LM of as many candidates with 53.3 % of the searches saved"
    assert equal in result


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
    assert "| 10 % | -1.25 |" in lines


def test_the_headline_table_interpolates_and_marks_it(reports):
    lines = markdown(reports).splitlines()
    line = next(line for line in lines if line.startswith("| RetoMaton | kmeans"))
    assert line.startswith(r"| RetoMaton | kmeans | 70.00 | \~75.00 | kNN-LM, as many candidates:")
    assert line.endswith("candidates: 76.00 | -7.9 % | 0.533 | 0.667 | 0.633 |")
    line = next(line for line in lines if line.startswith(r"| RetoMaton + lambda"))
    assert "| kNN-LM + lambda: 72.00 | -9.7 % | 0.600 |" in line
    assert line.endswith("| all of it (to 0.800) |")


def test_what_is_needed_to_repeat_it_is_there(reports):
    text = markdown(reports)
    for fact in ("2.9.9", "0123abcd", "31,415", "0.4375", "1024"):
        assert fact in text
    assert "retomaton eval my.store --text 'a text'" in text
    assert "trained on 1,500 positions of held-out text, and 170 more" in text
    assert "86.4 % of the 220 tokens" in text
    assert "entry 4,321" in text


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
    assert "- **The LM alone has perplexity 1,100.00.**" in markdown(folder)
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
    assert "| mine | kmeans | 60.00 |" in markdown(folder)


def test_what_a_walk_left_out_is_a_share_of_positions(reports):
    lines = markdown(reports).splitlines()
    assert "| `kmeans@8` | 0.0 % | 25.0 % |" in lines
    assert "| `kmeans@inf` | – | 50.0 % |" in lines  # noqa: RUF001


def test_losses_are_shown_beside_gains(reports):
    lines = markdown(reports).splitlines()
    line = next(line for line in lines if line.startswith("| RetoMaton | FoSS 0.40 (tau 8) | kNN"))
    assert line == (
        "| RetoMaton | FoSS 0.40 (tau 8) | kNN-LM | -19.0 % | -24.0 % to -14.0 % | 50.0 % | 25.0 % "
        "| 10.0 % | 10.0 % | 3.0 % | 3.0 % | -37.5 % | +10.0 % |"
    )
    assert "| 0 | 10 | 80.00 | +25.0 % | 50 % | 25 % |" in lines
    assert "| 1 or more | 990 | 80.00 | -20.0 % (-25.0 % to -15.0 %) | 50 % | 25 % |" in lines


def test_shared_documents_and_other_calibrations_are_counted(reports):
    lines = markdown(reports).splitlines()
    assert "| evaluated text | corpus | 12 | 2 | 2.5 % | 1 | 5.0 % |" in lines
    line = next(line for line in lines if "0.61 to 0.69" in line and "RetoMaton" in line)
    assert "8 (25%), 16 (75%)" in line
    assert line.endswith("| -15.0 % to -10.0 % | -15.0 % to -10.0 % |")


def test_what_was_promised_stands_beside_what_came(reports):
    lines = markdown(reports).splitlines()
    assert "| RetoMaton | kmeans | FoSS 0.40 (tau 8) | 45.00 % | 36.00 % | 9.00 % |" in lines


def test_where_the_matched_baseline_did_not_run_the_headline_says_so(tmp_path):
    content = made.files()
    rows = [row for row in content["results"]["rows"] if not row["method"].startswith("knnlm+")]
    content["results"]["rows"] = [row | {"against": None} for row in rows]
    folder = made.write(tmp_path / "out", content)
    write_report(folder)
    result = markdown(folder).split("\n\n")[3]
    assert "12.5 % below kNN-LM (its matched baseline, knnlm+wide, did not run)" in result
    assert "equals kNN-LM with 66.7 % of the searches saved" in result
