"""Who decides what is searched: by chance, or by a network."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.engine.uniform import uniform
from retomaton_dist.methods.adaptret import AdaptRetGate
from retomaton_dist.methods.held_out import held_out
from retomaton_dist.methods.knnlm import RandomGate
from tests.methods.learning import DIMENSION, random_network, random_reading


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
def test_a_random_gate_drops_about_its_fraction(fraction):
    documents, positions = np.divmod(np.arange(20_000, dtype=np.int32), 37)
    opened = RandomGate(fraction)(None, documents, positions)
    assert 1 - opened.mean() == pytest.approx(fraction, abs=0.015)
    by_position = [1 - opened[positions == place].mean() for place in range(37)]
    assert np.std(by_position) < 0.05, "no place in a document is favoured"


@given(st.integers(0, 2**31), st.floats(0.01, 0.99))
def test_a_random_gate_looks_at_the_position_alone(seed, fraction):
    random = np.random.default_rng(seed)
    documents = random.integers(0, 1000, 50).astype(np.int32)
    positions = random.integers(0, 1000, 50).astype(np.int32)
    gate, order = RandomGate(fraction), random.permutation(50)
    opened = gate(None, documents, positions)
    assert np.array_equal(gate(None, documents[order], positions[order]), opened[order])
    assert np.array_equal(gate(None, documents[3:4], positions[3:4]), opened[3:4])


def test_what_is_kept_at_a_larger_fraction_is_kept_at_a_smaller_one_too():
    documents, positions = np.divmod(np.arange(2000, dtype=np.int32), 7)
    fewer, more = (RandomGate(share)(None, documents, positions) for share in (0.7, 0.3))
    assert (fewer <= more).all()


def test_numbers_are_uniform():
    found = uniform(np.zeros(10_000, np.int32), np.arange(10_000, dtype=np.int32))
    assert found.min() >= 0
    assert found.max() < 1
    assert np.histogram(found, 10, (0, 1))[0] == pytest.approx([1000] * 10, rel=0.15)


def test_adaptret_searches_where_the_network_trusts_the_lm_less_than_the_threshold():
    random = np.random.default_rng(0)
    network, reading = random_network(), random_reading(random, 200, DIMENSION)
    trust = network.log_shares(reading)[:, 0]
    threshold = float(np.quantile(trust, 0.3))
    nothing = np.zeros(200, np.int32)
    opened = AdaptRetGate(network, threshold)(reading, nothing, nothing)
    assert np.array_equal(opened, trust < threshold)
    assert opened.sum() == 60
    assert str(threshold) in repr(AdaptRetGate(network, threshold)), "it is in the stage's config"


rows = st.lists(st.integers(1, 30), min_size=1, max_size=12).map(
    lambda sizes: np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
)


@given(rows, st.sampled_from([0.1, 0.15]), st.integers(0, 50))
def test_what_is_held_out_is_whole_documents_never_none_and_never_all(documents, share, seed):
    held = held_out(documents, share, seed)
    if len(documents) > 1:
        assert 0 < held.sum() < len(documents)
    if len(np.unique(documents)) > 1:
        assert not set(documents[held]) & set(documents[~held])
        smallest = np.bincount(documents).min()
        assert held.sum() <= max(share * len(documents), smallest)
    else:
        assert (np.diff(held.astype(int)) >= 0).all(), "the last rows of a single document"
