"""Search parameters that reach a recall: the cheapest that do, found by doubling and halving."""

from collections.abc import Callable
from dataclasses import dataclass

from retomaton_dist.search.parameters import Parameters, render
from retomaton_dist.storage.canonical import Json

# Beyond this, doubling the work is not worth it: the codes themselves set the limit.
LEAST_GAIN = 0.003
REFINEMENTS = 3


@dataclass(frozen=True)
class Tuned:
    """What was chosen, its recall, and everything that was tried."""

    parameters: Parameters
    recall: float
    tried: Json


def tune(
    measure: Callable[[Parameters], float],
    fixed: Parameters,
    name: str | None,
    most: int,
    target: float,
) -> Tuned:
    """Find the least value of parameter `name`, up to `most`, that reaches `target`.

    `measure` gives the recall of parameters. Without a parameter to tune, or if `fixed` sets it,
    recall is only measured. An unreachable target gives the value beyond which little is gained.
    """
    tried: Json = {}

    def recall(value: int | None) -> float:
        chosen = fixed if value is None or name is None else {**fixed, name: value}
        shown = render(chosen)
        if shown not in tried:
            tried[shown] = measure(chosen)
        return float(tried[shown])

    if name is None or name in fixed:
        return Tuned(fixed, recall(None), tried)
    low, high = _bracket(recall, most, target)
    if recall(high) >= target:
        high = _refined(recall, low, high, target)
    return Tuned({**fixed, name: high}, recall(high), tried)


def _bracket(recall: Callable[[int], float], most: int, target: float) -> tuple[int, int]:
    """Double until the target, the maximum, or the point where nothing is gained any more."""
    low = value = 1
    while recall(value) < target and value < most:
        wider = min(2 * value, most)
        # The first steps may gain nothing where later ones do: judge from some height on.
        judged = recall(value) > target / 2
        if judged and recall(wider) < min(target, recall(value) + LEAST_GAIN):
            break
        low, value = value, wider
    return low, value


def _refined(recall: Callable[[int], float], low: int, high: int, target: float) -> int:
    for _ in range(REFINEMENTS):
        middle = (low + high) // 2
        if middle in (low, high):
            break
        if recall(middle) >= target:
            high = middle
        else:
            low = middle
    return high
