"""What a model's config says of it before its weights are loaded."""

from dataclasses import dataclass
from typing import Any

from transformers import AutoConfig

from retomaton_dist.lm.failures import loading
from retomaton_dist.lm.source import ModelSource, require_gguf


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a model. `max_context` is None if the model sets no limit to its input.

    `dimension` is the width of its hidden states, which is that of the keys in all but a few
    models; a loaded LanguageModel knows it for certain.
    """

    architecture: str
    dimension: int
    layers: int
    vocabulary: int
    max_context: int | None


def load_config(source: ModelSource, trust_remote_code: bool) -> Any:
    """Load the model's config of transformers, or raise ModelError."""
    require_gguf(source, "gguf")
    with loading("config", source):
        return AutoConfig.from_pretrained(**source.arguments(), trust_remote_code=trust_remote_code)


def shape_of(config: Any, source: ModelSource) -> ModelShape:
    """Return the sizes that a config states; ModelError if it is not that of a language model."""
    with loading("config", source):
        text = config.get_text_config()
        return ModelShape(
            architecture=str(config.model_type),
            dimension=int(text.hidden_size),
            layers=int(text.num_hidden_layers),
            vocabulary=int(text.vocab_size),
            max_context=_max_context(text),
        )


def _max_context(config: Any) -> int | None:
    for name in ("max_position_embeddings", "max_seq_len"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None
