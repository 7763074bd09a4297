"""Which temperatures are tried: half octaves around the distances that keys have.

Distances scale with the keys, and the best temperature with them: the grid is the same function of
the store whatever the model's units are. What lies at its edge may not be the best, and is said.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from retomaton_dist.methods.constant import LEAST_WEIGHT, MOST_WEIGHT, choosable
from retomaton_dist.methods.method import Calibrated, Setup
from retomaton_dist.methods.retomaton import POINTER_WEIGHTS
from retomaton_dist.storage.canonical import Json

# In octaves of the distance between two entries; what suits lies between -6 and -2 as a rule.
LOWEST, HIGHEST = -10, 2
AROUND = (0.5, 1.0, 2.0)


def grid_around(distance: float) -> tuple[float, ...]:
    """Half octaves around a distance. Each is exactly half of the next but one: sums rely on it."""
    unit = float(f"{distance:.3g}")
    whole = [unit * 2.0**power for power in range(LOWEST, HIGHEST + 1)]
    between = [unit * math.sqrt(2) * 2.0**power for power in range(LOWEST, HIGHEST)]
    return tuple(sorted(whole + between))


def grid_of(temperature: float) -> tuple[float, ...]:
    """What is scored where the temperature was given."""
    return tuple(temperature * factor for factor in AROUND)


def with_neighbours(degrees: set[float]) -> tuple[float, ...]:
    """What methods settled on and, so that it can be varied afterwards, what lies around it."""
    return tuple(sorted({degree * factor for degree in degrees for factor in AROUND} or {1.0}))


def temperatures_of(found: Mapping[str, Calibrated]) -> set[float]:
    """Every temperature that methods settled on."""
    return {
        value
        for calibrated in found.values()
        for _, name, value in _constants(calibrated.facts)
        if name == "temperature"
    }


def at_edges(
    found: Mapping[str, Calibrated], grid: Sequence[float], setup: Setup
) -> dict[str, list[str]]:
    """Constants that are the smallest or largest tried, a line each; whose they are, beside it."""
    edges = {"lambda": (LEAST_WEIGHT, MOST_WEIGHT), "pointer_weight": (0.0, POINTER_WEIGHTS[-1])}
    tried = choosable(grid)
    if tried:  # not if there is nothing to walk, and so no temperature
        edges["temperature"] = tried[0], tried[-1]
    given = {"lambda": setup.weight, "temperature": setup.temperature}
    lines: dict[str, list[str]] = {}
    for method, calibrated in found.items():
        for place, name, value in _constants(calibrated.facts):
            if value in edges[name] and given.get(name) is None:
                kind = "smallest" if value == edges[name][0] else "largest"
                line = f"{name.replace('_', ' ')} {value:.4g} is the {kind} that was tried"
                lines.setdefault(line, []).append(" ".join([method, *place]))
    return lines


def _constants(facts: Json, place: tuple[str, ...] = ()) -> Iterator[tuple[list[str], str, float]]:
    for name, value in facts.items():
        if name in ("lambda", "temperature", "pointer_weight"):
            yield list(place), name, value
        elif isinstance(value, dict):
            yield from _constants(value, (*place, name))
