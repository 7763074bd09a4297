"""A model with a cache whose rows have lengths of their own: any new tokens of any rows.

Families differ in how they mask and count positions, so it is tried out whether rows of different
lengths can go into one forward pass, and whether stepping gives what reading gives at all.
"""

import inspect
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.model import PROBE_TOLERANCE, LanguageModel
from retomaton_dist.lm.row_cache import RowCache

Rows = NDArray[np.int64]

# Lengths of two rows, what they grow by, and again: any mask or position that is off shows.
PROBE = ((3, 1), (2, 3), (1, 2))


class Stepper:
    """A model that reads growing texts in windows of `context` that start every `stride`.

    With `keys_only` a forward pass ends at the key, and there are no logits.
    """

    def __init__(
        self, lm: LanguageModel, context: int, stride: int, *, keys_only: bool = False
    ) -> None:
        self.lm, self.context, self.stride = lm, context, stride
        self._keys_only = keys_only
        taken = inspect.signature(lm.model.forward).parameters
        self._takes_positions = "position_ids" in taken
        # A key that the head reads would be cut along with what the head gives.
        at_head = lm.place.module is lm.model.get_output_embeddings()
        self._keeps = "logits_to_keep" in taken and not at_head

    @cached_property
    def together(self) -> bool:
        """Whether rows of different lengths can be read by one forward pass.

        It is tried out. Models that attend to a window of the last tokens are asked row by row,
        since each family has its own way to find that window.
        """
        config = self.lm.model.config.get_text_config().to_dict()
        windows = [value for name, value in config.items() if "window" in name]
        if any(isinstance(value, int) and 0 < value < self.context for value in windows):
            return self._is_exact(together=False)
        return self._is_exact(together=True) or self._is_exact(together=False)

    def _is_exact(self, *, together: bool) -> bool:
        """Whether stepping two rows gives the keys of reading them; ModelError if it never does."""
        try:
            error = self._probe_error(together)
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as problem:
            error, cause = np.inf, str(problem).splitlines()[0]
        else:
            cause = f"keys differ by {error:.2g} of their size"
        if error <= PROBE_TOLERANCE:
            return together
        if together:
            return False
        raise ModelError(
            f"the model {self.lm.name!r} ({type(self.lm.model).__name__}) cannot be read step by "
            f"step with a cache ({cause}); score texts with it, or generate with another model"
        )

    def _probe_error(self, together: bool) -> float:
        lengths = np.cumsum(PROBE, axis=0)
        most = int(lengths.max())
        if most > self.context:
            return 0.0
        ids = (np.arange(2 * most).reshape(2, most) * 7 + 1) % self.lm.vocabulary
        wanted = self.lm.keys(torch.from_numpy(ids)).float()
        cache = self.new_cache()
        worst = 0.0
        for before, counts in zip([np.zeros(2, np.int64), *lengths], PROBE, strict=False):
            tokens = np.zeros((2, max(counts)), np.int64)
            for row, count in enumerate(counts):
                tokens[row, :count] = ids[row, before[row] : before[row] + count]
            keys, _ = self.forward(cache, 2, None, tokens, before, None, together=together)
            for row, count in enumerate(counts):
                expected = wanted[row, before[row] : before[row] + count]
                worst = max(worst, float((keys[row, :count].float() - expected).abs().max()))
        return worst / float(wanted.abs().max())

    def new_cache(self) -> RowCache:
        """A cache without rows."""
        return RowCache(self.lm.model.config.get_text_config().num_hidden_layers)

    def forward(
        self,
        cache: RowCache,
        height: int,
        rows: Rows | None,
        tokens: NDArray[np.int64],
        columns: Rows,
        keep: NDArray[np.int64] | int | None,
        *,
        together: bool,
    ) -> tuple[Tensor, Tensor]:
        """Read tokens [rows, inputs] from these columns of these rows on: keys and logits.

        `keep` says whose logits are wanted: of those inputs, or of the last so many.
        """
        if together or (columns == columns[0]).all():
            return self._forward(cache, height, rows, tokens, columns, keep)
        numbers = np.arange(height) if rows is None else rows
        made: list[tuple[Tensor, Tensor] | None] = [None] * len(numbers)
        for column in np.unique(columns):
            group = np.flatnonzero(columns == column)
            part = cache, height, numbers[group], tokens[group], columns[group], keep
            for place, keys, logits in zip(group, *self._forward(*part), strict=True):
                made[place] = keys, logits
        found = [item for item in made if item is not None]
        return torch.stack([keys for keys, _ in found]), torch.stack([item for _, item in found])

    def _forward(
        self,
        cache: RowCache,
        height: int,
        rows: Rows | None,
        tokens: NDArray[np.int64],
        columns: Rows,
        keep: NDArray[np.int64] | int | None,
    ) -> tuple[Tensor, Tensor]:
        device, size = self.lm.device, tokens.shape[1]
        begins = torch.from_numpy(columns)
        numbers = None if rows is None else torch.from_numpy(rows)
        cache.place.choose(height, numbers, begins, size)
        arguments: dict[str, Any] = {}
        if self._takes_positions:
            # What pads a row lies beyond its window at most.
            arguments["position_ids"] = cache.place.columns.clamp(max=self.context - 1).to(device)
        if cache.place.first is None:
            arguments["attention_mask"] = self._mask(cache)
        if keep is not None and self._keeps:
            kept = keep if isinstance(keep, int) else torch.from_numpy(keep).to(device)
            arguments["logits_to_keep"] = kept
        arguments |= {"past_key_values": cache, "use_cache": True}
        if self._keys_only:
            # What pads another model's vocabulary has no embedding here.
            known = torch.from_numpy(np.minimum(tokens, self.lm.vocabulary - 1)).to(device)
            return self.lm.keys(known, **arguments), self._no_logits(size, keep, len(tokens))
        ids = torch.from_numpy(tokens).to(device)
        keys, logits = self.lm.keys_and_logits(ids, **arguments)
        if keep is not None and not self._keeps:
            logits = logits[:, -keep:] if isinstance(keep, int) else logits[:, keep]
        return keys, logits

    def _no_logits(self, size: int, keep: NDArray[np.int64] | int | None, rows: int) -> Tensor:
        """Logits of as many places as were asked for, over no token."""
        if keep is not None:
            size = keep if isinstance(keep, int) else len(keep)
        return torch.empty((rows, size, 0))

    def _mask(self, cache: RowCache) -> Tensor:
        """Added to attention [rows, 1, inputs, columns]: a position sees what is not after it."""
        place, kind = cache.place, self.lm.model.dtype
        hidden = torch.arange(place.width) > place.columns[:, :, None]
        mask = torch.zeros(hidden.shape, dtype=kind).masked_fill_(hidden, torch.finfo(kind).min)
        return mask[:, None].to(self.lm.device)
