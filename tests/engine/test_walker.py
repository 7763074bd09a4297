"""What a walk comes to depends on its document, its automaton and its threshold alone."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retomaton_dist.automaton.sums import ALL, OTHER, POINTED, TARGET, interpolate, log_automaton
from retomaton_dist.engine.retrieval import OpenRetrieval
from retomaton_dist.engine.uniform import uniform
from retomaton_dist.engine.walker import Walker
from retomaton_dist.engine.walks import WalkSpec, format_threshold, stateless_walk
from retomaton_dist.settings import PRESETS
from tests.automaton.make import all_distances
from tests.automaton.oracle import PaperLane
from tests.codec.make import exact_distances
from tests.engine.texts import (
    TEMPERATURES,
    assert_equal,
    favourites,
    longest_suffix,
    nearest_entries,
    random_automata,
    random_text,
    walk,
)

SPECS = [
    stateless_walk("kmeans"),
    WalkSpec("kmeans", 1.0),
    WalkSpec("kmeans", 3.0),
    WalkSpec("kmeans", math.inf),
    WalkSpec("none", 1.0),
    WalkSpec("none", math.inf),
]
# The same with suffixes: never searching, below some length, and at random.
SUFFIXED = [
    stateless_walk("kmeans", sigma=0.0),
    WalkSpec("kmeans", 1.0, sigma=0.0),
    WalkSpec("kmeans", 3.0, sigma=2.0),
    WalkSpec("kmeans", math.inf, sigma=1.0),
    WalkSpec("none", 3.0, sigma=3.0),
    WalkSpec("none", math.inf, sigma=0.0),
    WalkSpec("none", 3.0, share=0.5),
]
WALKS = {name: replace(preset, k=4, max_knns=10) for name, preset in PRESETS.items()}

worlds = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10_000),
        "entries": st.integers(4, 60),
        "states": st.sampled_from([1, 3, 12]),
        "codec": st.sampled_from(["fp16", "pq"]),
        "lengths": st.lists(st.integers(1, 9), min_size=1, max_size=5),
    }
)
presets = st.sampled_from(sorted(WALKS))


def build(world, gate=0.7):
    random = np.random.default_rng(world["seed"])
    made = random_automata(random, world["entries"], world["states"], world["codec"])
    return made, random_text(random, world["lengths"], gate)


@given(worlds, presets)
@settings(max_examples=10)
def test_the_models_favourite_has_the_sums_that_it_would_have_as_the_token(world, preset):
    made, text = build(world, gate=1.0)
    spec, last = WalkSpec("kmeans", 3.0), [length - 1 for length in world["lengths"]]
    every = range(len(last))
    found = walk(made, [spec], WALKS[preset], text, every)
    # What a document's last token is, no step of its walk knows.
    changed = [
        np.append(tokens[:-1], favourites(tokens[-1:])).astype(np.int32) for tokens in text.tokens
    ]
    expected = walk(made, [spec], WALKS[preset], replace(text, tokens=changed), every)
    for number, place in enumerate(last):
        sums = expected[spec, number].sums[place]
        assert np.array_equal(found[spec, number].favoured[place], sums[:, TARGET])
        assert np.array_equal(found[spec, number].of_favourites().sums[place], sums)


@given(worlds, presets, st.integers(1, 4), st.integers(1, 12))
def test_neither_neighbours_in_a_block_nor_seams_of_slabs_nor_other_walks_matter(
    world, preset, block, slab
):
    made, text = build(world)
    every = range(len(world["lengths"]))
    specs = [*SPECS, *SUFFIXED]
    together = walk(made, specs, WALKS[preset], text, every, block=block, slab=slab)
    for spec in specs:
        for number in every:
            alone = walk(made, [spec], WALKS[preset], text, [number])
            assert_equal(together[spec, number], alone[spec, number])


@given(worlds, presets, st.integers(1, 12))
def test_a_walk_is_the_oracles_position_by_position(world, preset, slab):
    made, text = build(world)
    every = range(len(world["lengths"]))
    specs = [*SPECS[1:], *SUFFIXED[1:]]
    for (spec, number), found in walk(made, specs, WALKS[preset], text, every, slab=slab).items():
        chosen = made[spec.automaton]
        thresholds = {"sigma": spec.sigma, "share": spec.share}
        lane = PaperLane(chosen.corpus, WALKS[preset], spec.tau, number, **thresholds)
        previous = -1
        for t, (token, query) in enumerate(
            zip(text.tokens[number], text.queries[number], strict=True)
        ):
            near = nearest_entries(chosen.keys, query[None], WALKS[preset].k)[0]
            suffix = longest_suffix(made, text.tokens[number][:t].tolist(), WALKS[preset].k)
            draw = uniform(np.array([number]), np.array([t]))[0]
            distances = all_distances(chosen.automaton, query)
            step = lane.step(previous, distances, near.tolist(), suffix, draw)
            assert found.searched[t] == step.searched
            assert found.matched[t] == step.matched
            assert found.states[t] == step.found
            assert found.candidates[t] == len(step.candidates)
            assert found.pointed[t] == sum(pointed for _, _, pointed in step.candidates)
            distances = [distance for _, distance, _ in step.candidates]
            assert found.nearest[t] == min(distances, default=np.inf)
            check_sums(found.sums[t], step.candidates, chosen.corpus.values, token)
            previous = token


def check_sums(sums, candidates, values, target):
    """Log-sums relative to the nearest candidate, the slow way."""
    nearest = min((distance for _, distance, _ in candidates), default=0.0)
    for place, temperature in enumerate(TEMPERATURES):
        for which, wanted in ((TARGET, {target}), (ALL, set(values))):
            for group, pointing in ((POINTED, True), (OTHER, False)):
                weights = [
                    math.exp((nearest - distance) / temperature)
                    for entry, distance, pointed in candidates
                    if pointed == pointing and values[entry] in wanted
                ]
                expected = math.log(sum(weights)) if sum(weights) else -math.inf
                assert sums[place, which, group] == pytest.approx(expected, abs=1e-4)


@given(worlds, presets)
def test_a_forgetful_walk_has_exactly_what_the_search_found(world, preset):
    made, text = build(world, gate=1.0)
    spec, k = SPECS[0], WALKS[preset].k
    found = walk(made, [spec], WALKS[preset], text, range(len(world["lengths"])))
    chosen = made["kmeans"]
    values = np.array(chosen.corpus.values)
    for number, (tokens, queries) in enumerate(zip(text.tokens, text.queries, strict=True)):
        walked = found[spec, number]
        assert walked.searched.all()
        assert (walked.candidates == min(k, world["entries"])).all()
        assert not walked.pointed.any()
        assert np.isneginf(walked.sums[:, :, :, POINTED]).all()
        near = nearest_entries(chosen.keys, queries, k)
        for t, query in enumerate(queries):
            distances = exact_distances(query, chosen.keys[near[t]])
            assert walked.nearest[t] == pytest.approx(distances.min(), abs=1e-4)
            weights = np.exp((distances.min() - distances)[:, None] / TEMPERATURES)
            alike = values[near[t]] == tokens[t]
            with np.errstate(divide="ignore"):
                expected = np.log(weights[alike].sum(axis=0)), np.log(weights.sum(axis=0))
            assert walked.sums[t, :, TARGET, OTHER] == pytest.approx(expected[0], abs=1e-3)
            assert walked.sums[t, :, ALL, OTHER] == pytest.approx(expected[1], abs=1e-3)


@given(worlds, st.sampled_from([0.0, 0.5]))
def test_where_the_gate_is_closed_there_is_no_candidate_and_p_is_p_lm(world, gate):
    made, text = build(world, gate)
    spec, asked = SPECS[0], []
    found = walk(made, [spec], WALKS["sampled"], text, range(len(world["lengths"])), asked=asked)
    for number, gates in enumerate(text.gates):
        walked = found[spec, number]
        assert np.array_equal(walked.searched, gates)
        assert np.array_equal(walked.candidates > 0, gates)
        assert np.array_equal(np.isfinite(walked.nearest), gates)
        closed = walked.sums[~gates].astype(np.float64)
        log_lm = np.linspace(-9, -1, len(closed))[:, None]
        assert (interpolate(log_automaton(closed), log_lm, 0.7) == log_lm).all()
    opened = {(n, t) for n, gates in enumerate(text.gates) for t in np.flatnonzero(gates).tolist()}
    assert sorted(asked) == sorted(opened), "nothing else was searched, and nothing twice"


@given(
    worlds,
    presets,
    st.sampled_from([WalkSpec("kmeans", 1.0), WalkSpec("none", 3.0), *SUFFIXED[2:5]]),
)
def test_a_walk_searches_for_nothing_but_what_it_needs(world, preset, spec):
    made, text = build(world)
    asked = []
    every = range(len(world["lengths"]))
    found = walk(made, [spec], WALKS[preset], text, every, asked=asked)
    needed = {(number, t) for number in every for t in np.flatnonzero(found[spec, number].searched)}
    assert sorted(asked) == sorted(needed)
    for number in every:
        # There is nothing to follow at a start, but there are documents that begin there.
        assert ((number, 0) in needed) == (not spec.looks_up)


def test_labels_tell_thresholds_apart_however_near_they_are():
    taus = [1.0, 2.0, 2.0000001, 1e6 + 1, 1e6 + 2, math.inf]
    assert len({WalkSpec("kmeans", tau).label for tau in taus}) == len(taus)
    shown = [format_threshold(tau) for tau in (1.0, 16.0, 2.5, math.inf)]
    assert shown == ["1", "16", "2.5", "inf"]


def test_labels_tell_restarts_apart():
    labels = [spec.label for spec in (*SPECS, *SUFFIXED)]
    assert len(set(labels)) == len(labels)
    assert labels[0] == "knnlm"
    assert labels[6:] == [
        "suffix", "kmeans@1,0", "kmeans@3,2", "kmeans@inf,1", "none@3,3", "none@inf,0",
        "none@3,inf,0.5",
    ]  # fmt: skip


def test_only_walks_that_never_search_can_do_without_an_index():
    assert [spec.label for spec in SUFFIXED if not spec.searches] == [
        "suffix", "kmeans@1,0", "none@inf,0",
    ]  # fmt: skip
    assert all(spec.searches and not spec.looks_up for spec in SPECS)


@given(worlds, presets)
def test_suffixes_alone_are_what_follows_the_longest_one_and_nothing_is_searched(world, preset):
    made, text = build(world, gate=1.0)
    spec, k, asked = SUFFIXED[0], WALKS[preset].k, []
    every = range(len(world["lengths"]))
    found = walk(made, [spec, SUFFIXED[1]], WALKS[preset], text, every, asked=asked)
    assert asked == []
    chosen = made["kmeans"]
    for number, (tokens, queries) in enumerate(zip(text.tokens, text.queries, strict=True)):
        walked = found[spec, number]
        for t, (token, query) in enumerate(zip(tokens, queries, strict=True)):
            entries, length = longest_suffix(made, tokens[:t].tolist(), k)
            assert (walked.matched[t], walked.candidates[t]) == (length, len(entries))
            assert not walked.searched[t]
            distances = all_distances(chosen.automaton, query)
            candidates = [(entry, float(distances[entry]), False) for entry in entries]
            check_sums(walked.sums[t], candidates, chosen.corpus.values, token)


def test_a_row_is_walked_by_the_rules_that_it_is_assigned_and_by_no_other():
    made, text = build({"seed": 3, "entries": 60, "states": 12, "codec": "fp16", "lengths": [6, 6]})
    rules, settings = [WalkSpec("kmeans", 3.0), WalkSpec("none", 1.0)], WALKS["reference"]
    automata = {name: item.automaton for name, item in made.items()}
    walker = Walker(OpenRetrieval(settings, automata), rules, 2)
    rows, grid = np.arange(2), tuple(TEMPERATURES.tolist())
    previous = np.full(2, -1, np.int32)
    alone = [
        walk(made, [rule], settings, text, [0, 1])[rule, row] for row, rule in enumerate(rules)
    ]
    walker.begin(rows, rows)
    for row, rule in enumerate(rules):
        walker.assign(np.array([row]), [rule])
    for t in range(6):
        queries = np.stack([text.queries[row][t] for row in rows])
        tokens = np.array([text.tokens[row][t] for row in rows], np.int32)

        def find(places, queries=queries):
            keys = next(iter(made.values())).keys
            return nearest_entries(keys, queries[places], settings.k)

        walker.step(rows, previous, queries, find, np.ones(2, np.bool_))
        found = walker.results(grid, tokens, favourites(tokens))
        for row, rule in enumerate(rules):
            here, there = found[rule].rows(slice(row, row + 1)), alone[row].rows(slice(t, t + 1))
            assert_equal(here, there)
            assert found[rules[1 - row]].candidates[row] == 0
        previous = tokens
    walker.close()
