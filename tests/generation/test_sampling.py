"""Choosing tokens: the most probable one, or draws that follow p and can be repeated."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from retomaton_dist.engine.mixture import ExpertDistributions, Mixtures
from retomaton_dist.generation.sampling import (
    SamplingParams,
    choose,
    cut,
    position_keys,
    race,
)

VOCABULARY = 40


def mixtures_of(random, rows=6, candidates=7, everywhere=False):
    """Made-up mixtures of an LM and an automaton; the last row has no candidates.

    Something is added to all tokens, as an n-gram model does, if `everywhere`.
    """
    logits = random.normal(0, 2, (rows, VOCABULARY)).astype(np.float32)
    normals = np.log(np.exp(logits.astype(np.float64)).sum(axis=1))
    tokens = np.stack([random.permutation(VOCABULARY)[:candidates] for _ in range(rows)])
    shares = random.uniform(0.2, 0.8, rows)
    shares[-1] = 1.0
    extra = random.dirichlet(np.ones(candidates), rows) * (1 - shares)[:, None]
    counts = np.where(np.arange(rows) < rows - 1, candidates, 0)
    favourites = logits.argmax(axis=1)
    base = np.empty((rows, 0))
    if everywhere:
        base, shares, extra = random.dirichlet(np.ones(VOCABULARY), rows) / 2, shares / 2, extra / 2
    lists = tokens.astype(np.int32), extra, counts
    return Mixtures(shares, logits, normals, favourites, *lists, base, ExpertDistributions(()))


def keys_of(seed, count):
    return position_keys(
        np.full(count, seed, np.uint64), np.zeros(count, np.uint64), np.arange(count)
    )


def warped(scores, choosing, before):
    """The oracle: transformers' own processors, in its order."""
    ids, made = torch.from_numpy(before)[None].long(), torch.from_numpy(scores)[None]
    if choosing.repetition_penalty != 1:
        made = RepetitionPenaltyLogitsProcessor(choosing.repetition_penalty)(ids, made)
    if choosing.do_sample:
        made = TemperatureLogitsWarper(choosing.temperature)(ids, made)
        if choosing.top_k is not None:
            made = TopKLogitsWarper(choosing.top_k)(ids, made)
        if choosing.top_p < 1:
            made = TopPLogitsWarper(choosing.top_p)(ids, made)
    return torch.softmax(made, -1)[0].numpy()


@given(st.integers(0, 1000), st.booleans())
def test_greedy_takes_the_most_probable_token_of_the_whole_distribution(seed, everywhere):
    found = mixtures_of(np.random.default_rng(seed), everywhere=everywhere)
    p = found.dense()
    assert p.sum(axis=1) == pytest.approx(1.0)
    chosen = choose(found, [SamplingParams()] * len(p), keys_of(0, len(p)), [])
    assert chosen.tolist() == p.argmax(axis=1).tolist()
    log_p, log_lm = found.log_p(chosen)
    assert log_p == pytest.approx(np.log(p.max(axis=1)))
    assert log_lm == pytest.approx(found.logits[np.arange(len(p)), chosen] - found.normals)


def test_of_equally_probable_tokens_the_lowest_is_taken():
    logits = np.full((1, 4), math.log(0.25), np.float32)
    nothing = np.zeros((1, 2), np.int32), np.zeros((1, 2)), np.zeros(1, np.int64)
    lm, rest = (np.zeros(1), np.zeros(1, np.int64)), (np.empty((1, 0)), ExpertDistributions(()))
    even = Mixtures(np.ones(1), logits, *lm, *nothing, *rest)
    assert choose(even, [SamplingParams()], keys_of(0, 1), []) == [0]
    tokens, extra = np.array([[3, 2]], np.int32), np.full((1, 2), 0.25)
    tied = Mixtures(np.full(1, 0.5), logits, *lm, tokens, extra, np.array([2]), *rest)
    assert choose(tied, [SamplingParams()], keys_of(0, 1), []) == [2]


@pytest.mark.parametrize(
    "asked",
    [
        {"temperature": 0.7},
        {"top_k": 5},
        {"top_p": 0.8},
        {"temperature": 1.4, "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.5},
        {"repetition_penalty": 0.6},
    ],
)
def test_what_is_left_to_draw_from_is_what_transformers_leaves(asked):
    choosing = SamplingParams(do_sample=True, **asked)
    random = np.random.default_rng(1)
    found = mixtures_of(random)
    for p, normal in zip(found.dense(), found.normals, strict=True):
        before = random.integers(0, VOCABULARY, 9).astype(np.int32)
        scores = np.log(p) + normal
        expected = warped(scores.copy(), choosing, before)
        weight = np.exp(choosing.scores(scores, (before, 4)))
        cut(weight, choosing)
        assert weight / weight.sum() == pytest.approx(expected, abs=1e-9)


def test_tokens_are_drawn_as_often_as_they_are_probable():
    random, draws = np.random.default_rng(2), 40_000
    p = mixtures_of(random).dense()[0]
    drawn = np.array([race(p, key) for key in keys_of(7, draws)])
    counts = np.bincount(drawn, minlength=VOCABULARY)
    assert (np.abs(counts - p * draws) < 5 * np.sqrt(p * (1 - p) * draws) + 1).all()


def test_a_draw_hardly_ever_changes_where_rounding_moves_p():
    random = np.random.default_rng(3)
    p = random.dirichlet(np.full(5_000, 0.3))
    moved = p * (1 + 1e-6 * random.normal(size=len(p)))
    assert [race(p, key) for key in keys_of(1, 2000)] == [
        race(moved, key) for key in keys_of(1, 2000)
    ]


def test_draws_depend_on_seed_text_and_position_alone():
    texts, places = np.array([1, 1, 2], np.uint64), np.array([4, 5, 4])
    keys = position_keys(np.full(len(places), 3, np.uint64), texts, places)
    assert (
        len(
            {
                *keys.tolist(),
                *position_keys(np.full(len(places), 4, np.uint64), texts, places).tolist(),
            }
        )
        == 6
    )
    assert (
        position_keys(np.full(len(places) - 1, 3, np.uint64), texts[1:], places[1:]).tolist()
        == keys[1:].tolist()
    )


def test_openai_penalties_are_taken_from_tokens_behind_the_prompt():
    choosing = SamplingParams(presence_penalty=0.5, frequency_penalty=0.25)
    assert choosing.looks_back
    text = np.array([3, 3, 1, 2, 1], np.int32)
    scores = choosing.scores(np.zeros(5), (text, 2))
    assert scores.tolist() == [0.0, -1.0, -0.75, 0.0, 0.0]
