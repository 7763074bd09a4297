"""Numbers that are read off curves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.report.folder import read_evaluation
from retomaton_dist.report.headline import (
    Crossing,
    Target,
    largest_foss,
    perplexity_at,
    result_sentences,
    targets,
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


@given(points=POINTS, foss=st.integers(0, 100))
def test_perplexity_between_points_is_on_the_line_and_outside_there_is_none(points, foss):
    found = perplexity_at(curve([(f / 100, level) for f, level in points]), foss / 100)
    known = dict(points)
    if min(known) <= foss <= max(known):
        x, y = zip(*sorted(points), strict=True)
        assert np.isclose(found.perplexity, np.interp(foss, x, y))
        assert found.interpolated == (foss not in known)
    else:
        assert found is None


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
    assert perplexity_at([], 0.0) is None


def test_targets_are_knnlm_at_foss_0_and_adaptrets_best():
    found = targets(
        {
            ("knnlm", None): curve([(0.0, 80), (0.5, 60)]),
            ("adaptret", None): curve([(0.0, 79), (0.2, 77), (0.5, 90)]),
        }
    )
    assert found == [Target("knnlm", 80.0), Target("adaptret", 77.0)]
    assert targets({("knnlm", None): curve([(0.1, 80)])}) == []


def test_a_sentence_says_what_restarts_by_suffixes_come_to_without_any_search(tmp_path):
    files = made.files()
    restarts = [(0.5, 71.0, 4, 2), (1.0, 86.0, 1, 0), (1.0, 84.0, "inf", 0)]
    files["results"]["rows"] += [
        made.row("retomaton+suffix", "kmeans", foss, level, tau=tau, sigma=sigma)
        for foss, level, tau, sigma in restarts
    ]
    said = result_sentences(read_evaluation(made.write(tmp_path, files)))
    best = "RetoMaton + suffix (kmeans) has 84.00 without any search, 5.0 % above kNN-LM"
    assert best in said[-1]
    without = result_sentences(read_evaluation(made.write(tmp_path, made.files())))
    assert not any("without any search" in sentence for sentence in without)


def test_every_sentence_is_short_and_whole(tmp_path):
    for sentence in result_sentences(read_evaluation(made.write(tmp_path, made.files()))):
        assert sentence.endswith(".")
        assert sentence[0].isupper() or sentence.startswith("kNN-LM")
        assert len(sentence.split()) < 30
