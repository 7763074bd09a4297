"""The grid of temperatures goes with the distances, and what lies at its edge is said."""

import math

import numpy as np
import pytest

from retomaton_dist.automaton.automaton import Automaton
from retomaton_dist.codec.fp16 import fp16_codec
from retomaton_dist.evaluation.temperatures import at_edges, grid_around, temperatures_of
from retomaton_dist.methods.constant import choosable
from retomaton_dist.methods.method import Calibrated, Setup
from tests.automaton.make import all_distances, arrange, make, random_corpus

SETUP = Setup(("kmeans",), {"kmeans": (math.inf,)})


def automaton_of(keys):
    """Every entry a state of its own."""
    numbers = np.arange(len(keys))
    columns = arrange(numbers, np.zeros(len(keys)), np.full(len(keys), -1))
    return Automaton(columns, fp16_codec(np.asarray(keys, np.float16)[columns.entries]))


def test_a_grid_has_half_octaves_whose_doubles_are_exact():
    grid = grid_around(123.456)
    assert 123.0 in grid
    assert list(grid) == sorted(grid)
    assert all(high == 2 * low for low, high in zip(grid, grid[2:], strict=False))
    assert choosable(grid) == list(grid[2:-2])
    assert grid_around(1_234_560) == pytest.approx([10_000 * degree for degree in grid])


def test_the_typical_distance_is_between_entries_whatever_their_offset():
    keys = np.random.default_rng(0).normal(size=(500, 8))
    found = automaton_of(keys).typical_distance
    assert found == pytest.approx(2 * 8, rel=0.2)
    assert automaton_of(4 * keys).typical_distance == pytest.approx(16 * found, rel=0.01)
    assert automaton_of(keys + 64).typical_distance == pytest.approx(found, rel=0.01)


def test_equal_keys_do_not_count_and_keys_that_are_all_equal_do_no_harm():
    keys = np.zeros((100, 2))
    assert automaton_of(keys).typical_distance == 1.0
    keys[0] = 3.0
    assert automaton_of(keys).typical_distance == 18.0


@pytest.mark.parametrize("codec", ["fp16", "pq"])
def test_the_keys_of_a_codec_are_those_that_it_measures_from(codec):
    automaton = make(random_corpus(np.random.default_rng(1), 40, 5, 3), codec, 1).automaton
    keys = automaton.codec.keys(automaton.columns.slots.astype(np.int64))
    query = np.ones(automaton.dimension, np.float32)
    assert ((keys - query) ** 2).sum(axis=1) == pytest.approx(all_distances(automaton, query))


def test_constants_at_an_edge_are_said_and_those_that_were_given_are_not():
    grid = grid_around(8.0)
    tried = choosable(grid)
    inner = {"lambda": 0.5, "temperature": tried[3], "pointer_weight": 1.0}
    found = {
        "knnlm": Calibrated({**inner, "temperature": tried[-1]}),
        "retomaton+pw": Calibrated({"kmeans": {**inner, "pointer_weight": 256.0}}),
        "retomaton": Calibrated({"kmeans": {**inner, "temperature": tried[-1]}, "none": inner}),
    }
    assert at_edges(found, grid, SETUP) == {
        "temperature 16 is the largest that was tried": ["knnlm", "retomaton kmeans"],
        "pointer weight 256 is the largest that was tried": ["retomaton+pw kmeans"],
    }
    assert temperatures_of(found) == {tried[3], tried[-1]}
    given = Setup(("kmeans",), {}, temperature=tried[-1])
    assert list(at_edges(found, grid, given)) == [
        "pointer weight 256 is the largest that was tried"
    ]
