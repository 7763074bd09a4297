"""A causal language model that gives keys: the hidden states at each position of its input."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.failures import memory_guard
from retomaton_dist.lm.identity import ModelSpec, locate_checked
from retomaton_dist.lm.keys import KeyPlace, find_key
from retomaton_dist.lm.outline import load_config, shape_of
from retomaton_dist.lm.weights import load_weights

MEMORY_ADVICE = "a forward pass ran out of memory: lower --batch-tokens, then --context"
# Two inputs that begin alike: what a causal model makes of the first token must not differ.
PROBE = [[0, 1], [0, 2]]
PROBE_TOLERANCE = 1e-3


class _KeyReached(Exception):
    """Ends a forward pass at the key, since nothing after it is needed."""


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A model on a device, in eval mode, and the place of its key.

    Rows of an input may be padded on their right with any token: attention is causal (checked
    when the model is loaded), so no position sees what is to its right, and no mask is needed.
    """

    name: str
    model: Any
    place: KeyPlace
    device: str
    dimension: int
    max_context: int | None
    vocabulary: int

    @classmethod
    def load(cls, spec: ModelSpec, device: str) -> "LanguageModel":
        """Load the very model that was identified onto "cpu" or "cuda", or raise ModelError."""
        check_device(device)
        dtype = choose_dtype(spec.dtype, device)
        source = locate_checked(spec)
        shape = shape_of(load_config(source, spec.trust_remote_code), source)
        model = load_weights(source, dtype, spec.trust_remote_code).to(device).eval()
        place = find_key(model, spec.key)
        return cls(
            name=source.name,
            model=model,
            place=place,
            device=device,
            dimension=_probe(source.name, model, place, shape.vocabulary),
            max_context=shape.max_context,
            vocabulary=shape.vocabulary,
        )

    def keys(self, input_ids: Tensor, **arguments: Any) -> Tensor:
        """Return the key at every position: [rows, tokens] ids give [rows, tokens, dimension].

        The forward pass ends at the key, so neither the LM head nor, for `last_ffn_input`, the
        last feed-forward block is computed: that is most of the work of a small model. What else
        the model takes, a cache among it, may be given.
        """
        with memory_guard(MEMORY_ADVICE):
            return _keys(self.model, self.place, input_ids.to(self.device), **arguments)

    def keys_and_logits(self, input_ids: Tensor, **arguments: Any) -> tuple[Tensor, Tensor]:
        """Return keys and next-token logits [rows, tokens, vocabulary] of one forward pass."""
        seen: list[Tensor] = []
        handle = self.place.watch(seen.append)
        try:
            with memory_guard(MEMORY_ADVICE):
                logits = _forward(self.model, input_ids.to(self.device), **arguments).logits
        finally:
            handle.remove()
        return seen[0].reshape(*input_ids.shape, -1), logits


def choose_dtype(dtype: str | None, device: str) -> torch.dtype:
    """Return the type of the model's arithmetic, auto (None) by device; ModelError if unfit."""
    if device == "cpu" and dtype not in (None, "float32"):
        raise ModelError(
            f"dtype {dtype} is slow on CPU and crashes on some; use --dtype float32, or a GPU"
        )
    chosen = getattr(torch, dtype or ("float32" if device == "cpu" else "float16"))
    assert isinstance(chosen, torch.dtype)
    return chosen


def check_device(device: str) -> None:
    """Raise ModelError if this is a GPU and there is none: work never falls back to the CPU."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ModelError(
            "device cuda was asked for, but torch sees no GPU on this machine; "
            "use --device cpu, or a machine and a torch build with CUDA"
        )


def _forward(model: Any, input_ids: Tensor, **arguments: Any) -> Any:
    with torch.inference_mode():
        return model(input_ids=input_ids, **{"use_cache": False, **arguments})


def _keys(model: Any, place: KeyPlace, input_ids: Tensor, **arguments: Any) -> Tensor:
    seen: list[Tensor] = []

    def stop(key: Tensor) -> None:
        seen.append(key)
        raise _KeyReached

    handle = place.watch(stop)
    try:
        _forward(model, input_ids, **arguments)
    except _KeyReached:
        return seen[0].reshape(*input_ids.shape, -1)
    finally:
        handle.remove()
    raise ModelError(
        f"the forward pass of {type(model).__name__} never comes by the key; try another --key"
    )


def _probe(name: str, model: Any, place: KeyPlace, vocabulary: int) -> int:
    """Return the width of the keys, having checked that a position sees nothing to its right."""
    input_ids = torch.tensor(PROBE, device=model.device) % vocabulary
    keys = _keys(model, place, input_ids).float()
    difference = (keys[0, 0] - keys[1, 0]).abs().max()
    if not difference <= PROBE_TOLERANCE * keys.abs().max():
        raise ModelError(
            f"model {name!r} ({type(model).__name__}) is not causal: its hidden states depend "
            "on later tokens; use a causal language model"
        )
    return keys.shape[-1]
