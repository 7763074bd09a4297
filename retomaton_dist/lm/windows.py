"""How a document's inputs fall into windows, and windows into batches.

A document has `length` inputs, and the key at input position i belongs to its entry i. The
model reads at most `context` tokens at once, so a longer document is read in windows that start
every `stride` tokens. Each position is yielded by exactly one window: the first that reaches it.
Windows depend on the document alone, never on how the corpus is cut into units.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.errors import BadInput

MAX_AUTO_CONTEXT = 1024
MAX_PADDING = 0.1


@dataclass(frozen=True)
class Window:
    """Inputs [start, start + length) of a document; those from `keep` on yield their keys."""

    document: int
    start: int
    length: int
    keep: int

    @property
    def first(self) -> int:
        """The first position of the document that this window yields."""
        return self.start + self.keep

    @property
    def last(self) -> int:
        """The position after the last one that this window yields."""
        return self.start + self.length


def resolve_windows(
    context: int | None, stride: int | None, model_context: int | None
) -> tuple[int, int]:
    """Fill in `auto` (None) and return (context, stride), or raise BadInput if they cannot be.

    `model_context` is the largest input the model reads; None for a model without a limit.
    """
    limit = model_context or MAX_AUTO_CONTEXT
    context = min(limit, MAX_AUTO_CONTEXT) if context is None else context
    if context < 2:
        raise BadInput(f"--context {context} is too small: a window needs at least 2 tokens")
    if model_context is not None and context > model_context:
        raise BadInput(
            f"--context {context} is larger than the model's {model_context}: "
            f"lower --context to {model_context} or less"
        )
    stride = context // 2 if stride is None else stride
    if stride < 1:
        raise BadInput(f"--stride {stride} is too small: windows must advance by 1 token or more")
    if stride > context:
        raise BadInput(
            f"--stride {stride} is larger than --context {context}: tokens between two windows "
            f"would be skipped; lower --stride to {context} or less"
        )
    return context, stride


def document_windows(
    document: int, length: int, context: int, stride: int, first: int, last: int
) -> list[Window]:
    """Return the windows of a document that yield any position of [first, last), in order."""
    first, last = max(first, 0), min(last, length)
    if first >= last:
        return []
    low, high = yielding_windows(np.array([first, last - 1]), context, stride).tolist()
    return [
        Window(
            document,
            start := index * stride,
            min(context, length - start),
            context - stride if index else 0,
        )
        for index in range(low, high + 1)
    ]


def yielding_windows(positions: NDArray[np.int64], context: int, stride: int) -> NDArray[np.int64]:
    """Number of the window that yields each position: the first that reaches it."""
    return np.maximum(0, (positions - context) // stride + 1)


def batches(lengths: Sequence[int], batch_tokens: int) -> list[NDArray[np.int64]]:
    """Group windows of like length: each batch is the indices of the windows in it.

    Every window is in exactly one batch. A batch padded to its longest window has at most
    `batch_tokens` tokens, unless it is a single window, and at most a tenth of it is padding.
    The result depends on the arguments alone: windows are taken by (length, index).
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(sizes, kind="stable")
    cuts, begin, total = [], 0, 0
    for position, size in enumerate(sizes[order].tolist()):
        padded = (position - begin + 1) * size
        if position > begin and (
            padded > batch_tokens or total + size < (1 - MAX_PADDING) * padded
        ):
            cuts.append(position)
            begin, total = position, 0
        total += size
    return np.split(order, cuts) if len(order) else []
