"""Online mixing is Bayes over sequences of options; no text makes it much worse than the LM."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.engine.mixture import Candidates, TextExpert
from retomaton_dist.engine.online import OnlineMixing, Step, divide

NGRAM, CACHE = TextExpert.NGRAM, TextExpert.CACHE
WALK = Candidates(1.0, 8.0)
# Columns of probabilities: the LM, the cache, the n-gram model, the walk.
MIXING = OnlineMixing(
    (Step((CACHE,), (0.3, 1.0)), Step((NGRAM,), (0.5, 0.9)), Step((WALK,), (0.6,)))
)


def random_logs(seed, rows, columns=4, spread=4.0):
    random = np.random.default_rng(seed)
    return -np.abs(random.normal(0, spread, (rows, columns)))


def one_document(mixing, logs):
    return mixing.log_mixed(logs, np.zeros(len(logs), np.int32))


def options_of(step, before, logs, columns):
    """p of every option of a step at every position; option 0 leaves the step's source out."""
    made = [before]
    for expert in step.experts:
        q = np.exp(logs[:, columns[expert]])
        made += [(1 - weight) * before + weight * q for weight in step.weights]
    return np.array(made)


def by_every_path(mixing, logs):
    """The oracle: the average over all sequences of options, each as probable as its switches."""
    columns = {expert: 1 + place for place, expert in enumerate(mixing.experts)}
    p = np.exp(logs[:, 0])
    for step in mixing.steps:
        options = options_of(step, p, logs, columns)
        others = len(options) - 1
        prior = np.array([mixing.prior, *[(1 - mixing.prior) / others] * others])
        totals = [1.0]
        for length in range(1, len(logs) + 1):
            total = 0.0
            for path in itertools.product(range(len(options)), repeat=length):
                weight = prior[path[0]]
                for last, new in itertools.pairwise(path):
                    stays = (1 - mixing.share) if last == new else 0.0
                    weight *= stays + mixing.share * prior[new]
                total += weight * math.prod(options[option, t] for t, option in enumerate(path))
            totals.append(total)
        p = np.array(totals[1:]) / np.array(totals[:-1])
    return np.log(p)


@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from([0.0, 0.005, 0.3]))
def test_a_step_is_the_average_over_all_sequences_of_its_options(seed, rows, share):
    mixing = OnlineMixing(MIXING.steps, share=share)
    logs = random_logs(seed, rows)
    assert one_document(mixing, logs) == pytest.approx(by_every_path(mixing, logs), abs=1e-9)


def most_lost(mixing, tokens):
    """The bound that the docs state: for each step, the prior and what switching costs."""
    once = math.log(1 / mixing.prior)
    each = -math.log(1 - mixing.share * (1 - mixing.prior))
    return len(mixing.steps) * (once + tokens * each)


@given(st.data())
def test_no_text_makes_it_worse_than_the_lm_by_more_than_the_bound(data):
    """Sources are as misleading as can be: sure of what never comes, right until they are wrong."""
    rows = data.draw(st.integers(1, 60))
    sources = st.sampled_from([0.0, -700.0, -1e-9])
    logs = np.array([[-3.0, *(data.draw(sources) for _ in range(3))] for _ in range(rows)])
    lost = logs[:, 0].sum() - one_document(MIXING, logs).sum()
    assert lost <= most_lost(MIXING, rows) + 1e-9


def test_a_text_of_100_tokens_is_at_most_3_percent_above_the_lm():
    for seed in range(5):
        logs = random_logs(seed, 100)
        logs[:, 1:] = -700.0
        loss = (logs[:, 0] - one_document(MIXING, logs)).mean()
        assert 0 < math.expm1(loss) < 0.03


def test_what_predicts_well_is_soon_trusted_and_left_when_it_fails():
    logs = np.full((400, 4), -5.0)
    logs[:200, 2], logs[200:, 2] = -0.1, -20.0
    mixed = one_document(MIXING, logs)
    assert mixed[0] < -1.0 < mixed[50]
    assert mixed[200] < -5.5, "it was trusted"
    assert mixed[-1] == pytest.approx(-5.0, abs=0.05)


def test_weights_begin_anew_with_every_document():
    logs = random_logs(3, 30)
    documents = np.repeat([0, 1, 4], 10).astype(np.int32)
    apart = [one_document(MIXING, logs[first : first + 10]) for first in (0, 10, 20)]
    assert np.array_equal(MIXING.log_mixed(logs, documents), np.concatenate(apart))


@given(st.integers(0, 10_000), st.integers(1, 29))
def test_a_token_is_predicted_from_what_came_before_it_alone(seed, place):
    logs, documents = random_logs(seed, 30), np.zeros(30, np.int32)
    later = logs.copy()
    later[place:] = random_logs(seed + 1, 30 - place)
    first, second = MIXING.log_mixed(logs, documents), MIXING.log_mixed(later, documents)
    assert np.array_equal(first[:place], second[:place])
    # Another token at one place: nothing before or behind it changes.
    wanted = logs.copy()
    wanted[place] = later[place]
    asked = MIXING.log_mixed(logs, documents, wanted)
    assert np.array_equal(np.delete(asked, place), np.delete(first, place))


def test_text_that_grows_is_followed_as_text_that_is_scored():
    logs = random_logs(5, 40)
    expected, weights, grown = one_document(MIXING, logs), MIXING.begin(1), []
    for row in logs:
        shares = np.zeros((1, 5))
        divide(MIXING.options, weights, shares)
        grown.append(math.log((shares[0, :4] * np.exp(row)).sum()))
        MIXING.follow(weights, None, np.exp(row)[None])
    assert grown == pytest.approx(expected, abs=1e-12)
    followed = MIXING.begin(1)
    MIXING.follow_text(followed[0], logs)
    assert followed == pytest.approx(weights, abs=1e-12)
