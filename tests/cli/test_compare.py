"""`retomaton compare`: two evaluations of one text side by side."""

import numpy as np
import pytest

from retomaton_dist.analysis.bootstrap import Resampling
from retomaton_dist.cli.using import compared_as_text
from retomaton_dist.evaluation.results import MeasuredPoint
from tests.cli.checks import check_refused
from tests.evaluation.evaluated import evaluate_here, write_texts

GIVEN = {"methods": "lm,retomaton", "calibrate_on": (), "lambda_": 0.3, "knn_temperature": 2.0}


DRAWS = Resampling.of(np.arange(40, dtype=np.int32))


def row(method, foss, perplexity, clustering=None):
    """A point that is as sure of every document's only token."""
    facts = {"method": method, "clustering": clustering, "foss": foss, "perplexity": perplexity}
    return MeasuredPoint(facts, np.full(40, -np.log(perplexity)), DRAWS)


def test_every_point_stands_beside_the_one_of_its_method_nearest_in_foss():
    first = [row("lm", 1.0, 20.0), row("retomaton", 0.5, 10.0, "kmeans"), row("knnlm", 0.0, 9.0)]
    second = [
        row("lm", 1.0, 20.0),
        row("retomaton", 0.0, 8.0, "kmeans"),
        row("retomaton", 0.4, 9.0, "kmeans"),
        row("retomaton", 0.5, 7.0, "none"),
    ]
    lines = [line.split() for line in compared_as_text(first, second).splitlines()[1:]]
    assert lines == [
        ["lm", "1.000", "1.000", "20.00", "20.00", "+0.00%", "+0.00%", "to", "+0.00%"],
        [
            "retomaton",
            "kmeans",
            "0.500",
            "0.400",
            "10.00",
            "9.00",
            *["-10.00%"] * 2,
            "to",
            "-10.00%",
        ],
    ]


def test_other_states_are_compared_where_there_are_no_same_ones():
    shown = compared_as_text(
        [row("retomaton", 0.5, 10.0, "fine")], [row("retomaton", 0.5, 5.0, "coarse")]
    )
    assert shown.splitlines()[1].startswith("  retomaton  coarse / fine ")


@pytest.fixture
def evaluated(walkable_store, tmp_path):
    texts = write_texts(tmp_path)
    return {
        name: evaluate_here(walkable_store.path, tmp_path / name, texts, **{**GIVEN, **changed})
        for name, changed in (
            ("a", {}),
            ("b", {"lambda_": 0.5}),
            ("other", {"positions": 50}),
            ("few", {"positions": 30}),
        )
    }


def test_two_evaluations_of_one_text_are_compared_and_those_of_two_refused(evaluated, command):
    a, b, other, few = (one.path for one in evaluated.values())
    shown = command("compare", a, b)
    assert shown.returncode == 0, shown.stderr
    assert len(shown.stdout.splitlines()) == 4 + len(evaluated["a"].rows)
    intervals = [line.split()[-3:] for line in shown.stdout.splitlines()[5:]]
    assert all(words[1] == "to" for words in intervals)
    without = command("compare", few, few).stdout
    assert " to " not in without.replace("B to A", "")
    assert "intervals are given from 20 documents on" in without
    check_refused(command("compare", a, other), "evaluate different texts")
    check_refused(command("compare", a, a.parent), "no finished evaluation")
