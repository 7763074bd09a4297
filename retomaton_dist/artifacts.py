"""Opening what results are made from, having compared it with its digests first.

Whoever walks, searches or looks up in a store opens it here: evaluation, generation, `rd.open`.
"""

from retomaton_dist.automaton.automaton import Automaton
from retomaton_dist.automaton.ngrams import NGrams
from retomaton_dist.automaton.suffixes import Suffixes
from retomaton_dist.search.layout import FOLDER, IndexFiles
from retomaton_dist.storage.automaton import AUTOMATA
from retomaton_dist.storage.checked import check_stage
from retomaton_dist.storage.ngrams import NGRAMS
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.suffixes import SUFFIXES


def open_automaton(store: Store, name: str, *, verify: bool = True) -> Automaton:
    """A compiled automaton, mapped; altered ones are refused unless told not to look."""
    stage = f"compile/{name}"
    store.stage(stage)
    if verify:
        check_stage(store, stage)
    return Automaton.open(AUTOMATA.path(store.path, name))


def open_suffixes(store: Store, name: str, *, verify: bool = True) -> Suffixes:
    """A suffix index, mapped; altered ones are refused unless told not to look."""
    stage = f"suffix/{name}"
    store.stage(stage)
    if verify:
        check_stage(store, stage)
    return Suffixes.open(SUFFIXES.path(store.path, name))


def open_ngrams(store: Store, name: str, *, verify: bool = True) -> NGrams:
    """An n-gram model and its suffix index, mapped; altered ones are refused unless told not to."""
    stage = f"ngram/{name}"
    index = open_suffixes(store, store.stage(stage).config["suffixes"], verify=verify)
    if verify:
        check_stage(store, stage)
    return NGrams.open(NGRAMS.path(store.path, name), index)


def open_index(store: Store, name: str, *, verify: bool = True) -> IndexFiles:
    """A search index, to be searched in this process; altered ones are refused unless told not to.

    One that is served is not looked at: its actors check their own shards.
    """
    opened = IndexFiles.open(store, name)
    if verify:
        check_stage(store, f"{FOLDER}/{name}")
    return opened
