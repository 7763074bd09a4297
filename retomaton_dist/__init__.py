"""A scalable, distributed datastore system for retrieval automata (RetoMaton).

    import retomaton_dist as rd

    store = rd.extract("law.store", corpus="law/train.en", split="line", model="gpt2")
    store = rd.open("law.store")
    store.keys, store.values, store.pointers   # lazy dask arrays
    store.rows([3, 1, 4])                      # keys, by memory map
    store.entry(17).document.name              # where an entry comes from

    rd.build("law.store", corpus="law/train.en", split="line", model="gpt2")
    rd.evaluate("law.store", text="law/test.en", calibrate_on="law/dev.en").rows

    rd.calibrate("law.store", on="law/dev.en")
    rd.load("law.store").score(["The parties agree."])[0].perplexity

Everything heavy is imported when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from retomaton_dist.settings.stages import STAGES

if TYPE_CHECKING:
    from retomaton_dist.api.build import build, estimate
    from retomaton_dist.api.doctor import doctor
    from retomaton_dist.api.evaluate import calibrate, evaluate
    from retomaton_dist.api.store import StoreReader
    from retomaton_dist.api.train import train_lm
    from retomaton_dist.automaton.automaton import Automaton
    from retomaton_dist.dry_run.plan import plan
    from retomaton_dist.evaluation.results import Evaluation
    from retomaton_dist.generation.loaded import RetomatonLM, load
    from retomaton_dist.jobs.reproduce_paper import reproduce

__version__ = "0.1.0"
__all__ = [
    "Automaton",
    "Evaluation",
    "RetomatonLM",
    "StoreReader",
    "build",
    "calibrate",
    "doctor",
    "estimate",
    "evaluate",
    "load",
    "open",
    "plan",
    "reproduce",
    "train_lm",
]
__all__ += [stage.name for stage in STAGES]

_PLACES = {
    **dict.fromkeys((stage.name for stage in STAGES), "retomaton_dist.api.build"),
    "build": "retomaton_dist.api.build",
    "estimate": "retomaton_dist.api.build",
    "calibrate": "retomaton_dist.api.evaluate",
    "doctor": "retomaton_dist.api.doctor",
    "evaluate": "retomaton_dist.api.evaluate",
    "plan": "retomaton_dist.dry_run.plan",
    "StoreReader": "retomaton_dist.api.store",
    "train_lm": "retomaton_dist.api.train",
    "Automaton": "retomaton_dist.automaton.automaton",
    "Evaluation": "retomaton_dist.evaluation.results",
    "RetomatonLM": "retomaton_dist.generation.loaded",
    "load": "retomaton_dist.generation.loaded",
    "reproduce": "retomaton_dist.jobs.reproduce_paper",
}


def open(path: str) -> "StoreReader":  # noqa: A001 - rd.open reads as it should
    """Open a store for reading."""
    from retomaton_dist.api.store import StoreReader

    return StoreReader.open(path)


def __dir__() -> list[str]:
    """What completion offers: the public names, whether imported yet or not."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)
