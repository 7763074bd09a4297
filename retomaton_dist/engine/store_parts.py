"""What a store offers to whoever uses it: its automata, and the bounds of a suffix index."""

import math
from collections.abc import Sequence

from retomaton_dist.errors import BadInput
from retomaton_dist.settings.evaluate import listed
from retomaton_dist.storage.store import Store

COMPILE = "compile/"
SUFFIX = "suffix/"


def choose_automata(names: str | None, store: Store) -> tuple[str, ...]:
    """The automata named, or all that share the first one's codec; k-means comes first."""
    compiled = [
        name.removeprefix(COMPILE)
        for name, stage in store.manifest.stages.items()
        if name.startswith(COMPILE) and stage.done
    ]
    wanted = listed(names)
    for name in wanted:
        if name not in compiled:
            clustering = "" if f"cluster/{name}" in store.manifest.stages else _clustering(name)
            raise BadInput(
                f"{store.path} has no automaton {name!r}; make it: {clustering}"
                f"`retomaton compile {store.path} --states {name}`"
            )
    if not compiled:
        raise BadInput(f"{store.path} has no automaton; make one: `retomaton compile {store.path}`")
    chosen = wanted or sorted(compiled, key=lambda name: name != "kmeans")
    alike = [name for name in chosen if _codec(store, name) == _codec(store, chosen[0])]
    if wanted and len(alike) < len(wanted):
        other = next(name for name in wanted if name not in alike)
        raise BadInput(
            f"--automata: {wanted[0]} and {other} have other codecs, so their distances cannot be "
            f"compared; compile both with one --codec and --code-size"
        )
    return tuple(alike)


def _clustering(name: str) -> str:
    return f"`retomaton cluster STORE --algorithm {name}`, then " if name == "none" else ""


def _codec(store: Store, name: str) -> tuple[object, ...]:
    config = store.stage(f"{COMPILE}{name}").config
    return config["codec"], config["codes"]


def check_sigmas(store: Store, suffixes: str, sigmas: Sequence[float]) -> None:
    """Refuse lengths that the suffix index does not tell apart."""
    longest = store.stage(f"{SUFFIX}{suffixes}").config["longest"]
    for sigma in sigmas:
        if longest < sigma < math.inf:
            raise BadInput(
                f"--sigma {sigma:g}: the suffix index tells {longest} tokens apart; choose "
                f"0..{longest}, or inf"
            )
