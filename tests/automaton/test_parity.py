"""Perplexity and saved searches of the preset `reference` are those of the authors' code.

A text of a small Markov chain, long enough that walks run on: with k-means and without clustering,
at every tau, our kernels against the slow `ReferenceLane`.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import pytest

from retomaton_dist.automaton.automaton import Automaton
from retomaton_dist.automaton.lanes import Lanes
from retomaton_dist.automaton.sums import interpolate, log_automaton
from retomaton_dist.codec.fp16 import fp16_codec
from retomaton_dist.settings import PRESETS
from tests.automaton.make import all_distances, arrange
from tests.automaton.oracle import Corpus, ReferenceLane
from tests.codec.make import DIMENSION, exact_distances

VOCABULARY, ENTRIES, POSITIONS, K, MAX_KNNS = 12, 600, 150, 12, 24
STATES = 50
TEMPERATURE, WEIGHT = 8.0, 0.6
LM = 1 / VOCABULARY
TAUS = [1.0, 4.0, 16.0, math.inf]


def chain(random, length):
    """Tokens of which the last two decide the next, most of the time."""
    likely = np.random.default_rng(7).integers(0, VOCABULARY, (VOCABULARY, VOCABULARY))
    tokens = [0, 1]
    for _ in range(length):
        follows = likely[tokens[-2], tokens[-1]]
        surely = random.random() < 0.8
        tokens.append(int(follows if surely else random.integers(0, VOCABULARY)))
    return tokens


def contexts(random, tokens):
    """A noisy key for the two tokens before each."""
    embedding = np.random.default_rng(8).normal(size=(2, VOCABULARY, DIMENSION))
    exact = embedding[0, tokens[:-2]] + embedding[1, tokens[1:-1]]
    return np.float16(2 * exact + random.normal(size=exact.shape))


@dataclass
class Text:
    """Position by position: the token, all distances, and the nearest entries."""

    automaton: Automaton
    queries: np.ndarray
    tokens: list[int]

    def __iter__(self):
        for query, token in zip(self.queries, self.tokens, strict=True):
            distances = all_distances(self.automaton, query)
            yield token, distances, np.argsort(distances, kind="stable")[:K].tolist()


def made_up():
    """Keys and values of a corpus, queries and tokens of a text."""
    random = np.random.default_rng(9)
    corpus, text = chain(random, ENTRIES), chain(random, POSITIONS)
    return contexts(random, corpus), corpus[2:], contexts(random, text), text[2:]


def arranged(keys, values, *, clustered):
    """The automaton, and the same as lists; states are those of the nearest of a few keys."""
    centres = keys[:: ENTRIES // STATES]
    nearest = [int(np.argmin(exact_distances(key, centres))) for key in keys]
    pointers = np.arange(1, ENTRIES + 1)
    pointers[49::50] = -1
    corpus = Corpus(nearest if clustered else list(range(ENTRIES)), values, pointers.tolist())
    columns = arrange(corpus.states, corpus.values, corpus.pointers)
    return Automaton(columns, fp16_codec(keys[columns.entries])), corpus


def authors(corpus, tau, text, *, clustered):
    """Log-probabilities and searches, by their code."""
    lane = ReferenceLane(corpus, K, MAX_KNNS, tau, clustered)
    logs, searches = [], []
    for before, (token, distances, found) in zip([0, *text.tokens[:-1]], text, strict=True):
        candidates, _, searched = lane.step(before, distances, found)
        weights = defaultdict(float)
        for entry, times in candidates.items():
            weights[corpus.values[entry]] += times * math.exp(-distances[entry] / TEMPERATURE)
        total = sum(weights.values())
        p_auto = weights[token] / total if total else LM
        logs.append(math.log(WEIGHT * p_auto + (1 - WEIGHT) * LM))
        searches.append(searched)
    return np.array(logs), np.array(searches)


def ours(automaton, tau, text):
    """Log-probabilities and searches, by the preset."""
    lanes = Lanes(automaton, replace(PRESETS["reference"], k=K, max_knns=MAX_KNNS), [tau])
    logs, searches = [], []
    for before, query, (token, _, found) in zip(
        [0, *text.tokens[:-1]], text.queries, text, strict=True
    ):
        ready = automaton.ready(query[None])
        searches.append(bool(lanes.advance([before])[0]))
        lanes.join(ready, automaton.neighbours(ready, [found]))
        logs.append(log_automaton(lanes.log_sums([token], [TEMPERATURE]))[0, 0])
    return interpolate(np.array(logs), np.log(LM), WEIGHT), np.array(searches)


@pytest.mark.parametrize("clustered", [True, False])
def test_perplexity_and_searches_are_those_of_the_authors_code_at_every_tau(clustered):
    keys, values, queries, tokens = made_up()
    automaton, corpus = arranged(keys, values, clustered=clustered)
    text = Text(automaton, queries, tokens)
    seen = set()
    for tau in TAUS:
        logs, searches = authors(corpus, tau, text, clustered=clustered)
        found, searched = ours(automaton, tau, text)
        assert np.array_equal(searched, searches)
        assert math.exp(-found.mean()) == pytest.approx(math.exp(-logs.mean()), rel=1e-5)
        seen.add(round(float(searches.mean()), 2))
    assert len(seen) > 2
    assert math.exp(-logs.mean()) < VOCABULARY / 2
