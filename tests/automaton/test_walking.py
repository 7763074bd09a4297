"""The kernels walk exactly as the slow oracles do, whatever the automaton and the settings."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retomaton_dist.automaton.arrays import CANDIDATES_CAPPED
from retomaton_dist.automaton.lanes import Lanes
from retomaton_dist.automaton.sums import log_automaton
from retomaton_dist.settings import PRESETS, WalkSettings
from tests.automaton.make import all_distances, make, random_corpus
from tests.automaton.oracle import EquationsLane, PaperLane, ReferenceLane
from tests.codec.make import DIMENSION

STEPS = 8
TEMPERATURES = [0.5, 3.0, 40.0]

automata = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10_000),
        "entries": st.integers(1, 60),
        "states": st.sampled_from([1, 3, 12, 60]),
        "vocabulary": st.integers(1, 4),
        "tangled": st.booleans(),
        "clustered": st.sampled_from([True, True, False]),
        "codec": st.sampled_from(["fp16", "pq"]),
    }
)
walks = st.builds(
    WalkSettings,
    k=st.integers(1, 6),
    max_knns=st.sampled_from([1, 2, 5, 12, 100]),
    max_states=st.sampled_from([1, 2, 4, 4096]),
    follow=st.sampled_from(["members", "scored"]),
    count=st.sampled_from(["states", "entries"]),
    members=st.sampled_from(["hashed", "listed"]),
    duplicates=st.sampled_from(["keep", "drop"]),
    restart=st.sampled_from(["neighbours", "states"]),
    pointer_weight=st.sampled_from([1.0, 4.0]),
    seed=st.integers(0, 3),
)
taus = st.sampled_from([1.0, 2.0, 3.5, 7.0, math.inf])


def build(chosen):
    random = np.random.default_rng(chosen["seed"])
    sizes = chosen["entries"], chosen["states"], chosen["vocabulary"]
    corpus = random_corpus(random, *sizes, tangled=chosen["tangled"])
    if not chosen["clustered"]:
        corpus.states = list(range(chosen["entries"]))
    states = chosen["states"] if chosen["clustered"] else chosen["entries"]
    return make(corpus, chosen["codec"], chosen["seed"], states), random


def journey(made, random, k, vocabulary):
    """Tokens, queries and what a search would find, position after position."""
    for _ in range(STEPS):
        query = random.integers(-2, 3, DIMENSION).astype(np.float32)
        distances = all_distances(made.automaton, query)
        nearest = np.argsort(distances, kind="stable")[: k + 2]
        found = np.full(k, -1)
        chosen = random.permutation(nearest)[: random.integers(0, k + 1)]
        found[: len(chosen)] = chosen
        yield int(random.integers(0, vocabulary)), query, distances, found


@given(automata, walks, taus, st.integers(0, 5))
def test_every_step_equals_the_pseudo_code(chosen, settings, tau, document):
    made, random = build(chosen)
    oracle = PaperLane(made.corpus, settings, tau, document)
    lanes = Lanes(made.automaton, settings, [tau])
    lanes.reset([document])
    capped = Counter()
    for token, query, distances, found in journey(made, random, settings.k, chosen["vocabulary"]):
        expected = oracle.step(token, distances, found.tolist())
        ready = made.automaton.ready(query[None])
        searching = lanes.advance([token])
        lanes.join(ready, made.automaton.neighbours(ready, found[None]))
        walk = lanes.walk(0)
        assert walk.found == expected.found
        assert searching[0] == walk.searched == expected.searched
        assert set(walk.states.tolist()) == expected.states
        pairs = zip(walk.entries.tolist(), walk.pointed.tolist(), strict=True)
        assert Counter(pairs) == expected.multiset()
        assert np.array_equal(walk.distances, distances[walk.entries])
        check_probabilities(lanes, expected, made.corpus.values, settings.pointer_weight)
        capped["states"] += expected.states_capped
        capped["candidates"] += expected.candidates_capped
    states_capped, candidates_capped, _ = lanes.arrays.counters[0]
    assert states_capped == capped["states"]
    assert candidates_capped == capped["candidates"]


def check_probabilities(lanes, expected, values, pointer_weight):
    versions = [(TEMPERATURES[1], pointer_weight), (TEMPERATURES[0], 1.0), (TEMPERATURES[1], 7.0)]
    dense = lanes.distributions(versions)
    count = int(dense.counts[0])
    for version, found in zip(versions, dense.probabilities[0], strict=True):
        sparse = dict(zip(dense.tokens[0, :count].tolist(), found, strict=False))
        assert sparse == pytest.approx(expected.distribution(values, *version), abs=1e-5)
        assert not found[count:].any()
    for target in range(max(values) + 2):
        logs = log_automaton(lanes.log_sums([target], TEMPERATURES), pointer_weight)[0]
        for temperature, log in zip(TEMPERATURES, logs, strict=True):
            oracle = expected.distribution(values, temperature, pointer_weight)
            if expected.candidates:
                assert math.exp(log) == pytest.approx(oracle.get(target, 0.0), abs=1e-5)
            else:
                assert math.isnan(log)


# Two entries in states of their own beside a state that nothing is in.
ONE_EACH = {
    "seed": 2, "entries": 2, "states": 3, "vocabulary": 1, "tangled": True, "clustered": True,
    "codec": "fp16",
}  # fmt: skip


@example(ONE_EACH, 1, 2, 1.0)
@given(automata, st.integers(1, 6), st.sampled_from([1, 2, 5, 12, 100]), taus)
def test_the_preset_reference_equals_the_authors_code(chosen, k, max_knns, tau):
    made, random = build(chosen)
    oracle = ReferenceLane(made.corpus, k, max_knns, tau, clustered=not made.corpus.unclustered)
    lanes = Lanes(made.automaton, replace(PRESETS["reference"], k=k, max_knns=max_knns), [tau])
    for token, query, distances, found in journey(made, random, k, chosen["vocabulary"]):
        candidates, alike, search = oracle.step(token, distances, found.tolist())
        ready = made.automaton.ready(query[None])
        lanes.advance([token])
        lanes.join(ready, made.automaton.neighbours(ready, found[None]))
        walk = lanes.walk(0)
        assert (walk.found, walk.searched) == (alike, search)
        assert Counter(walk.entries.tolist()) == candidates


@given(automata, st.integers(1, 6), taus)
def test_the_preset_equations_is_the_papers_equations(chosen, k, tau):
    made, random = build(chosen)
    oracle = EquationsLane(made.corpus, tau)
    lanes = Lanes(made.automaton, replace(PRESETS["equations"], k=k, max_knns=200), [tau])
    for token, query, _, found in journey(made, random, k, chosen["vocabulary"]):
        candidates, states, search = oracle.step(token, found.tolist())
        ready = made.automaton.ready(query[None])
        lanes.advance([token])
        lanes.join(ready, made.automaton.neighbours(ready, found[None]))
        walk = lanes.walk(0)
        assert (walk.searched, set(walk.states.tolist())) == (search, states)
        assert sorted(walk.entries.tolist()) == sorted(candidates)
        weights = made.automaton.weights(sorted(states), query, TEMPERATURES[1])
        dense = lanes.distributions([(TEMPERATURES[1], 1.0)])
        total = weights.weights.sum()
        for value, p in zip(
            dense.tokens[0, : dense.counts[0]], dense.probabilities[0, 0], strict=False
        ):
            expected = weights.weights[weights.tokens == value].sum() / total
            assert p == pytest.approx(expected, abs=1e-5)
    assert lanes.arrays.counters[0, CANDIDATES_CAPPED] == 0


def test_presets_are_what_their_names_say():
    assert PRESETS["sampled"] == WalkSettings()
    sampled = PRESETS["sampled"]
    assert (sampled.k, sampled.max_knns, sampled.max_states) == (1024, 1024, 4096)
    assert (sampled.follow, sampled.count, sampled.duplicates) == ("members", "states", "keep")
    assert PRESETS["reference"].follow == "scored"
    assert PRESETS["reference"].count == "entries"
