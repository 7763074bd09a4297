"""Lanes do not disturb each other, whoever runs them, and refuse what makes no sense."""

import math
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retomaton_dist.automaton.automaton import Automaton
from retomaton_dist.automaton.lanes import Lanes
from retomaton_dist.errors import BadInput
from retomaton_dist.settings import WalkSettings
from tests.automaton.make import make, random_corpus
from tests.codec.make import DIMENSION

WALK = WalkSettings(k=4, max_knns=9, max_states=6, pointer_weight=2.0)
TAUS = [1.0, 2.0, 4.0, math.inf, 1.0, 3.0]


def sample(seed=1, codec="pq"):
    random = np.random.default_rng(seed)
    return make(random_corpus(random, 200, 25, 3), codec, seed).automaton, random


def texts(random, lanes, positions=7):
    """Tokens, queries and neighbours of every lane and position."""
    return [
        (
            random.integers(0, 3, lanes).astype(np.int32),
            random.normal(size=(lanes, DIMENSION)).astype(np.float32),
            random.integers(0, 200, (lanes, WALK.k)),
        )
        for _ in range(positions)
    ]


def run(automaton, text, chosen, threads=1):
    """Log-sums of the chosen lanes at every position."""
    lanes = Lanes(automaton, WALK, [TAUS[lane] for lane in chosen], threads)
    lanes.reset(chosen)
    sums = []
    for tokens, queries, found in text:
        ready = automaton.ready(queries[chosen])
        lanes.advance(tokens[chosen])
        lanes.join(ready, automaton.neighbours(ready, found[chosen]))
        sums.append(lanes.log_sums(tokens[chosen], [1.0, 9.0]))
    lanes.close()
    return np.stack(sums, axis=1)


@settings(max_examples=15)
@given(st.integers(0, 100), st.sampled_from([1, 2, 3]), st.permutations(range(6)))
def test_results_depend_neither_on_threads_nor_on_company(seed, threads, order):
    automaton, random = sample(seed)
    text = texts(random, 6)
    together = run(automaton, text, list(range(6)))
    chosen = order[:4]
    assert np.array_equal(run(automaton, text, chosen, threads), together[chosen])


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["pq", "fp16"])
def test_ids_of_eight_bytes_walk_as_those_of_four(codec):
    automaton, random = sample(3, codec)
    narrow = automaton.columns
    wide = {
        name: getattr(narrow, name).astype(np.int64) for name in ("offsets", "entries", "slots")
    }
    nexts = narrow.nexts.astype(np.int64)
    nexts[nexts == 2**32 - 1] = -1
    widened = Automaton(narrow._replace(nexts=nexts, **wide), automaton.codec)
    text = texts(random, 6)
    assert (nexts == -1).any()
    assert np.array_equal(run(widened, text, range(6)), run(automaton, text, range(6)))


def test_many_threads_may_walk_one_automaton_at_once():
    automaton, random = sample()
    text = texts(random, 6)
    expected = run(automaton, text, [0, 1, 2, 3, 4, 5])
    results = [None] * 4

    def walk(number):
        results[number] = run(automaton, text, [0, 1, 2, 3, 4, 5], threads=2)

    threads = [threading.Thread(target=walk, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(result, expected) for result in results)


def test_lanes_of_one_position_share_its_query_and_its_search():
    automaton, random = sample()
    text = texts(random, 1)
    lanes = Lanes(automaton, WALK, [1.0, math.inf])
    alone = [Lanes(automaton, WALK, [tau]) for tau in (1.0, math.inf)]
    for tokens, queries, found in text:
        ready = automaton.ready(queries)
        near = automaton.neighbours(ready, found)
        lanes.advance(np.repeat(tokens, 2))
        lanes.join(ready, near, rows=[0, 0])
        for lane, single in enumerate(alone):
            single.advance(tokens)
            single.join(ready, near)
            assert np.array_equal(lanes.walk(lane).entries, single.walk(0).entries)


def test_a_copied_lane_goes_on_as_its_source_would():
    automaton, random = sample()
    text = texts(random, 1)
    lanes = Lanes(automaton, WALK, [2.0, 2.0, 2.0])
    for position, (tokens, queries, found) in enumerate(text):
        ready = automaton.ready(queries)
        near = automaton.neighbours(ready, found)
        chosen = [0] if position < 4 else [0, 1, 2]
        lanes.advance(np.repeat(tokens, len(chosen)), chosen)
        lanes.join(ready, near, [0] * len(chosen), chosen)
        if position == 3:
            lanes.copy([0, 0], [1, 2])
    for copied in (1, 2):
        assert np.array_equal(lanes.walk(0).entries, lanes.walk(copied).entries)
    first, *others = lanes.log_sums([1, 1, 1], [2.0])
    assert all(np.array_equal(first, other) for other in others)


def test_a_reset_lane_begins_anew():
    automaton, random = sample()
    text = texts(random, 1)
    lanes = Lanes(automaton, WALK, [1.0])
    seen = []
    for _ in range(2):
        lanes.reset([5])
        for tokens, queries, found in text:
            ready = automaton.ready(queries)
            lanes.advance(tokens)
            lanes.join(ready, automaton.neighbours(ready, found))
        seen.append(lanes.walk(0).entries)
    assert np.array_equal(*seen)


@given(st.data())
def test_damaged_columns_never_crash(data):
    automaton, random = sample(codec=data.draw(st.sampled_from(["pq", "fp16"])))
    damaged = {}
    for name, column in automaton.columns._asdict().items():
        copy = column.copy()
        places = random.integers(0, len(copy), 40)
        bits = random.integers(0, 2**32, 40).astype(np.uint32)
        copy.view(np.uint32)[places] = bits
        damaged[name] = copy if data.draw(st.booleans()) else column
    broken = Automaton(automaton.columns._replace(**damaged), automaton.codec)
    run(broken, texts(random, 6), [0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize("tau", [0.0, 0.5, -1.0, math.nan])
def test_tau_below_1_is_refused(tau):
    with pytest.raises(BadInput, match="--tau"):
        Lanes(sample()[0], WALK, [tau])


@pytest.mark.parametrize("wrong", [{"k": 0}, {"max_knns": 0}, {"pointer_weight": 0.0}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(BadInput, match="--"):
        Lanes(sample()[0], WalkSettings(**wrong), [1.0])


def test_lanes_tokens_queries_and_neighbours_must_match():
    automaton, _ = sample()
    lanes = Lanes(automaton, WALK, [1.0, 1.0])
    one = automaton.ready(np.zeros((1, DIMENSION)))
    with pytest.raises(BadInput, match="2 lanes and tokens of shape"):
        lanes.advance([1])
    with pytest.raises(BadInput, match="`advance`, then `join`"):
        lanes.join(one)
    lanes.advance([1, 1])
    with pytest.raises(BadInput, match="2 lanes and 1 queries do not match"):
        lanes.join(one)
    with pytest.raises(BadInput, match="given no neighbours"):
        lanes.join(one, rows=[0, 0])
    with pytest.raises(BadInput, match="k = 4 at most"):
        lanes.join(one, automaton.neighbours(one, [[1] * 5]), rows=[0, 0])
    with pytest.raises(BadInput, match="neighbour is outside"):
        automaton.neighbours(one, [[200]])
    with pytest.raises(BadInput, match="lane is outside"):
        lanes.advance([1], [2])
    with pytest.raises(BadInput, match="named twice"):
        lanes.advance([1, 1], [0, 0])
    with pytest.raises(BadInput, match="temperatures"):
        lanes.log_sums([1, 1], [0.0])
