"""Random texts over small random automata, walked as evaluation does, document by document."""

import itertools
from dataclasses import dataclass

import numpy as np

from retomaton_dist.automaton.suffixes import Suffixes
from retomaton_dist.engine.block_scores import SlabScores, walk_slab
from retomaton_dist.engine.lm_output import LMOutput
from retomaton_dist.engine.retrieval import OpenRetrieval
from retomaton_dist.engine.text_reader import blocks, slabs
from retomaton_dist.engine.walker import Walker
from retomaton_dist.engine.walks import KEPT_COLUMNS, WalkResult
from tests.automaton.make import make, random_corpus
from tests.automaton.suffix_oracle import SlowSuffixes, before_of
from tests.codec.make import DIMENSION

TEMPERATURES = np.array([0.5, 3.0, 40.0])
VOCABULARY = 3
LONGEST = 3


@dataclass(frozen=True)
class Text:
    """Tokens and queries of documents, and whether the gate is open at each position."""

    tokens: list[np.ndarray]
    queries: list[np.ndarray]
    gates: list[np.ndarray]

    @property
    def lengths(self):
        return np.array([len(tokens) for tokens in self.tokens])

    def reading(self, spans):
        """The rows of spans, as a model would have read them; gates beside them."""
        slices = [(span.document, slice(span.first, span.last)) for span in spans]
        tokens = np.concatenate([self.tokens[number][part] for number, part in slices])
        queries = np.concatenate([self.queries[number][part] for number, part in slices])
        gates = np.concatenate([self.gates[number][part] for number, part in slices])
        nothing = np.zeros(len(tokens), np.float32)
        previous = np.concatenate(
            [np.append(np.int32(-1), self.tokens[number])[part] for number, part in slices]
        )
        return LMOutput(
            queries, tokens, previous, nothing, nothing, nothing, favourites(tokens)
        ), gates


def favourites(tokens):
    """What the model finds most probable in place of these tokens."""
    return ((tokens + 1) % VOCABULARY).astype(np.int32)


def random_text(random, lengths, gate=1.0):
    """Documents of these lengths; the gate is open at about this share of positions."""
    return Text(
        [random.integers(0, VOCABULARY, length).astype(np.int32) for length in lengths],
        [random.integers(-2, 3, (length, DIMENSION)).astype(np.float16) for length in lengths],
        [random.random(length) < gate for length in lengths],
    )


def random_automata(random, entries, states, codec="fp16"):
    """Two automata over the same entries: with clusters, and with every entry a state."""
    corpus = random_corpus(random, entries, states, VOCABULARY)
    alone = type(corpus)(list(range(entries)), corpus.values, corpus.pointers)
    return {"kmeans": make(corpus, codec, 5, states), "none": make(alone, codec, 5, entries)}


def nearest_entries(keys, queries, k):
    """The k nearest entries of every query, by brute force."""
    wide = queries.astype(np.float64)[:, None] - keys.astype(np.float64)[None]
    return np.argsort((wide**2).sum(axis=2), axis=1, kind="stable")[:, :k]


def suffixes_of(made):
    """The suffix index of the automata's entries."""
    corpus = next(iter(made.values())).corpus
    return Suffixes.of(before_of(corpus.documents()), VOCABULARY, LONGEST)


def longest_suffix(made, tokens, k):
    """What follows the longest suffix of these tokens, and its length, the slow way.

    Without tokens: what begins documents, and the longest length there is.
    """
    corpus = next(iter(made.values())).corpus
    if not tokens:
        sizes = [len(document) for document in corpus.documents()]
        first, room = list(itertools.accumulate([0, *sizes[:-1]])), min(k, len(sizes))
        return [first[(2 * i + 1) * len(first) // (2 * room)] for i in range(room)], LONGEST
    recent = [*tokens[::-1][:LONGEST], *[-1] * LONGEST][:LONGEST]
    return SlowSuffixes(corpus.documents(), LONGEST).look_up(recent, k)


def walk(made, specs, settings, text, numbers, *, block=32, slab=4096, asked=None):
    """Walk documents in blocks and slabs of these sizes: {(spec, document): WalkResult}.

    Rows that are searched for are added to `asked`, as (document, position).
    """
    found = {}
    automata = {name: item.automaton for name, item in made.items()}
    keys, suffixes = next(iter(made.values())).keys, suffixes_of(made)
    for part in blocks(numbers, text.lengths, block):
        retrieval = OpenRetrieval(settings, automata, suffixes=suffixes)
        walker = Walker(retrieval, specs, len(part.documents))
        walker.begin(np.arange(len(part.documents)), part.documents)
        for piece in slabs(part, slab):
            reading, gates = text.reading(piece.spans)
            places = np.stack(piece.positions(), axis=1)

            def find(rows, reading=reading, places=places):
                if asked is not None:
                    asked.extend(map(tuple, places[rows].tolist()))
                return nearest_entries(keys, reading.queries[rows], settings.k)

            grid = tuple(TEMPERATURES.tolist())
            scores = SlabScores(piece, reading, {})
            walked = walk_slab(walker, scores, reading.previous, grid, find, gates)
            for spec, rows in walked.items():
                for span in piece.spans:
                    place = slice(span.row, span.row + span.last - span.first)
                    found.setdefault((spec, span.document), []).append(cut(rows, place))
        walker.close()
    return {key: joined(parts) for key, parts in found.items()}


def cut(walked, rows):
    """Some rows of what a walk came to."""
    return walked.rows(rows)


def joined(parts):
    """What follows each other."""
    names = [*KEPT_COLUMNS, "since"]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return WalkResult(parts[0].temperatures, **columns)


def assert_equal(found, expected):
    """Exactly the same numbers."""
    for name in (*KEPT_COLUMNS, "since"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
