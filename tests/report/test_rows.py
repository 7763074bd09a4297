"""Points of curves, and which curves there are."""

import pytest

from retomaton_dist.report.rows import curves, main_clustering, read_row
from tests.report import made


def test_curves_rise_in_foss_with_one_point_for_each_and_no_infinite_perplexity():
    points = [(0.5, 3.0), (0.0, 2.0), (0.0, 2.1), (0.7, float("inf"))]
    rows = [read_row(made.row("retomaton", "kmeans", *point), "here") for point in points]
    found = curves(rows)[("retomaton", "kmeans")]
    assert [(row.foss, row.perplexity) for row in found] == [(0.0, 2.0), (0.5, 3.0)]


@pytest.mark.parametrize(
    ("clusterings", "main"),
    [(["none", "greedy", "kmeans"], "greedy"), (["none"], "none"), ([], None)],
)
def test_the_main_clustering_is_the_first_real_one(clusterings, main):
    rows = [made.row("retomaton", name, 0.0, 9.0) for name in clusterings]
    rows.append(made.row("knnlm", None, 0.0, 9.0))
    assert main_clustering([read_row(row, "here") for row in rows]) == main
