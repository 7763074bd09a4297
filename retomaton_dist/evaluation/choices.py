"""What an evaluation is asked for, checked: numbers, automata, walk."""

import math
from dataclasses import dataclass

from retomaton_dist.automaton.walk_settings import check_tau
from retomaton_dist.errors import BadInput
from retomaton_dist.evaluation.settings import EvaluateSettings
from retomaton_dist.methods.method import Method
from retomaton_dist.methods.registry import choose_methods
from storage.store import Store

POWERS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, math.inf)
STAGE = "compile/"


@dataclass(frozen=True)
class Choices:
    """Settings as an evaluation uses them. `taus` is None for auto."""

    methods: list[Method]
    automata: tuple[str, ...]
    taus: tuple[float, ...] | None
    targets: tuple[float, ...]


def choose(settings: EvaluateSettings, store: Store) -> Choices:
    """Check what was asked for against the store."""
    methods = choose_methods(settings.methods)
    targets = tuple(_number("--target-foss", item) for item in _items(settings.target_foss))
    for target in targets:
        if not 0 <= target < 1:
            raise BadInput(f"--target-foss {target:g}: must be at least 0 and below 1")
    _check_constants(settings)
    taus = _taus(settings)
    if targets and not settings.calibrate_on:
        raise BadInput("--target-foss is met on held-out text: name some with --calibrate-on")
    return Choices(methods, choose_automata(settings.automata, store), taus, targets)


def choose_automata(names: str | None, store: Store) -> tuple[str, ...]:
    """The automata named, or all that share the first one's codec; k-means comes first."""
    compiled = [
        name.removeprefix(STAGE)
        for name, stage in store.manifest.stages.items()
        if name.startswith(STAGE) and stage.done
    ]
    wanted = _items(names)
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
    config = store.stage(f"{STAGE}{name}").config
    return config["codec"], config["codes"]


def _taus(settings: EvaluateSettings) -> tuple[float, ...] | None:
    if settings.tau is None:
        return None if settings.calibrate_on else POWERS
    taus = {_number("--tau", item) for item in _items(settings.tau)}
    for tau in taus:
        check_tau(tau)
    if not taus:
        raise BadInput("--tau names no threshold; use auto or numbers such as 1,4,16,inf")
    return tuple(sorted(taus))


def _check_constants(settings: EvaluateSettings) -> None:
    weight, temperature = settings.lambda_, settings.temperature
    if weight is not None:
        check_weight(weight)
    if temperature is not None and not 0 < temperature < math.inf:
        raise BadInput(f"--temperature {temperature:g}: must be above 0")
    for flag, number in (
        ("--positions", settings.positions),
        ("--calibration-positions", settings.calibration_positions),
    ):
        if number is not None and number < 1:
            raise BadInput(f"{flag} {number}: at least 1 is needed")


def check_weight(weight: float) -> None:
    """Refuse a lambda that is no share, and 1: a token that no candidate has were impossible."""
    if not 0 <= weight < 1:
        raise BadInput(f"--lambda {weight:g}: must be at least 0 and below 1")


def _items(listed: str | None) -> list[str]:
    return [item.strip() for item in (listed or "").split(",") if item.strip()]


def _number(flag: str, item: str) -> float:
    try:
        return float(item)
    except ValueError:
        raise BadInput(f"{flag} {item}: must be numbers with commas between them") from None
