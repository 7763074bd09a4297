"""Looking things up in an automaton."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.automaton.sums import interpolate
from retomaton_dist.errors import BadInput
from tests.automaton.make import make, random_corpus
from tests.codec.make import DIMENSION, exact_distances

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


@given(samples, st.sets(st.integers(0, 8), max_size=4))
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


def test_interpolation_is_the_lm_alone_where_there_are_no_candidates():
    mixed = interpolate(np.log([0.5, np.nan]), np.log([0.1, 0.2]), 0.25)
    assert np.exp(mixed) == pytest.approx([0.25 * 0.5 + 0.75 * 0.1, 0.2])
