"""Small random automata, for both codecs."""

from dataclasses import dataclass

import numpy as np

from retomaton_dist.automaton.arrays import Columns
from retomaton_dist.automaton.automaton import Automaton
from retomaton_dist.automaton.layout import slot_order
from retomaton_dist.storage.automaton import id_type
from tests.automaton.oracle import Corpus
from tests.codec.make import random_codec


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


def arrange(state_of_entry, values, pointers, states=None):
    """Columns of entries whose states, values and pointers (-1: none) are given, in entry order."""
    state, value = np.asarray(state_of_entry, np.uint32), np.asarray(values, np.int32)
    ids = id_type(len(state))
    entries = slot_order(state, value).astype(ids)
    slots = np.empty(len(state), ids)
    slots[entries] = np.arange(len(state), dtype=ids)
    count = int(state.max()) + 1 if states is None else states
    offsets = np.zeros(count + 1, ids)
    np.cumsum(np.bincount(state, minlength=count), out=offsets[1:])
    targets = np.asarray(pointers, np.int64)[entries]
    nexts = slots[np.maximum(targets, 0)]
    nexts[targets < 0] = np.array(-1).astype(ids)
    return Columns(offsets, value[entries], nexts, state[entries], entries, slots)


def make(corpus, codec="fp16", seed=0, states=None):
    """An automaton of random keys, which depend on the seed and not on the states."""
    random = np.random.default_rng(seed)
    columns = arrange(corpus.states, corpus.values, corpus.pointers, states)
    made, keys = random_codec(random, len(corpus.values), codec, columns.entries)
    return Made(Automaton(columns, made), corpus, keys)


def all_distances(automaton, query):
    """The codec's distance of every entry from one query, as the kernels see it."""
    ready = automaton.ready(np.asarray(query)[None])
    return automaton.neighbours(ready, np.arange(automaton.entries)[None]).distances[0]
