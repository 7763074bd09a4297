"""A scalable, distributed datastore system for retrieval automata (RetoMaton).

    import retomaton_dist as rd

    store = rd.extract("law.store", corpus="law/train.en", split="line", model="gpt2")
    store = rd.open("law.store")
    store.keys, store.values, store.pointers   # lazy dask arrays
    store.rows([3, 1, 4])                      # keys, by memory map
    store.entry(17).document.name              # where an entry comes from

    rd.build("law.store", corpus="law/train.en", split="line", model="gpt2")
    rd.evaluate("law.store", text="law/test.en", calibrate_on="law/dev.en").rows

Everything heavy is imported when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retomaton_dist.automaton.automaton import Automaton
    from retomaton_dist.building import build, cluster, compile, extract, tokenize  # noqa: A004
    from retomaton_dist.dry_run.build import estimate
    from retomaton_dist.evaluating import evaluate
    from retomaton_dist.evaluation.results import Evaluation
    from retomaton_dist.reader import StoreReader
    from retomaton_dist.search.build import index

__version__ = "0.1.0"
__all__ = [
    "Automaton",
    "Evaluation",
    "StoreReader",
    "build",
    "cluster",
    "compile",
    "estimate",
    "evaluate",
    "extract",
    "index",
    "open",
    "tokenize",
]

_PLACES = {
    "build": "retomaton_dist.building",
    "cluster": "retomaton_dist.building",
    "compile": "retomaton_dist.building",
    "extract": "retomaton_dist.building",
    "tokenize": "retomaton_dist.building",
    "index": "retomaton_dist.search.build",
    "estimate": "retomaton_dist.dry_run.build",
    "evaluate": "retomaton_dist.evaluating",
    "Evaluation": "retomaton_dist.evaluation.results",
    "Automaton": "retomaton_dist.automaton.automaton",
    "StoreReader": "retomaton_dist.reader",
}


def open(path: str) -> "StoreReader":  # noqa: A001 - rd.open reads as it should
    """Open a store for reading."""
    from retomaton_dist.reader import StoreReader

    return StoreReader.open(path)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)
