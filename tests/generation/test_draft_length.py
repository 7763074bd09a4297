"""Drafts are as long as pays: by what stood so far, and by what forward passes took."""

import numpy as np
import pytest

from retomaton_dist.generation.draft_length import (
    GAIN,
    LENGTHS,
    SELDOM,
    Acceptance,
    DraftLength,
    PassCost,
    best_length,
)
from retomaton_dist.generation.drafts import Verified

MOST = LENGTHS[-1]
SURE, HOPELESS = np.full((1, MOST), 0.97), np.full((1, MOST), 0.02)


def cost(width, more=0.0):
    return 1 + 0.1 * (width - 1) + 0.2 * more


def verified(drafted, accepted, width, seconds, rest=0.0):
    drawn = np.zeros(len(drafted), np.int32)
    return Verified(drafted, accepted, drawn, width, seconds, rest)


def simulate(truth, rise, steps=600, rows=1):
    """Seconds with and without drafts: tokens stand with chance `truth` each, passes cost `rise`.

    The estimates know nothing of either at first. What was not drafted is known to stand or not.
    """
    random, length, known = np.random.default_rng(0), DraftLength(), Acceptance()
    support, shares = np.full((rows, MOST), 20), np.full((rows, MOST), 0.5)
    seconds, tokens = 0.0, 0
    for _ in range(steps):
        drafted = length.choose(known.expected(support, shares))
        stands = random.random((rows, max(drafted, 1))) < truth
        stood = np.cumprod(stands, axis=1).sum(axis=1).astype(np.int64)
        known.learn(support, shares, np.minimum(stood + 1, max(drafted, 1)), stood)
        accepted = stood if drafted else np.zeros(rows, np.int64)
        took = 1 + rise * drafted
        length.learn(verified(np.full(rows, drafted), accepted, 1 + drafted, took))
        seconds += took
        tokens += rows + int(accepted.sum())
    return seconds * rows / tokens


@pytest.mark.parametrize("seed", range(5))
def test_the_best_length_has_most_expected_tokens_per_time(seed):
    random = np.random.default_rng(seed)
    chances = np.minimum.accumulate(random.random((3, MOST)), axis=1)
    speeds = {}
    for length in LENGTHS:
        gained = sum(chances[row, place] for row in range(3) for place in range(length)) / 3
        speeds[length] = (1 + gained) / cost(1 + length, gained)
    best = max(speeds, key=speeds.__getitem__)
    assert best_length(chances, MOST, cost) == (best if speeds[best] >= GAIN * speeds[0] else 0)


def test_drafts_that_gain_less_than_estimates_err_are_not_made():
    promising = np.zeros((1, MOST))
    promising[0, 0] = 0.2
    assert best_length(promising, 1, lambda width, _: 1 + 0.15 * (width - 1)) == 0
    assert best_length(promising, 1, lambda width, _: 1 + 0.05 * (width - 1)) == 1


def test_sure_drafts_are_long_and_hopeless_ones_are_not_made():
    assert best_length(SURE, MOST, cost) == MOST
    assert best_length(HOPELESS, MOST, cost) == 0
    assert best_length(np.zeros((2, MOST)), 0, cost) == 0


def test_drafts_that_stand_save_most_of_the_time():
    assert simulate(truth=0.9, rise=0.05) < 0.35


def test_drafts_that_fall_cost_next_to_nothing():
    assert simulate(truth=0.0, rise=0.1) < 1.03


def test_drafts_that_stand_are_not_made_where_a_wider_pass_costs_more_than_it_gives():
    assert simulate(truth=0.6, rise=0.7) < 1.05


def test_a_length_that_is_fixed_is_kept_whatever_the_chances():
    assert DraftLength(3).choose(HOPELESS) == 3
    assert DraftLength(0).choose(SURE) == 0


def trials(chances, steps=200):
    """The steps at which something was drafted, though nothing of it stands."""
    length, tried = DraftLength(), []
    for step in range(steps):
        drafted = np.array([length.choose(chances)])
        tried += [step] if drafted[0] else []
        width = 1 + int(drafted[0])
        length.learn(verified(drafted, np.array([0]), width, 1 + 0.4 * (width - 1)))
    return tried


