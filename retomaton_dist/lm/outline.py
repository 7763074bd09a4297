"""What a model's keys look like, found out without loading a single weight."""

from dataclasses import dataclass

import torch
from transformers import AutoModelForCausalLM

from retomaton_dist.lm.failures import loading
from retomaton_dist.lm.keys import find_key
from retomaton_dist.lm.shape import load_config, shape_of
from retomaton_dist.lm.source import find_model, fingerprint
from retomaton_dist.settings import ModelSettings


@dataclass(frozen=True)
class ModelOutline:
    """A model as the plan of a stage needs it."""

    name: str
    architecture: str
    fingerprint: str
    dimension: int
    vocabulary: int
    max_context: int | None


def outline(settings: ModelSettings) -> ModelOutline:
    """Build the model without storage (on torch's meta device) and look where its key passes.

    So an architecture that cannot be hooked is refused before anything is written or loaded.
    """
    source = find_model(settings)
    config = load_config(source, settings.trust_remote_code)
    shape = shape_of(config, source)
    with loading("architecture", source), torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            config, trust_remote_code=settings.trust_remote_code
        )
    place = find_key(model, settings.key)
    return ModelOutline(
        name=source.name,
        architecture=shape.architecture,
        fingerprint=fingerprint(source),
        # An LM head may be narrower than the layers; everything else has their width.
        dimension=getattr(place.module, "in_features", shape.dimension),
        vocabulary=shape.vocabulary,
        max_context=shape.max_context,
    )
