"""Networks find what there is to find, and come back from arrays as they were."""

from dataclasses import replace

import numpy as np
import pytest

from retomaton_dist.methods import adaptret_network
from retomaton_dist.methods.adaptret_network import AdaptRetNetwork, train_adaptret
from retomaton_dist.methods.mixture_network import MixtureNetwork, train_mixture
from tests.methods.learning import DIMENSION, random_network, random_reading, random_statistics


@pytest.fixture(scope="module")
def informative():
    """Two distributions, each good where one feature says so; and the rows that are held out."""
    random = np.random.default_rng(0)
    rows = 4000
    features = random.normal(size=(rows, 4)).astype(np.float32)
    first = random.random(rows) < 1 / (1 + np.exp(-4 * features[:, 2]))
    good, bad = np.log(0.6), np.log(0.02)
    logs = np.stack([np.where(first, good, bad), np.where(first, bad, good)], axis=1)
    return features, logs.astype(np.float32), random.random(rows) < 0.15


def loss(shares, logs):
    return -np.logaddexp.reduce(shares + logs, axis=1).mean()


def test_a_feature_that_tells_which_distribution_is_right_is_found(informative):
    features, logs, held = informative
    network, facts = train_mixture(features[:3000], logs[:3000], held[:3000])
    shares = network.log_shares(features[3000:])
    assert np.exp(shares).sum(axis=1) == pytest.approx(1.0)
    found = loss(shares, logs[3000:])
    constants = [np.log([share, 1 - share]) for share in np.linspace(0.01, 0.99, 99)]
    assert found < 0.8 * min(loss(constant, logs[3000:]) for constant in constants)
    assert facts["rows"] == 3000
    assert 1 <= facts["epochs"] <= 40


def test_the_same_scores_give_the_same_network(informative):
    features, logs, held = (column[:600] for column in informative)
    one, other = (train_mixture(features, logs, held)[0] for _ in range(2))
    assert np.array_equal(one.log_shares(features), other.log_shares(features))


def test_tokens_without_any_probability_do_not_spoil_training(informative):
    features, logs, held = (column[:600].copy() for column in informative)
    logs[::3, 1] = -np.inf
    network, _ = train_mixture(features, logs, held)
    assert np.isfinite(network.log_shares(features)).all()


def test_a_mixture_network_comes_back_from_its_arrays(informative):
    features, logs, held = (column[:600] for column in informative)
    network, _ = train_mixture(features, logs, held)
    again = MixtureNetwork.of(network.arrays())
    assert np.array_equal(again.log_shares(features), network.log_shares(features))


def test_adaptrets_network_comes_back_from_its_arrays():
    network, reading = random_network(), random_reading(np.random.default_rng(1), 50, DIMENSION)
    again = AdaptRetNetwork.of(network.arrays())
    assert np.array_equal(again.log_shares(reading), network.log_shares(reading))
    assert np.exp(network.log_shares(reading)).sum(axis=1) == pytest.approx(1.0)


def test_the_last_row_of_the_statistics_is_a_documents_start():
    statistics = random_statistics(np.random.default_rng(2))
    found = statistics.of(np.array([3, -1], np.int32))
    assert found[0].tolist() == [statistics.frequencies[3], statistics.fertilities[3]]
    assert found[1].tolist() == [statistics.frequencies[-1], statistics.fertilities[-1]]


def test_adaptret_learns_where_searches_help(monkeypatch):
    monkeypatch.setattr(adaptret_network, "EPOCHS", 3)
    random = np.random.default_rng(3)
    rows = 3000
    reading = random_reading(random, rows, DIMENSION)
    helps = reading.queries[:, 0] > 0
    log_knn = np.where(helps, np.log(0.9), np.where(random.random(rows) < 0.5, -np.inf, -9.0))
    documents = np.repeat(np.arange(100), 30).astype(np.int32)
    statistics = random_statistics(random)
    network, facts = train_adaptret(reading, log_knn, documents, statistics)
    trust = network.log_shares(reading)[:, 0]
    searched = trust < np.median(trust)
    assert np.mean(searched == helps) > 0.9
    assert facts["positions"] + facts["held_out"] == rows
    assert 0 < facts["held_out"] <= 0.1 * rows
    assert 1 <= facts["chosen_epoch"] <= 3


def test_adaptret_learns_the_same_whatever_the_unit_of_queries_is(monkeypatch):
    monkeypatch.setattr(adaptret_network, "EPOCHS", 1)
    random = np.random.default_rng(4)
    reading, statistics = random_reading(random, 600, DIMENSION), random_statistics(random)
    log_knn, documents = np.log(random.random(600)), np.repeat(np.arange(20, dtype=np.int32), 30)
    scaled = replace(reading, queries=reading.queries * np.float16(128))
    shares = [
        train_adaptret(given, log_knn, documents, statistics)[0].log_shares(given)
        for given in (reading, scaled)
    ]
    assert np.allclose(*shares, atol=1e-4)
