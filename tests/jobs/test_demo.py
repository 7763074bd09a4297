"""The demo: its text is the same everywhere, and it touches nothing that it has not made."""

import pytest

from retomaton_dist.errors import BadInput
from retomaton_dist.jobs.demo import ClaimFailed, as_table, check_claim, copy_library
from tests.cli.checks import check_refused
from tests.conftest import contents


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "text"
    return folder, copy_library(folder)


def test_the_library_falls_into_three_parts_of_many_files(library):
    _, parts = library
    counts = {name: len([*folder.rglob("*.py")]) for name, folder in parts.items()}
    assert {*counts} == {"corpus", "calibration", "test"}
    assert min(counts.values()) > 40
    sizes = [path.stat().st_size for path in parts["test"].rglob("*.py")]
    assert max(sizes) <= 3000


def test_no_file_is_in_two_parts(library):
    _, parts = library
    names = [path.relative_to(part) for part in parts.values() for path in part.rglob("*.py")]
    assert len(names) == len({*names})


def test_copying_again_changes_nothing(library):
    folder, _ = library
    before = contents(folder)
    copy_library(folder)
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["thesis.txt", "corpus/own.py", "test/abc.py"])
def test_a_folder_with_anything_else_is_refused_and_left_as_it_was(tmp_path, name):
    path = tmp_path / "text" / name
    path.parent.mkdir(parents=True)
    path.write_text("do not delete")
    with pytest.raises(BadInput, match="is not of this demo"):
        copy_library(tmp_path / "text")
    assert contents(tmp_path / "text") == {name: b"do not delete"}


def row(method, foss, perplexity, clustering=None):
    against = {"ratio": perplexity / 50}
    facts = {"method": method, "foss": foss, "perplexity": perplexity}
    return {**facts, "clustering": clustering, "against_knnlm": against}


ROWS = [
    row("lm", 1.0, 70),
    row("knnlm", 0.0, 50),
    row("knnlm", 1.0, 70),
    row("knnlm+wide", 0.0, 49),
    row("knnlm+lambda", 0.0, 48),
    row("retomaton", 0.8, 46, "kmeans"),
    row("retomaton", 0.4, 45, "kmeans"),
    row("retomaton", 0.0, 44, "kmeans"),
    row("retomaton+lambda", 0.0, 40, "kmeans"),
    row("retomaton+lambda", 0.0, 41, "none"),
]


def test_the_table_has_the_ends_of_every_curve():
    lines = as_table(ROWS).splitlines()
    assert [line.split()[0] for line in lines[1:]] == [
        "lm", "knnlm", "knnlm+wide", "knnlm+lambda", "retomaton", "retomaton", "retomaton+lambda",
    ]  # fmt: skip
    assert lines[5].split() == ["retomaton", "kmeans", "0.0%", "44.00", "-12.0%"]
    assert lines[6].split() == ["retomaton", "kmeans", "80.0%", "46.00", "-8.0%"]


def test_results_that_fall_from_the_lm_to_the_automaton_are_what_is_claimed():
    check_claim(ROWS)


@pytest.mark.parametrize(("place", "level"), [(3, 71), (7, 49.5), (8, 48.5)])
def test_results_that_do_not_fall_are_an_error(place, level):
    rows = [*ROWS]
    rows[place] = {**rows[place], "perplexity": level}
    with pytest.raises(ClaimFailed, match="they should fall"):
        check_claim(rows)


CORPUS = "the key of an entry is near the state that a pointer walks to {} times\n"


@pytest.mark.slow
def test_on_a_text_of_yours_all_steps_run_and_nothing_is_claimed(command, tmp_path, tiny_model):
    for name, many in (("corpus", 300), ("test", 30), ("calibration", 30)):
        lines = [CORPUS.format(len(name) * number) for number in range(many)]
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    result = command(
        "demo", "--corpus", tmp_path / "corpus.txt", "--split", "line", "--model", tiny_model,
        "--text", tmp_path / "test.txt", "--calibrate-on", tmp_path / "calibration.txt",
        "--out", tmp_path / "demo", "--workers", 0, "--progress", "none",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "$ retomaton build " in result.stdout
    assert "sound: " in result.stdout
    assert "retomaton                kmeans" in result.stdout
    assert (tmp_path / "demo/evaluation/report.html").is_file()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--split", "line"], "--split needs --corpus"),
        (["--corpus", "a", "--text", "b"], "--text and --calibrate-on go together"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(command, flags, said):
    check_refused(command("demo", *flags), said)
