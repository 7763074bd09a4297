"""Small random automata, for both codecs."""

from dataclasses import dataclass

import numpy as np

from retomaton_dist.automaton.automaton import Automaton
from retomaton_dist.automaton.layout import arrange
from retomaton_dist.codec.codec import fp16_codec, pq_codec
from retomaton_dist.codec.pq import PqCodes
from tests.automaton.oracle import Corpus

DIMENSION = 6
CODE_SIZE = 3
CELLS = 4


@dataclass(frozen=True)
class Made:
    """An automaton, the same as lists, and the keys that its codec stands for."""

    automaton: Automaton
    corpus: Corpus
    keys: np.ndarray


def random_corpus(random, entries, states, vocabulary, *, tangled=False):
    """Documents of 1 to 6 entries; `tangled` pointers may lead to one entry from several."""
    pointers = np.arange(1, entries + 1)
    ends = np.cumsum(random.integers(1, 7, entries)) - 1
    pointers[ends[ends < entries]] = -1
    pointers[-1] = -1
    if tangled:
        inside = pointers >= 0
        pointers[inside] = random.integers(0, entries, inside.sum())
    return Corpus(
        random.integers(0, states, entries).tolist(),
        random.integers(0, vocabulary, entries).tolist(),
        pointers.tolist(),
    )


def make(corpus, codec="fp16", seed=0, states=None):
    """An automaton of random keys on a coarse grid, so that distances tie."""
    random = np.random.default_rng(seed)
    entries = len(corpus.values)
    columns = arrange(corpus.states, corpus.values, corpus.pointers, states)
    if codec == "fp16":
        keys = random.integers(-2, 3, (entries, DIMENSION)).astype(np.float16)
        return Made(Automaton(columns, fp16_codec(keys[columns.entries])), corpus, keys)
    codes, keys = random_codes(random, entries)
    by_slot = PqCodes(
        codes.centroids,
        codes.codebooks,
        *(array[columns.entries] for array in (codes.cells, codes.codes, codes.brackets)),
    )
    return Made(Automaton(columns, pq_codec(by_slot)), corpus, keys)


def random_codes(random, entries):
    """Codes in entry order, and the keys that they decode to."""
    width = DIMENSION // CODE_SIZE
    centroids = random.integers(-2, 3, (CELLS, DIMENSION)).astype(np.float32)
    codebooks = random.integers(-1, 2, (CODE_SIZE, width, 256)).astype(np.float32)
    cells = random.integers(0, CELLS, entries).astype(np.uint16)
    codes = random.integers(0, 256, (entries, CODE_SIZE)).astype(np.uint8)
    parts = [codebooks[part][:, codes[:, part]].T for part in range(CODE_SIZE)]
    residuals = np.concatenate(parts, axis=1)
    brackets = (residuals**2).sum(axis=1) + 2 * (centroids[cells] * residuals).sum(axis=1)
    made = PqCodes(centroids, codebooks, cells, codes, brackets.astype(np.float32))
    return made, centroids[cells] + residuals


def all_distances(automaton, query):
    """The codec's distance of every entry from one query, as the kernels see it."""
    ready = automaton.ready(np.asarray(query)[None])
    return automaton.neighbours(ready, np.arange(automaton.entries)[None]).distances[0]
