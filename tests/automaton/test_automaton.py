"""Looking things up in an automaton, and distances by both codecs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retomaton_dist.automaton.probability import interpolate
from retomaton_dist.codec.training import (
    choose_cells,
    choose_code_size,
    decode,
    encode,
    train,
)
from retomaton_dist.errors import BadInput
from tests.automaton.make import DIMENSION, all_distances, make, random_corpus
from tests.automaton.oracle import exact_distances

samples = st.tuples(st.integers(0, 1000), st.sampled_from(["pq", "fp16"]))


def sample(seed, codec, entries=80):
    random = np.random.default_rng(seed)
    return make(random_corpus(random, entries, 9, 4), codec, seed, 9), random


@given(samples)
def test_members_states_and_transitions_are_those_of_the_corpus(chosen):
    made, _ = sample(*chosen)
    automaton, corpus = made.automaton, made.corpus
    for state in range(9):
        members = corpus.members(state)
        assert automaton.members(state).tolist() == sorted(
            members, key=lambda entry: (corpus.values[entry], entry)
        )
        assert all(automaton.state_of(entry) == state for entry in members)
        for token in range(5):
            nexts = [corpus.pointers[e] for e in members if corpus.values[e] == token]
            expected = {corpus.states[e] for e in nexts if e >= 0}
            assert automaton.transitions(state, token).tolist() == sorted(expected)


@given(samples, st.lists(st.integers(0, 8), max_size=5))
def test_next_states_are_the_union_of_transitions(chosen, states):
    automaton = sample(*chosen)[0].automaton
    union = {int(q) for state in states for q in automaton.transitions(state, 1)}
    assert automaton.next_states(states, 1).tolist() == sorted(union)


@given(samples)
@settings(max_examples=30)
def test_distances_are_those_of_the_keys_that_the_codes_stand_for(chosen):
    made, random = sample(*chosen)
    query = random.normal(size=DIMENSION).astype(np.float32)
    exact = exact_distances(query, made.keys)
    assert all_distances(made.automaton, query) == pytest.approx(exact, rel=1e-5, abs=1e-5)


@given(samples, st.sets(st.integers(0, 8), max_size=4))
@settings(max_examples=30)
def test_weights_are_the_papers_phi(chosen, states):
    made, random = sample(*chosen)
    query = random.normal(size=DIMENSION).astype(np.float32)
    exact = exact_distances(query, made.keys)
    expected = {}
    for state in states:
        for entry in made.corpus.members(state):
            pair = state, made.corpus.values[entry]
            expected[pair] = expected.get(pair, 0.0) + np.exp(-exact[entry] / 7.0)
    found = made.automaton.weights(sorted(states), query, temperature=7.0)
    pairs = zip(found.states.tolist(), found.tokens.tolist(), strict=True)
    assert dict(zip(pairs, found.weights, strict=True)) == pytest.approx(expected, rel=1e-4)


def test_what_is_out_of_range_is_refused():
    automaton = sample(0, "pq")[0].automaton
    with pytest.raises(BadInput, match="entry 80 is outside"):
        automaton.state_of(80)
    with pytest.raises(BadInput, match="state 9 is outside"):
        automaton.members(9)
    with pytest.raises(BadInput, match="state -1 is outside"):
        automaton.transitions(-1, 0)


def test_subnormal_and_extreme_keys_keep_their_distance():
    from retomaton_dist.automaton.automaton import Automaton
    from retomaton_dist.automaton.layout import arrange
    from retomaton_dist.codec.codec import fp16_codec

    keys = np.array([[6e-8, -6e-8], [65504, -65504], [0.0, -0.0], [1e-5, 3.0]], np.float16)
    automaton = Automaton(arrange([0, 1, 2, 3], [0] * 4, [-1] * 4), fp16_codec(keys))
    exact = exact_distances(np.zeros(2), keys)
    assert all_distances(automaton, np.zeros(2)) == pytest.approx(exact, rel=1e-6, abs=0)


@given(st.integers(0, 50), st.sampled_from([1, 2, 8]))
@settings(max_examples=8)
def test_codes_are_the_same_every_time_and_close_to_the_keys(seed, code_size):
    random = np.random.default_rng(seed)
    centres = random.normal(size=(5, 8)) * 4
    keys = (centres[random.integers(0, 5, 600)] + random.normal(size=(600, 8))).astype(np.float16)
    books = train(keys, 4, code_size)
    again = train(keys, 4, code_size)
    assert np.array_equal(books.codebooks, again.codebooks)
    made = encode(keys, books)
    assert np.array_equal(made.codes, encode(keys, again).codes)
    lost = ((decode(made, books) - keys.astype(np.float64)) ** 2).sum()
    spread = ((keys - keys.mean(axis=0, dtype=np.float64)) ** 2).sum()
    assert lost < {1: 0.2, 2: 0.1, 8: 0.01}[code_size] * spread


def test_code_size_is_the_largest_divisor_up_to_64():
    sizes = {768: 64, 288: 48, 100: 50, 127: 1, 7: 7, 64: 64, 1024: 64}
    assert {width: choose_code_size(width, None) for width in sizes} == sizes
    with pytest.raises(BadInput, match="divisor of 10"):
        choose_code_size(10, 3)
    assert [choose_cells(n) for n in (1, 255, 1024, 10**9)] == [1, 1, 4, 1024]


def test_interpolation_is_the_lm_alone_where_there_are_no_candidates():
    mixed = interpolate(np.log([0.5, np.nan]), np.log([0.1, 0.2]), 0.25)
    assert np.exp(mixed) == pytest.approx([0.25 * 0.5 + 0.75 * 0.1, 0.2])
