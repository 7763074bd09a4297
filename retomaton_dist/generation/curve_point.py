"""Choosing how a store is used: a method, its walk and its mixing, from a calibration or constants.

A method is asked for its points as an evaluation asks, but for one threshold: there is one.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from retomaton_dist.artifacts import open_automaton
from retomaton_dist.calibration.calibration import Calibration
from retomaton_dist.calibration.thresholds import restart_for, share_of, tau_for
from retomaton_dist.engine.mixture import (
    Candidates,
    Expert,
    FurtherNgram,
    Mixing,
    TextExpert,
)
from retomaton_dist.engine.online import OnlineMixing, Step
from retomaton_dist.engine.walks import format_threshold
from retomaton_dist.errors import BadInput
from retomaton_dist.methods.constant import with_constants
from retomaton_dist.methods.method import Calibrated, CurvePoint, Method, Restart, Setup
from retomaton_dist.methods.registry import METHODS
from retomaton_dist.settings import LoadSettings
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.store import Store

# Without a calibration nothing says what a threshold saves: search at every position.
PLAIN = Restart(math.inf, 0.0)


def choose_point(
    store: Store, automaton: str, kept: Calibration | None, wanted: LoadSettings
) -> CurvePoint:
    """The one point of the method that is wanted."""
    method = METHODS[wanted.method or ""]

    def distance() -> float:
        return open_automaton(store, automaton).typical_distance

    setup = Setup(
        (automaton,), {automaton: (math.inf,)}, {automaton: (PLAIN,)}, (0.0,), distance=distance
    )
    spec = next(iter(method.walks(setup)), None)
    if spec is None or (spec.stateless and not spec.searches):
        _refuse(wanted, "tau", "foss", "sigma")
    elif spec.stateless:
        _refuse(wanted, "tau", "sigma")
        setup = replace(setup, fractions=(wanted.foss or 0.0,))
    elif method.uses_suffixes:
        setup = replace(setup, restarts={automaton: (_restart(automaton, kept, wanted),)})
    else:
        _refuse(wanted, "sigma")
        setup = replace(setup, taus={automaton: (_tau(automaton, kept, wanted),)})
    calibrated = _calibrated(method, kept, wanted, setup)
    try:
        (point,) = method.points(setup, calibrated)
    except KeyError as error:
        raise BadInput(_uncalibrated(method, calibrated, setup)) from error
    return point


def joined_mixing(points: Sequence[CurvePoint]) -> Mixing | OnlineMixing:
    """The mixing of stores that are used at once, whose weights follow the text; of one, its own.

    First the document, then all stores' n-grams, then all walks' candidates.
    """
    if len(points) == 1:
        return points[0].mixing
    steps: list[Step] = []
    for store, point in enumerate(points):
        assert isinstance(point.mixing, OnlineMixing)
        for step in point.mixing.steps:
            experts = tuple(_of_store(expert, store) for expert in step.experts)
            steps.append(Step(experts, step.weights))
    # Each once: there is one document, hence one cache.
    return OnlineMixing(tuple(sorted(dict.fromkeys(steps), key=_rank)))


def _of_store(expert: Expert, store: int) -> Expert:
    if isinstance(expert, Candidates):
        return expert._replace(store=store)
    return FurtherNgram(store) if store and expert is TextExpert.NGRAM else expert


def _rank(step: Step) -> int:
    (expert, *_) = step.experts
    return 0 if expert is TextExpert.CACHE else 2 if isinstance(expert, Candidates) else 1


def _refuse(wanted: LoadSettings, *names: str) -> None:
    for name in names:
        if getattr(wanted, name) is not None:
            raise BadInput(f"{wanted.method} has no {name}: leave it out")


def _tau(automaton: str, kept: Calibration | None, wanted: LoadSettings) -> float:
    if wanted.tau is not None:
        return wanted.tau
    if kept is None:
        _refuse_foss(wanted)
        return math.inf
    curve = kept.thresholds.curves.get(automaton) if kept.thresholds else None
    if curve is None:
        raise BadInput(
            f"calibration {kept.name!r} has no FoSS of {automaton!r}: give tau, or calibrate with "
            f"a method that walks"
        )
    _check_foss(kept, wanted, curve.most)
    return tau_for(min(_foss(kept, wanted), curve.most), curve.taus, curve.foss)


def _restart(automaton: str, kept: Calibration | None, wanted: LoadSettings) -> Restart:
    if kept is None:
        _refuse_foss(wanted)
        tau = PLAIN.tau if wanted.tau is None else wanted.tau
        return Restart(tau, PLAIN.sigma if wanted.sigma is None else wanted.sigma)
    tried = [
        one
        for one in (kept.thresholds.tried.get(automaton, ()) if kept.thresholds else ())
        if wanted.sigma is None or one.restart.sigma == wanted.sigma
    ]
    if not tried:
        return _untried(kept, wanted)
    _check_foss(kept, wanted, max(one.foss for one in tried))
    if wanted.tau is None:
        return restart_for(_foss(kept, wanted), tried)
    sigma = restart_for(_foss(kept, wanted), tried).sigma
    return Restart(wanted.tau, sigma, share_of(wanted.tau, sigma, tried))


def _untried(kept: Calibration, wanted: LoadSettings) -> Restart:
    if wanted.tau is None or wanted.sigma is None:
        raise BadInput(
            f"calibration {kept.name!r} has tried no pair of tau and sigma like this for "
            f"{wanted.method}: give both, or calibrate with --methods {wanted.method}"
        )
    return Restart(wanted.tau, wanted.sigma)


def _foss(kept: Calibration, wanted: LoadSettings) -> float:
    return kept.targets[0] if wanted.foss is None else wanted.foss


def _check_foss(kept: Calibration, wanted: LoadSettings, most: float) -> None:
    if wanted.foss is not None and wanted.foss > most:
        raise BadInput(
            f"foss {wanted.foss:g}: {wanted.method} saved at most {most:.3f} of the searches on "
            f"the text of calibration {kept.name!r}"
        )


def _refuse_foss(wanted: LoadSettings) -> None:
    if wanted.foss is not None:
        raise BadInput("foss is met with a calibration, and the store has none: give tau")


def _calibrated(
    method: Method, kept: Calibration | None, wanted: LoadSettings, setup: Setup
) -> Calibrated:
    """What was found for the method; constants that are given win."""
    given: Json = {"lambda": wanted.lambda_, "temperature": wanted.knn_temperature}
    if not method.learns:
        _refuse(wanted, "lambda_", "knn_temperature")
        return method.calibrate(None, setup)
    if kept is None or (method.name not in kept.found and None not in given.values()):
        return _given(
            method, replace(setup, weight=wanted.lambda_, temperature=wanted.knn_temperature)
        )
    kept.check(method.name)
    found = kept.found[method.name]
    if all(value is None for value in given.values()):
        return found
    if found.arrays or not found.facts:
        raise BadInput(
            f"{method.name} takes no lambda and no knn_temperature: what it mixes with was "
            f"learned, or is the LM alone; choose another method, such as retomaton"
        )
    return replace(found, facts=with_constants(found.facts, given))


def _given(method: Method, setup: Setup) -> Calibrated:
    """Constants as they are given: what learns cannot do with them."""
    try:
        return method.calibrate(None, setup)
    except BadInput as error:
        raise BadInput(
            f"{method.name} learns from held-out text: make a calibration with `retomaton "
            f"calibrate STORE --on TEXT`, or choose a method without a network"
        ) from error


def _uncalibrated(method: Method, calibrated: Calibrated, setup: Setup) -> str:
    (automaton,), (fraction,) = setup.automata, setup.fractions
    if "thresholds" in calibrated.facts:
        known = ", ".join(calibrated.facts["thresholds"])
        return f"foss {fraction:g}: {method.name} was calibrated for {known}"
    if automaton not in calibrated.facts:
        known = ", ".join(calibrated.facts)
        return f"automaton {automaton!r}: {method.name} was calibrated for {known}"
    (restart,) = setup.restarts[automaton]
    known = ", ".join(calibrated.facts[automaton])
    sigma = format_threshold(restart.sigma)
    return f"sigma {sigma}: {method.name} was calibrated for {known}"