def test_what_pays_unless_passes_are_as_dear_as_they_were_is_tried_again_ever_more_rarely():
    assert trials(np.full((1, 1), 0.3))[-3:] == [20, 52, 116]


def test_hopeless_drafts_are_not_even_tried():
    assert trials(HOPELESS) == []


def test_where_nothing_is_drafted_guesses_are_made_ever_more_rarely_until_something_is():
    length, nothing, looked = DraftLength(), np.array([0]), []
    for step in range(200):
        looked += [step] if length.looks else []
        length.learn(verified(nothing, nothing, 1, 1.0))
    assert looked[:8] == list(range(8))
    assert np.diff(looked).tolist() == sorted(np.diff(looked).tolist())
    assert np.diff(looked)[-1] == SELDOM
    length.learn(verified(np.array([2]), np.array([1]), 3, 1.2))
    while not length.looks:
        length.learn(verified(nothing, nothing, 1, 1.0))
    length.learn(verified(nothing, nothing, 1, 1.0))
    assert length.looks


def test_chances_follow_what_stood_by_what_spoke_for_it():
    known = Acceptance()
    support, shares = np.array([[9, 9], [1, 1]]), np.array([[1.0, 0.5], [0.3, 0.3]])
    for _ in range(200):
        known.learn(support, shares, np.array([2, 1]), np.array([1, 0]))
    chances = known.expected(support, shares)
    assert chances[0, 0] > 0.9
    assert chances[0, 1] < 0.1
    assert (chances[1] < 0.1).all()


def test_kinds_that_were_not_seen_follow_what_all_others_turned_out_to():
    known, seen, unseen = Acceptance(), (np.array([[9]]), np.array([[0.7]])), (1, 1.0)
    other = np.full((1, 1), unseen[0]), np.full((1, 1), unseen[1])
    before = known.expected(*other)[0, 0]
    for _ in range(50):
        known.learn(*seen, np.array([1]), np.array([0]))
    assert known.expected(*other)[0, 0] < before / 4


def test_a_token_stands_only_if_all_before_it_do():
    chances = Acceptance().expected(np.full((1, 4), 9), np.full((1, 4), 0.7))[0]
    assert chances == pytest.approx(chances[0] ** np.arange(1, 5))


def test_what_nothing_speaks_for_has_no_chance():
    assert Acceptance().expected(np.array([[3, 0]]), np.array([[1.0, 0.0]]))[0, 1] == 0


def test_costs_follow_what_passes_took_though_the_machine_changes_its_speed():
    known, random = PassCost(), np.random.default_rng(0)
    for step in range(600):
        width = int(random.choice([1, 5, 9]))
        speed = 1.0 if step < 300 else 3.0
        known.learn(width, speed * (1 + 0.2 * (width - 1)), 0.0, 0.0)
    assert known.ratio(1) == 1
    assert known.ratio(5) == pytest.approx(1.8, rel=0.1)
    assert known.ratio(9) == pytest.approx(2.6, rel=0.1)


def test_one_strange_pass_moves_little():
    known = PassCost()
    for _ in range(100):
        known.learn(1, 1.0, 0.0, 0.0)
        known.learn(5, 1.5, 0.0, 0.0)
    known.learn(5, 1000.0, 0.0, 0.0)
    assert known.ratio(5) == pytest.approx(1.65, rel=0.1)


def test_what_accepted_tokens_take_besides_the_pass_is_no_cost_of_drafting():
    known = PassCost()
    for _ in range(50):
        known.learn(1, 0.6, 0.4, 0.0)
        known.learn(5, 0.9, 0.4 * 4, 3.0)
    assert known.ratio(5) == pytest.approx(1.3, rel=0.05)
    assert known.step(5, 2.0) == pytest.approx(1.3 + 2 * 0.4, rel=0.05)
