"""Distances by both codecs are those of the keys that the codes stand for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.codec.fp16 import fp16_codec
from retomaton_dist.codec.pq import pq_codec
from retomaton_dist.codec.threads import Threads
from retomaton_dist.errors import BadInput, DamagedStore
from tests.codec.make import DIMENSION, exact_distances, random_codec

ENTRIES = 80
ONE = Threads(1)

codecs = st.sampled_from(["pq", "fp16"])
seeds = st.integers(0, 1000)


def sample(seed, codec):
    random = np.random.default_rng(seed)
    return *random_codec(random, ENTRIES, codec), random


def measured(codec, queries, slots, threads=ONE):
    return codec.distances(codec.ready(queries, threads), np.asarray(slots), threads)


@given(seeds, codecs)
def test_distances_are_those_of_the_keys_that_the_codes_stand_for(seed, name):
    codec, keys, random = sample(seed, name)
    query = random.normal(size=DIMENSION).astype(np.float32)
    found = measured(codec, query[None], [range(ENTRIES)])[0]
    assert found == pytest.approx(exact_distances(query, keys), rel=1e-5, abs=1e-5)


@given(seeds, codecs, st.integers(0, 5), st.integers(1, 4))
def test_a_distance_depends_neither_on_threads_nor_on_company(seed, name, rows, threads):
    codec, _, random = sample(seed, name)
    queries = random.normal(size=(rows, DIMENSION)).astype(np.float32)
    slots = random.integers(-1, ENTRIES, (rows, 300))
    team = Threads(threads)
    found = measured(codec, queries, slots, team)
    team.close()
    for row in range(rows):
        alone = measured(codec, queries[row : row + 1], slots[row : row + 1, ::-1].copy())
        assert np.array_equal(found[row], alone[0, ::-1])


@given(seeds, codecs)
def test_only_the_asked_part_of_a_row_is_measured(seed, name):
    codec, _, random = sample(seed, name)
    queries = random.normal(size=(2, DIMENSION)).astype(np.float32)
    slots = random.integers(0, ENTRIES, (3, 9))
    ready, rows, asking = codec.ready(queries, ONE), np.array([2, 0]), np.array([1, 0])
    firsts, lasts = random.integers(0, 5, 3), random.integers(5, 10, 3)
    distances = np.full(slots.shape, np.nan, np.float32)
    codec.measure(ready, asking, slots, distances, rows, firsts, lasts)
    expected = np.full(slots.shape, np.nan, np.float32)
    for row, query in zip(rows, asking, strict=True):
        part = slice(firsts[row], lasts[row])
        expected[row, part] = measured(codec, queries[query][None], slots[row][None])[0, part]
    assert np.array_equal(distances, expected, equal_nan=True)


@pytest.mark.parametrize("name", ["pq", "fp16"])
def test_what_is_no_slot_is_infinitely_far(name):
    codec, _, _ = sample(0, name)
    found = measured(codec, np.zeros((1, DIMENSION)), [[3, -1]])
    assert np.isinf(found[0]).tolist() == [False, True]


@pytest.mark.parametrize(
    ("column", "wrong"), [("cells", 60_000), ("brackets", math.nan), ("centroids", math.nan)]
)
def test_codes_that_lead_to_no_number_are_damage(column, wrong):
    """Walks would leave such entries out, and the results would look like any others."""
    codec, _, _ = sample(0, "pq")
    damaged = getattr(codec.codes, column).copy()
    damaged[...] = wrong
    broken = pq_codec(codec.codes._replace(**{column: damaged}))
    with pytest.raises(DamagedStore, match="a distance is NaN"):
        measured(broken, np.zeros((1, DIMENSION)), [[3, 4]])


@pytest.mark.parametrize("wrong", [math.nan, -math.nan, math.inf, -math.inf])
def test_keys_that_are_no_numbers_are_damage(wrong):
    keys = np.array([[1.0, 2.0], [3.0, wrong]], np.float16)
    assert np.isfinite(measured(fp16_codec(keys), np.zeros((1, 2)), [[0]])).all()
    with pytest.raises(DamagedStore, match="a distance is NaN"):
        measured(fp16_codec(keys), np.zeros((1, 2)), [[0, 1]])


def test_subnormal_and_extreme_keys_keep_their_distance():
    keys = np.array([[6e-8, -6e-8], [65504, -65504], [0.0, -0.0], [1e-5, 3.0]], np.float16)
    found = measured(fp16_codec(keys), np.zeros((1, 2)), [range(4)])[0]
    assert found == pytest.approx(exact_distances(np.zeros(2), keys), rel=1e-6, abs=0)


def test_queries_of_the_wrong_width_or_with_nan_are_refused():
    codec, _, _ = sample(0, "pq")
    with pytest.raises(BadInput, match=r"not \[n, 6\] as the keys"):
        codec.ready(np.zeros((1, 7)), ONE)
    with pytest.raises(BadInput, match="query 1 is NaN or infinite"):
        codec.ready([[0.0] * 6, [math.nan] * 6], ONE)
