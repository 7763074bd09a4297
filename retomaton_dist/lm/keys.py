"""Where in a model's forward pass the key is.

Nothing is known of single families: the decoder's layers are the list of modules that has as
many members as the config says, and the feed-forward block goes by one of a few names.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from retomaton_dist.errors import ModelError

# `fc1` is the first half of a block that the layer spells out itself (OPT).
FEED_FORWARD_NAMES = ("mlp", "fc1", "ffn", "feed_forward")


@dataclass(frozen=True)
class KeyPlace:
    """The key is what goes into `module`, or what comes out of it."""

    module: nn.Module
    goes_in: bool

    def watch(self, seen: Callable[[Tensor], None]) -> RemovableHandle:
        """Call `seen` with the key in every forward pass until the handle is removed."""
        if self.goes_in:
            return self.module.register_forward_pre_hook(
                lambda _, args, kwargs: seen(_first((*args, *kwargs.values()))), with_kwargs=True
            )
        return self.module.register_forward_hook(lambda *call: seen(_first(call[-1])))


def _first(tensors: Tensor | tuple[Any, ...]) -> Tensor:
    first = tensors if isinstance(tensors, Tensor) else tensors[0]
    assert isinstance(first, Tensor)
    return first


def find_key(model: Any, key: str) -> KeyPlace:
    """Return where the key of a causal LM is, or raise ModelError if it cannot be told.

    `last_ffn_input` is what enters the last layer's feed-forward block, hence normalised where
    the family normalises before it; `last_ffn_output` is what the last layer gives, residual
    included; `final_hidden` is what the LM head reads.
    """
    if key == "final_hidden":
        head = model.get_output_embeddings()
        if not isinstance(head, nn.Module):
            raise _unknown(model, key, "LM head", "another model")
        return KeyPlace(head, goes_in=True)
    layer = _last_layer(model, key)
    if key == "last_ffn_output":
        return KeyPlace(layer, goes_in=False)
    for name in FEED_FORWARD_NAMES:
        block = getattr(layer, name, None)
        if isinstance(block, nn.Module):
            return KeyPlace(block, goes_in=True)
    raise _unknown(model, key, "feed-forward block", "--key last_ffn_output or final_hidden")


def _last_layer(model: Any, key: str) -> nn.Module:
    depth = model.config.get_text_config().num_hidden_layers
    for module in model.get_decoder().modules():
        if isinstance(module, nn.ModuleList) and len(module) == depth:
            return module[-1]
    raise _unknown(model, key, "list of layers", "--key final_hidden")


def _unknown(model: Any, key: str, what: str, instead: str) -> ModelError:
    return ModelError(
        f"the key {key!r} cannot be taken from the architecture {model.config.model_type!r} "
        f"({type(model).__name__}): its {what} is not known; use {instead}"
    )
