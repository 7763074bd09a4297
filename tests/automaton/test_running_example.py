"""The paper's running example: what the automaton accepts that no sentence contains."""

import numpy as np
import pytest

from retomaton_dist.automaton.automaton import Automaton
from retomaton_dist.codec.fp16 import fp16_codec
from tests.automaton.make import arrange

FIRST, SECOND = (
    sentence.split()
    for sentence in (
        "The U.S. president is Joe Biden",
        "The 46th president of the U.S. is Joseph Robinette Biden",
    )
)
WORDS = sorted({*FIRST, *SECOND})

# Two states of the figure have two members: (1) contexts that "is" follows, (2) contexts that a
# first name follows. The entries of "Biden" share one more, as their contexts both end a name.
SHARED = [
    {("The U.S. president", "is"), ("The 46th president of the U.S.", "is")},
    {("The U.S. president is", "Joe"), ("The 46th president of the U.S. is", "Joseph")},
    {
        ("The U.S. president is Joe", "Biden"),
        ("The 46th president of the U.S. is Joseph", "Robinette"),
    },
]


def entries():
    """(context, value) of every entry, and pointers within each sentence."""
    found, pointers = [], []
    for sentence in (FIRST, SECOND):
        for place, word in enumerate(sentence):
            found.append((" ".join(sentence[:place]), word))
            last = place == len(sentence) - 1
            pointers.append(-1 if last else len(found))
    return found, pointers


def build(*, clustered):
    found, pointers = entries()
    states, names = [], []
    for entry in found:
        shared = next((group for group in SHARED if clustered and entry in group), None)
        name = frozenset(shared or {(len(names), *entry)})
        names += [] if name in names else [name]
        states.append(names.index(name))
    columns = arrange(states, [WORDS.index(word) for _, word in found], pointers)
    return Automaton(columns, fp16_codec(np.zeros((len(found), 2), np.float16)))


def accepts(automaton, phrase):
    """Whether a walk from some state reads the phrase: the last word needs only a member."""
    states = np.arange(automaton.states)
    *words, last = phrase.split()
    for word in words:
        states = automaton.next_states(states, WORDS.index(word))
    values = automaton.columns.values
    slots = [slot for slot, state in enumerate(automaton.columns.states) if state in states]
    return any(values[slot] == WORDS.index(last) for slot in slots)


UNSEEN = ["The 46th president of the U.S. is Joe Biden", "Joseph Biden"]
SEEN = [" ".join(FIRST), " ".join(SECOND), "president of the U.S."]


@pytest.mark.parametrize("phrase", UNSEEN)
def test_with_clustering_unseen_phrases_are_accepted(phrase):
    assert accepts(build(clustered=True), phrase)
    assert not accepts(build(clustered=False), phrase)


@pytest.mark.parametrize("phrase", SEEN)
def test_what_a_sentence_contains_is_always_accepted(phrase):
    assert accepts(build(clustered=True), phrase)
    assert accepts(build(clustered=False), phrase)


@pytest.mark.parametrize("phrase", ["Biden is", "The president", "Joe Joseph"])
def test_what_no_path_spells_is_rejected(phrase):
    assert not accepts(build(clustered=True), phrase)


def test_the_figures_second_cluster_leads_on_with_joe_and_with_joseph():
    automaton = build(clustered=True)
    found, _ = entries()
    name = automaton.state_of(found.index(("The U.S. president is", "Joe")))
    assert automaton.state_of(found.index(("The 46th president of the U.S. is", "Joseph"))) == name
    for word in ("Joe", "Joseph"):
        assert len(automaton.transitions(name, WORDS.index(word))) == 1
    assert len(automaton.transitions(name, WORDS.index("Biden"))) == 0
