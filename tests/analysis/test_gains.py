"""What is made better and worse, against loops over tokens."""

import math

import numpy as np
import pytest

from retomaton_dist.analysis.bootstrap import Resampling
from retomaton_dist.analysis.gains import Compared, describe_gains
from retomaton_dist.analysis.groups import (
    Grouping,
    by_document,
    by_restart,
    in_steps,
    text_groupings,
)
from tests.evaluation.scored import random_walked, scores_of

DOCUMENTS = np.repeat(np.arange(2, 27), [28, *[3] * 24]).astype(np.int32)
ROWS = len(DOCUMENTS)


def compared(seed=0):
    random = np.random.default_rng(seed)
    gains = random.choice([-2.0, -0.2, 0.0, 0.005, 0.3, 3.0], ROWS)
    baseline = random.normal(-4, 1, ROWS)
    return Compared({"method": "mine"}, baseline + gains, baseline, random_walked(random, ROWS))


def described(one, *groupings):
    return describe_gains(one, groupings, Resampling.of(DOCUMENTS))


def test_gains_and_losses_are_counted_apart_and_make_up_the_whole():
    one = compared()
    found = described(one)
    gains = (one.log_p - one.baseline).tolist()
    assert found["better"]["share"] == sum(gain > 0.01 for gain in gains) / ROWS
    assert found["worse"]["share"] == sum(gain < -0.01 for gain in gains) / ROWS
    assert dict(found["worse"]["by_at_least"])[5.0] == sum(gain < -1.7 for gain in gains) / ROWS
    assert dict(found["better"]["by_at_least"])[10.0] == sum(gain > 2.5 for gain in gains) / ROWS
    ratio = math.exp(-np.mean(gains))
    assert found["all"]["ratio"] == pytest.approx(ratio)
    # The few gains that are too small to count are worth less than a thousandth here.
    assert found["worse"]["factor"] / found["better"]["factor"] == pytest.approx(ratio, rel=2e-3)
    assert found["method"] == "mine"


def test_a_group_has_the_perplexities_of_its_rows():
    one = compared()
    rows = np.arange(ROWS) % 3 == 1
    grouping = Grouping("mine", {"a third": rows, "nothing": np.zeros(ROWS, np.bool_)})
    mine, reached = described(one, grouping)["groupings"]
    (group,) = mine["groups"]
    assert (mine["title"], reached["title"]) == ("mine", "how candidates were found")
    assert (group["name"], group["tokens"]) == ("a third", rows.sum())
    assert group["perplexity"] == pytest.approx(math.exp(-one.log_p[rows].mean()))
    assert group["ratio"] == pytest.approx(group["perplexity"] / group["baseline"])
    assert group["interval"][0] < group["ratio"] < group["interval"][1]


def test_a_token_that_is_impossible_for_both_is_neither_gain_nor_loss():
    nothing = np.full(ROWS, -np.inf)
    one = Compared({}, nothing, nothing, compared().walked)
    assert one.gains.tolist() == [0.0] * ROWS


def test_steps_are_named_and_hold_every_value_once():
    values = np.array([0, 1, 2, 3, 9, 10, 5000])
    grouping = in_steps("n", values, (0, 1, 3, 10))
    assert {name: values[rows].tolist() for name, rows in grouping.groups.items()} == {
        "0": [0],
        "1 to 2": [1, 2],
        "3 to 9": [3, 9],
        "10 or more": [10, 5000],
    }


def test_a_document_is_as_new_as_its_longest_match_unless_it_is_a_duplicate():
    document = np.array([0, 0, 1, 1, 4, 5, 6, 6, 7])
    matched = np.array([1, 4, 2, 7, 10, 10, 3, 10, 2])
    pairs = [
        {"text": "text", "in": "corpus", "same": [5], "near": [6]},
        {"text": "text", "in": "calibration", "same": [7], "near": []},
        {"text": "calibration", "in": "corpus", "same": [0], "near": []},
    ]
    groups = by_document(document, matched, {"pairs": pairs}).groups
    assert [document[rows].tolist() for rows in groups.values()] == [
        [0, 0, 7], [1, 1], [4], [6, 6], [5], [7], [0, 0, 1, 1, 4],
    ]  # fmt: skip


def test_every_row_was_searched_for_or_restarted_or_walked_or_has_no_candidates():
    walked = random_walked(np.random.default_rng(1), 500)
    walked.matched[walked.searched] = 0
    groups = by_restart(walked).groups
    assert all(rows.any() for rows in groups.values())
    assert (np.sum(list(groups.values()), axis=0) == 1).all()


def test_the_match_before_a_token_is_that_of_the_token_before_in_its_document(tmp_path):
    scores = scores_of(tmp_path, DOCUMENTS, {}, np.random.default_rng(2))
    matched = np.random.default_rng(3).integers(1, 11, ROWS)
    frequency = np.isin(scores.token, [1, 3, 8]) * 2
    groupings = text_groupings(scores, frequency, matched, {})
    before = groupings[1].groups
    assert np.array_equal(before["0"], scores.position == 0)
    later = np.flatnonzero(before["10 or more"])
    assert (matched[later - 1] == 10).all()
    assert np.array_equal(groupings[0].groups["1 to 9"], frequency > 0)
    for grouping in groupings[:4]:
        assert (np.sum(list(grouping.groups.values()), axis=0) == 1).all(), grouping.title
