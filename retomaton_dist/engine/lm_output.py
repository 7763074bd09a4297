"""What the language model says at positions of a text: one normaliser, one record."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retomaton_dist.engine.text_models import TextOutput

# Logits below this are taken for it where they weigh nothing: 0 times -inf is not 0.
LEAST_LOGIT = -1e6


@dataclass(frozen=True)
class LMOutput:
    """Row by row: the query, the token, and what the LM makes of it (natural logarithms).

    `previous` is the token before, -1 at a document's start. `entropy` and `confidence` (the
    largest log-probability) do not depend on the token; `favourites` are the tokens that have it.
    Where there is no token yet, `tokens` and `log_lm` are 0. `text` is what models of text alone
    make of the same rows, if they were asked.
    """

    queries: NDArray[np.float16]
    tokens: NDArray[np.int32]
    previous: NDArray[np.int32]
    log_lm: NDArray[np.float32]
    entropy: NDArray[np.float32]
    confidence: NDArray[np.float32]
    favourites: NDArray[np.int32]
    text: TextOutput | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def whole(self) -> "LMOutput":
        """Itself: all of it is in memory."""
        return self

    def rows(self, chosen: slice | NDArray[np.int64]) -> "LMOutput":
        """Some of its rows."""
        columns = {name: column[chosen] for name, column in vars(self).items() if name != "text"}
        return LMOutput(**columns, text=self.text and self.text.rows(chosen))


class Normalised(NamedTuple):
    """Logits of some positions in one line each: log p(token) = logits[token] - normals."""

    normals: Tensor
    favourites: Tensor
    entropy: Tensor
    confidence: Tensor


def normalise(logits: Tensor) -> Normalised:
    """Normalise logits [positions, vocabulary], in few passes and with sums in double precision.

    Of equal logits the first one is the favourite.
    """
    exact = logits.float()
    favourites = exact.argmax(-1, keepdim=True)
    largest = exact.gather(-1, favourites)[..., 0].double()
    p = torch.softmax(exact, -1)
    # What single precision lost is in the sum of all.
    total = p.sum(-1, dtype=torch.float64)
    normals = largest - p.gather(-1, favourites)[..., 0].double().log() + total.log()
    finite = exact if bool(exact.amin() > LEAST_LOGIT) else exact.clamp(min=LEAST_LOGIT)
    mean = p.mul_(finite).sum(-1, dtype=torch.float64) / total
    return Normalised(
        normals, favourites[..., 0], (normals - mean).float(), (largest - normals).float()
    )
