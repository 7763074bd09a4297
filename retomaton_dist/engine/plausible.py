"""Numbers that cannot be are errors, not results.

Whatever damage got past the digests (or was to be used with --no-verify), NaN and probabilities
above 1 stop here, with the place where they came up.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.engine.lm_output import LMOutput
from retomaton_dist.engine.walks import WalkResult
from retomaton_dist.errors import DamagedStore, ModelError

# What rounding may add to the logarithm of a probability.
ROUNDING = 1e-3

Places = tuple[NDArray[np.int32], NDArray[np.int32]]
"""Document and position of every row."""


def check_lm(places: Places, lm: LMOutput) -> None:
    """Refuse what a sound model could not have said."""
    for name in ("log_lm", "entropy", "confidence"):
        column: NDArray[np.float32] = getattr(lm, name)
        sound = np.isfinite(column)
        if not sound.all():
            raise ModelError(
                f"{name} is {column[np.argmin(sound)]:g} at {_place(places, sound)}: the model's "
                f"weights are damaged, or it overflows; try another --device"
            )
    sound = lm.log_lm <= ROUNDING
    if not sound.all():
        raise ModelError(f"the model gives a probability above 1 at {_place(places, sound)}")


def check_walk(places: Places, label: str, walked: WalkResult, store: Path) -> None:
    """Refuse what no walk of a sound automaton comes to."""
    # Nothing is found: sums are -inf, and the nearest is inf away.
    impossible = {"sums": np.inf, "favoured": np.inf, "nearest": -np.inf}
    for name, value in impossible.items():
        column = getattr(walked, name)
        bad = np.isnan(column) | (column == value)
        sound = ~bad.reshape(len(bad), -1).any(axis=1)
        if not sound.all():
            raise DamagedStore(
                f"{label}.{name} is NaN or infinite at {_place(places, sound)}: the automaton or "
                f"its codes are damaged; `retomaton verify {store}` finds where"
            )


def check_log_probabilities(log_p: NDArray[np.floating[Any]], method: str) -> None:
    """Refuse to measure a method by probabilities that are none."""
    sound = np.isfinite(log_p) & (log_p <= ROUNDING)
    if not sound.all():
        row = int(np.argmin(sound))
        raise DamagedStore(
            f"{method}: the log-probability of token {row:,} of the text is {log_p[row]:g}, which "
            f"cannot be: its scores or constants are damaged; delete them and evaluate again"
        )


def _place(places: Places, sound: NDArray[np.bool_]) -> str:
    row = int(np.argmin(sound))
    return f"document {places[0][row]}, position {places[1][row]}"
