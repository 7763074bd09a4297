"""A way through a text: which walks are taken, and who decides what is searched."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.evaluation.reading import Reading
from retomaton_dist.evaluation.walks import WalkSpec


class Gate(Protocol):
    """Decides, from what the LM says, at which positions a forgetful walk searches."""

    def __call__(
        self, reading: Reading, documents: NDArray[np.int32], positions: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """Say of each row whether it is searched."""
        ...


@dataclass(frozen=True)
class Pass:
    """One way through the text. A live pass searches only what its walks ask for."""

    name: str
    specs: tuple[WalkSpec, ...]
    live: bool = False
    gate: Gate | None = None
