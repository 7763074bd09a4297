"""Numbers that are read off curves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.report.folder import read_evaluation
from retomaton_dist.report.headline import (
    Crossing,
    largest_foss,
    result_sentences,
)
from retomaton_dist.report.rows import read_row
from tests.report import made

POINTS = st.lists(
    st.tuples(st.integers(0, 100), st.integers(1, 50)),
    min_size=1,
    max_size=6,
    unique_by=lambda point: point[0],
)


def curve(points, method="retomaton", clustering="kmeans"):
    rows = [made.row(method, clustering, foss, float(level)) for foss, level in sorted(points)]
    return [read_row(row, "here") for row in rows]


@given(points=POINTS, target=st.integers(0, 50))
def test_the_largest_foss_is_the_last_place_where_the_curve_is_at_most_the_target(points, target):
    found = largest_foss(curve([(f / 100, level) for f, level in points]), target)
    x, y = (np.array(column, float) for column in zip(*sorted(points), strict=True))
    fine = np.linspace(x[0], x[-1], 4001)
    below = fine[np.interp(fine, x, y) <= target]
    if y.min() > target:
        assert found == Crossing("never", None)
    elif y[-1] <= target:
        assert found == Crossing("all", x[-1] / 100)
    else:
        assert found.kind == "at"
        assert np.isclose(np.interp(100 * found.foss, x, y), target)
        assert not len(below) or 100 * found.foss >= below[-1] - 1e-9
        assert (np.interp(fine[fine > 100 * found.foss + 1e-9], x, y) > target).all()


def test_a_curve_that_dips_twice_counts_to_its_last_crossing():
    points = curve([(0.0, 10), (0.2, 30), (0.4, 10), (0.6, 30)])
    assert largest_foss(points, 20) == Crossing("at", pytest.approx(0.5))


def test_without_points_nothing_is_reached():
    assert largest_foss([], 20) == Crossing("never", None)


def test_a_walk_that_is_always_worse_than_searching_is_said_to_be(tmp_path):
    files = made.files()
    for row in files["results"]["rows"]:
        if row["method"] == "retomaton":
            row["against"] = {"ratio": 1.1 + row["foss"], "interval": None}
            row["perplexity"] = 76 * row["against"]["ratio"]
    said = result_sentences(read_evaluation(made.write(tmp_path, files)))
    cost = "replaces 80.0 % of the searches at +90.0 % against a search at every token"
    assert any(f"{cost}; it is never as good" in sentence for sentence in said)


def test_an_evaluation_that_noted_no_size_says_so(tmp_path):
    files = made.files()
    del files["settings"]["size"]
    said = result_sentences(read_evaluation(made.write(tmp_path, files)))
    assert said[0].endswith("; size of the store not noted.")


def test_every_sentence_is_short_and_whole(tmp_path):
    for sentence in result_sentences(read_evaluation(made.write(tmp_path, made.files()))):
        assert sentence.endswith(".")
        assert sentence[0].isupper() or sentence.startswith("kNN-LM")
        assert len(sentence.split()) < 45
