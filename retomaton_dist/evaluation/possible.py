"""Numbers that cannot be are errors, not results.

Whatever damage got past the digests (or was to be used with --no-verify), NaN and probabilities
above 1 stop here, with the place where they came up.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.errors import DamagedStore, ModelError

OF_THE_MODEL = ("log_lm", "entropy", "confidence")
OF_WALKS = (".sums", ".favoured", ".nearest")
# What rounding may add to the logarithm of a probability.
ROUNDING = 1e-3

Columns = Mapping[str, NDArray[Any]]


def check_columns(columns: Columns, store: Path) -> None:
    """Refuse columns of scores that a sound model and a sound store could not have led to."""
    for name in OF_THE_MODEL:
        sound = np.isfinite(columns[name])
        if not sound.all():
            place = _place(columns, sound)
            raise ModelError(
                f"{name} is {_first(columns[name], sound):g} at {place}: the model's weights are "
                f"damaged, or it overflows; try another --device"
            )
    _check_probabilities(columns)
    for name in columns:
        if name.endswith(OF_WALKS):
            # Nothing is found: sums are -inf, and the nearest is inf away.
            found = columns[name]
            bad = np.isnan(found) | (found == (-np.inf if name.endswith(".nearest") else np.inf))
            sound = ~bad.reshape(len(bad), -1).any(axis=1)
            if not sound.all():
                raise DamagedStore(
                    f"{name} is NaN or infinite at {_place(columns, sound)}: the automaton or its "
                    f"codes are damaged; `retomaton verify {store}` finds where"
                )


def _check_probabilities(columns: Columns) -> None:
    sound = columns["log_lm"] <= ROUNDING
    if not sound.all():
        raise ModelError(f"the model gives a probability above 1 at {_place(columns, sound)}")


def check_log_probabilities(log_p: NDArray[np.floating[Any]], method: str) -> None:
    """Refuse to measure a method by probabilities that are none."""
    sound = np.isfinite(log_p) & (log_p <= ROUNDING)
    if not sound.all():
        row = int(np.argmin(sound))
        raise DamagedStore(
            f"{method}: the log-probability of token {row:,} of the text is {log_p[row]:g}, which "
            f"cannot be: its scores or constants are damaged; delete them and evaluate again"
        )


def _place(columns: Columns, sound: NDArray[np.bool_]) -> str:
    row = int(np.argmin(sound))
    return f"document {columns['document'][row]}, position {columns['position'][row]}"


def _first(column: NDArray[Any], sound: NDArray[np.bool_]) -> float:
    return float(column[int(np.argmin(sound))])
