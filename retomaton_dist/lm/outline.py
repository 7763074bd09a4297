"""What is known of a model without loading a single weight: its sizes, and where its key is."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from retomaton_dist.lm.failures import loading
from retomaton_dist.lm.identity import ModelSpec, locate
from retomaton_dist.lm.keys import find_key
from retomaton_dist.lm.source import ModelSource, require_gguf
from retomaton_dist.lm.weights import check_files


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a model. `max_context` is None if the model sets no limit to its input.

    `dimension` is the width of its hidden states, which is that of the keys in all but a few
    models; a loaded LanguageModel knows it for certain.
    """

    architecture: str
    dimension: int
    vocabulary: int
    max_context: int | None


@dataclass(frozen=True, kw_only=True)
class ModelOutline(ModelShape):
    """A model as the plan of a stage needs it; `spec` is what workers load it by."""

    spec: ModelSpec


def outline(spec: ModelSpec) -> ModelOutline:
    """Build the model without storage (on torch's meta device) and look where its key passes.

    So an architecture that cannot be hooked, and files of weights that are cut short or hold
    anything else, are refused before anything is written or loaded.
    """
    source = locate(spec)
    config = load_config(source, spec.trust_remote_code)
    shape = shape_of(config, source)
    with loading("architecture", source), torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=spec.trust_remote_code)
    place = find_key(model, spec.key)
    check_files(source)
    # An LM head may be narrower than the layers; everything else has their width.
    dimension = getattr(place.module, "in_features", shape.dimension)
    return ModelOutline(**{**asdict(shape), "dimension": dimension}, spec=spec)


def load_config(source: ModelSource, trust_remote_code: bool) -> Any:
    """Load the model's config of transformers, or raise ModelError."""
    require_gguf(source, "gguf")
    with loading("config", source):
        return AutoConfig.from_pretrained(**source.arguments(), trust_remote_code=trust_remote_code)


def body_parameters(config: Any, source: ModelSource) -> int:
    """Count a model's parameters without building it, but for its tables of tokens."""
    with loading("architecture", source), torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    vocabulary = shape_of(config, source).vocabulary
    return sum(each.numel() for each in model.parameters() if vocabulary not in each.shape)


def shape_of(config: Any, source: ModelSource) -> ModelShape:
    """Return the sizes that a config states; ModelError if it is not that of a language model."""
    with loading("config", source):
        text = config.get_text_config()
        limits = [getattr(text, name, 0) for name in ("max_position_embeddings", "max_seq_len")]
        return ModelShape(
            architecture=str(config.model_type),
            dimension=int(text.hidden_size),
            vocabulary=int(text.vocab_size),
            max_context=next((n for n in limits if isinstance(n, int) and n > 0), None),
        )
