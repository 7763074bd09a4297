"""Drafts equal those of slow, obvious oracles, and each row takes the source that stood most."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.automaton.lanes import Lanes
from retomaton_dist.automaton.suffixes import Suffixes
from retomaton_dist.generation.drafting import (
    LONGEST,
    Drafting,
    Learnt,
    from_suffixes,
    from_text,
    from_walk,
)
from retomaton_dist.generation.drafts import TextStanding, Verified
from retomaton_dist.generation.span_search import AHEAD, SearchNeed
from retomaton_dist.settings import WalkSettings
from tests.automaton.make import make, random_corpus
from tests.automaton.oracle import Corpus
from tests.automaton.suffix_oracle import SlowSuffixes, before_of

VOCABULARY, MOST = 4, 6


def slow_vote(corpus, voters, most):
    """Tokens by majority, the first voter's among equals; and votes for each."""
    tokens, votes = [], []
    while len(tokens) < most:
        values = [corpus.values[entry] for entry in voters if entry >= 0]
        if not values:
            break
        counts = Counter(values)
        token = max(values, key=lambda value: counts[value])
        tokens.append(token)
        votes.append(counts[token])
        voters = [
            corpus.pointers[entry]
            for entry in voters
            if entry >= 0 and corpus.values[entry] == token
        ]
    return tokens, votes


def standing(texts, lanes=None, room=MOST):
    lengths = np.array([len(text) for text in texts])
    padded = np.full((len(texts), lengths.max()), -1, np.int32)
    for row, text in zip(padded, texts, strict=True):
        row[: len(text)] = text
    lane_of = np.arange(len(texts))
    return TextStanding(lanes, lane_of, padded, lengths, np.broadcast_to(room, len(texts)).copy())


def drafted(guesses, row):
    return [token for token in guesses.tokens[row].tolist() if token >= 0]


def walked(seed, steps, texts):
    """Lanes that walked random tokens of a random corpus, of which `texts` are the last ones."""
    random = np.random.default_rng(seed)
    corpus = random_corpus(random, 120, 12, VOCABULARY)
    automaton = make(corpus, seed=seed).automaton
    settings = WalkSettings(k=16, max_knns=16)
    lanes = Lanes(automaton, settings, np.full(texts, 2.0))
    lanes.reset(np.zeros(texts))
    for _ in range(steps):
        queries = automaton.ready(random.normal(size=(texts, automaton.dimension)))
        lanes.advance(random.integers(0, VOCABULARY, texts))
        entries = np.stack([random.choice(120, 16, replace=False) for _ in range(texts)])
        lanes.join(queries, automaton.neighbours(queries, entries))
    return corpus, lanes


@pytest.mark.parametrize("seed", range(8))
def test_walk_drafts_are_what_most_candidates_with_the_drawn_token_lead_to(seed):
    corpus, lanes = walked(seed, steps=3, texts=5)
    drawn = np.random.default_rng(seed).integers(0, VOCABULARY, 5)
    room = np.array([MOST, 3, 1, 0, MOST])
    made = from_walk(lanes.automaton.columns, standing(drawn[:, None], lanes, room), MOST)
    for row in range(5):
        walk = lanes.walk(row)
        voters = [corpus.pointers[e] for e in walk.entries[walk.values == drawn[row]].tolist()]
        tokens, votes = slow_vote(corpus, voters, room[row])
        assert drafted(made, row) == tokens
        assert made.support[row, : len(votes)].tolist() == votes
        shares = [count / could for count, could in zip(votes, [len(voters), *votes], strict=False)]
        assert made.shares[row, : len(votes)] == pytest.approx(shares)


def slow_match(corpus, entry, text):
    """How many tokens before an entry, in its document, are the text's last ones."""
    length = 0
    while (
        length < len(text)
        and entry > 0
        and corpus.pointers[entry - 1] == entry
        and corpus.values[entry - 1] == text[-1 - length]
    ):
        entry, length = entry - 1, length + 1
    return length


