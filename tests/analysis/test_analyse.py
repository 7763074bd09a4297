"""The analysis of evaluated rows: search-free runs against a loop, and what the corpus has."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.analysis.analyse import Analysis
from retomaton_dist.analysis.ngrams import longest_matches
from retomaton_dist.engine.scores import Scores
from tests.analysis.oracle import joined

SEARCHES = st.lists(st.lists(st.booleans(), min_size=1, max_size=12), min_size=1, max_size=5)
SHARED = list(range(10, 30))
CORPUS = [[1, 2, 3], [4, *SHARED, 5, 6]]
TEXT = [[7, 8], [9, 40, *SHARED, 41], [42, 43, 44]]


def analysis_of(documents, longest=None):
    """An analysis of whole documents, as their scores would give it."""
    text = joined(documents)
    lengths = np.diff(text.bounds)
    columns = {
        "document": np.repeat(np.arange(len(lengths)), lengths).astype(np.int32),
        "position": np.concatenate([np.arange(n) for n in lengths]).astype(np.int32),
        "token": text.tokens,
    }
    scores = Scores(())
    vars(scores).update(columns)
    nothing = np.zeros(len(text), np.int32)
    return Analysis(scores, nothing if longest is None else longest, nothing.astype(np.int64), {})


def runs_by_loop(searches):
    """Lengths of the runs: a search or a document begins one, all other tokens prolong it."""
    lengths = []
    for document in searches:
        for place, searched in enumerate(document):
            if searched or place == 0:
                lengths.append(0)
            lengths[-1] += 1
    return lengths


def runs_of(searches):
    searched = np.array([one for document in searches for one in document], np.bool_)
    return analysis_of([[0] * len(document) for document in searches]).runs(searched), searched


@given(SEARCHES)
def test_runs_are_what_a_loop_finds(searches):
    facts, searched = runs_of(searches)
    expected = runs_by_loop(searches)
    assert dict(facts["lengths"]) == {n: expected.count(n) for n in expected}
    inside = sum(n for n in expected if n > 1)
    assert abs(facts["share_longer_than_1"] - inside / len(searched)) < 1e-12
    assert (facts["runs"], facts["tokens"]) == (len(expected), len(searched))
    assert facts["longest"] == max(expected)
    assert facts["foss"] == 1 - searched.mean()


def test_the_papers_histogram_gives_the_papers_share():
    """10.6 % of runs of length 1 and a mean length over 5 are 98 % of tokens in longer runs."""
    lengths = [1] * 106 + [2] * 158 + [3] * 156 + [5] * 300 + [10] * 280
    facts, _ = runs_of([[True] + [False] * (n - 1) for n in lengths])
    assert round(facts["share_longer_than_1"], 2) == 0.98


def test_the_overlap_is_of_the_evaluated_rows():
    longest = longest_matches(joined(TEXT), joined(CORPUS))
    overlap = analysis_of(TEXT, longest).overlap
    assert [row["n"] for row in overlap] == [*range(1, 11)]
    assert overlap[9]["occurrences_seen"] == len(SHARED) - 9


def test_a_match_does_not_reach_over_rows_that_were_left_out():
    made = analysis_of([SHARED])
    vars(made.scores)["position"] = np.arange(len(SHARED), dtype=np.int32) + 5
    vars(made)["longest"][:] = 10
    assert made.matched.tolist() == [*range(1, 11), *[10] * 10]
