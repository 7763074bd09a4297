"""Ladders: every line against the one before it, whatever was evaluated."""

import math
from itertools import pairwise

import numpy as np
import pytest

from retomaton_dist.engine.walks import WalkSpec, stateless_walk
from retomaton_dist.evaluation.ladder import Rungs
from retomaton_dist.evaluation.measure import Measurer
from retomaton_dist.methods.constant import ConstantMixing, Constants
from retomaton_dist.methods.lm import LmAlone
from retomaton_dist.methods.method import CurvePoint
from tests.evaluation.scored import random_walked, scores_of

DOCUMENTS = np.repeat(np.arange(24), 4)
SEARCHED, ALWAYS = WalkSpec("kmeans", 4.0), WalkSpec("kmeans", math.inf)
NEVER = WalkSpec("kmeans", 1.0, sigma=0.0)
NEVER_LATER = WalkSpec("kmeans", math.inf, sigma=0.0)
OTHER = WalkSpec("none", math.inf)
FOUND, SUFFIX = stateless_walk("kmeans"), stateless_walk("kmeans", sigma=0.0)
SEARCHES = {SEARCHED: 0.5, ALWAYS: 1.0, OTHER: 1.0, FOUND: 1.0, NEVER: 0, NEVER_LATER: 0, SUFFIX: 0}
# Points of methods, in the order that an evaluation has them.
POINTS = (
    ("lm", None), ("lm+cache", None), ("lm+ngram+cache", None), ("knnlm+ngram+cache", FOUND),
    ("suffix+ngram+cache", SUFFIX), ("retomaton+ngram+cache", SEARCHED),
    ("retomaton+ngram+cache", ALWAYS), ("retomaton+ngram+cache", OTHER),
    ("retomaton+suffix+ngram+cache", NEVER), ("retomaton+suffix+ngram+cache", NEVER_LATER),
    ("retomaton+suffix+ngram+cache", ALWAYS), ("knnlm+ngram+cache+lambda", FOUND),
    ("retomaton+ngram+cache+lambda", ALWAYS),
)  # fmt: skip


@pytest.fixture
def scores(tmp_path):
    random = np.random.default_rng(0)
    walks = {
        spec.label: random_walked(random, len(DOCUMENTS), searched=share)
        for spec, share in SEARCHES.items()
    }
    return scores_of(tmp_path, DOCUMENTS, walks, random)


def ladders_of(scores, points, duplicates=frozenset()):
    """Ladders of these points, no two of which are mixed alike; and the rows of results."""
    measurer, rungs, rows = Measurer(DOCUMENTS, 9, duplicates), Rungs("kmeans"), []
    for number, (method, spec) in enumerate(points):
        weight = ConstantMixing(Constants(0.1 + number / 40, 2.0))
        point = CurvePoint(method, spec, weight if spec else LmAlone(), facts={})
        measured = measurer.measure(point, scores)
        rungs.offer(measured)
        rows.append(measured.row)
    return rungs.describe(measurer), rows


def names(ladder):
    return [line["name"] for line in ladder["lines"]]


def test_one_ladder_searches_always_and_the_other_never(scores):
    (searching, never), _ = ladders_of(scores, POINTS)
    assert names(searching) == ["LM alone", "+ cache", "+ n-grams", "+ kNN", "+ automaton"]
    assert [line["online"]["foss"] for line in searching["lines"]] == [1.0, 1.0, 1.0, 0.0, 0.0]
    assert names(never)[3:] == ["+ suffix look-ups", "+ automaton"]
    assert {line["online"]["foss"] for line in never["lines"]} == {1.0}


def test_every_line_is_compared_with_the_line_before_it(scores):
    for ladder in ladders_of(scores, POINTS)[0]:
        cells = [line["online"] for line in ladder["lines"]]
        assert cells[0]["change"] is None
        for before, cell in pairwise(cells):
            ratio = cell["perplexity"] / before["perplexity"]
            assert cell["change"]["ratio"] == pytest.approx(ratio)
            low, high = cell["change"]["interval"]
            assert low <= ratio <= high


def test_the_automatons_line_is_that_of_the_main_states_and_most_restarts(scores):
    (searching, never), rows = ladders_of(scores, POINTS)
    chosen = {(row["method"], row["walk"]): row["perplexity"] for row in rows}
    last = searching["lines"][-1]["online"]["perplexity"]
    assert last == chosen["retomaton+ngram+cache", "kmeans@inf"]
    last = never["lines"][-1]["online"]["perplexity"]
    assert last == chosen["retomaton+suffix+ngram+cache", NEVER_LATER.label]


def test_learned_mixing_stands_beside_and_is_compared_with_learned_mixing(scores):
    (searching, never), _ = ladders_of(scores, POINTS)
    alone, cache, ngrams, knn, automaton = (line["learned"] for line in searching["lines"])
    assert alone == searching["lines"][0]["online"], "the LM alone has nothing to mix"
    assert cache is ngrams is None
    assert knn["change"] is None, "the line before was not learned"
    ratio = automaton["perplexity"] / knn["perplexity"]
    assert automaton["change"]["ratio"] == pytest.approx(ratio)
    assert never["lines"][-1]["learned"] is None


def test_duplicates_are_left_out_in_a_column_of_their_own(scores):
    (searching, _), _ = ladders_of(scores, POINTS, frozenset({3, 4}))
    before, last = (line["online"]["without_duplicates"] for line in searching["lines"][-2:])
    assert last["against"]["ratio"] == pytest.approx(last["perplexity"] / before["perplexity"])


def test_a_ladder_has_the_lines_that_there_are(scores):
    (only,), _ = ladders_of(scores, POINTS[:3])
    assert names(only) == ["LM alone", "+ cache", "+ n-grams"]
    (only,), _ = ladders_of(scores, [one for one in POINTS if "suffix" not in one[0]])
    assert names(only)[-1] == "+ automaton"
    (only,), _ = ladders_of(scores, POINTS[1:4])
    assert names(only) == ["+ cache", "+ n-grams", "+ kNN"]
    assert ladders_of(scores, POINTS[:1])[0] == []
    assert ladders_of(scores, [("retomaton", ALWAYS)])[0] == []


def test_a_walk_that_saved_some_searches_is_in_no_ladder(scores):
    ours = ("retomaton+ngram+cache", "retomaton+suffix+ngram+cache")
    points = [*POINTS[:5], *((method, SEARCHED) for method in ours)]
    (searching, never), _ = ladders_of(scores, points)
    assert (names(searching)[-1], names(never)[-1]) == ("+ kNN", "+ suffix look-ups")