@given(
    st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=9), min_size=1),
    st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=9),
)
def test_suffix_drafts_are_what_most_entries_of_the_longest_match_go_on_with(documents, text):
    values = [token for document in documents for token in document]
    ends = np.cumsum([len(document) for document in documents])
    pointers = [-1 if entry + 1 in ends else entry + 1 for entry in range(len(values))]
    corpus = Corpus([0] * len(values), values, pointers)
    automaton = make(corpus, states=1).automaton
    oracle = SlowSuffixes(documents, 4)
    suffixes = Suffixes.of(before_of(documents, 0), VOCABULARY, oracle.longest)
    made = from_suffixes(automaton.columns, suffixes, standing([text], room=3), np.array([0]), MOST)
    entries, _ = oracle.look_up(text[::-1][:4] + [-1] * (4 - len(text)), 64)
    matches = {entry: min(slow_match(corpus, entry, text), 4) for entry in entries}
    longest = max(matches.values(), default=0)
    voters = [entry for entry in entries if matches[entry] == longest]
    assert drafted(made, 0) == slow_vote(corpus, voters, 3)[0]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30), st.integers(0, MOST))
def test_a_text_drafts_what_followed_its_latest_longest_match(text, room):
    best, source = 0, None
    for place in range(len(text) - 1):
        length = 0
        while length <= min(place, LONGEST - 1) and text[place - length] == text[-1 - length]:
            length += 1
        if length and length >= best:
            best, source = length, place + 1
    expected, grown = [], list(text)
    while source is not None and len(expected) < room:
        expected.append(grown[source + len(expected)])
        grown.append(expected[-1])
    made = from_text(standing([text], room=room), MOST)
    assert drafted(made, 0) == expected
    assert (made.support[0, : len(expected)] == best).all()


def test_without_a_walk_the_text_itself_drafts():
    drafting = Drafting(None, Learnt(3))
    tokens = drafting.draft(standing([[5, 6, 7, 5], [1, 2, 3, 4]]))
    assert tokens.tolist() == [[6, 7, 5], [-1, -1, -1]]


def test_no_more_is_drafted_than_there_is_room_for():
    tokens = Drafting(None, Learnt(3)).draft(standing([[5, 6, 7, 5], [5, 6, 7, 5]], room=[2, 0]))
    assert tokens.tolist() == [[6, 7], [-1, -1]]


@pytest.mark.parametrize(("drawn", "likelier"), [(6, True), (9, False)])
def test_a_guess_that_was_not_drafted_is_compared_with_what_came(drawn, likelier):
    learnt, kind = Learnt(), (np.array([[1]]), np.array([[1.0]]))
    drafting, nothing = Drafting(None, learnt), np.array([0])
    before = learnt.text.expected(*kind)[0, 0]
    for _ in range(3):
        assert drafting.draft(standing([[5, 6, 7, 5]])).size == 0
        came = np.array([drawn], np.int32)
        drafting.learn(Verified(nothing, nothing, came, 1, 0.01, 0.01))
    assert (learnt.text.expected(*kind)[0, 0] > before) == likelier


def test_searches_go_ahead_while_most_of_them_are_needed():
    need = SearchNeed(believed=0.5)
    assert need.ahead == 1
    need.note(20, 20)
    assert need.ahead == AHEAD
    need.note(40, 0)
    assert need.ahead == 1


def test_the_source_that_stands_is_taken_and_the_other_one_left():
    # All voters lead from token 0 to tokens 1, 2, 3; the text itself went on with 2, 2, 2.
    pointers = [-1 if entry % 4 == 3 else entry + 1 for entry in range(32)]
    corpus = Corpus([0] * 32, [0, 1, 2, 3] * 8, pointers)
    automaton = make(corpus, states=1).automaton
    lanes = Lanes(automaton, WalkSettings(k=32, max_knns=1), np.array([1.0]))
    lanes.reset([0])
    queries = automaton.ready(np.zeros((1, automaton.dimension)))
    lanes.advance([0])
    lanes.join(queries, automaton.neighbours(queries, np.arange(32)[None]))
    drafting, where = Drafting(None, Learnt(3)), standing([[0, 2, 2, 2, 0]], lanes)
    assert drafting.draft(where).tolist() == [[1, 2, 3]]
    for _ in range(20):
        right = int((drafting.draft(where) == [[2, 2, 2]]).all()) * 3
        stood = np.array([right])
        drafting.learn(Verified(np.array([3]), stood, np.array([2], np.int32), 4, 0.01, 0.01))
    assert drafting.draft(where).tolist() == [[2, 2, 2]]
