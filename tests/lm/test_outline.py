"""What is known of a model before its weights are loaded is what is found once they are."""

import pytest

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.model import LanguageModel
from retomaton_dist.lm.outline import outline
from tests.lm.tiny import FAMILIES, save_model, spec_of

KEYS = ("last_ffn_input", "last_ffn_output", "final_hidden")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_outline_is_that_of_the_loaded_model(family, tmp_path):
    save_model(family, tmp_path, **({"word_embed_proj_dim": 8} if family == "opt" else {}))
    for key in KEYS:
        spec = spec_of(tmp_path, key)
        before, after = outline(spec), LanguageModel.load(spec, "cpu")
        assert before.spec == spec
        assert before.architecture == family
        assert before.dimension == after.dimension
        assert before.vocabulary == after.vocabulary
        assert before.max_context == after.max_context


def test_a_key_that_cannot_be_found_is_refused_before_anything_is_loaded(tmp_path):
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=50, hidden_size=8, num_hidden_layers=2)
    MambaForCausalLM(config).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"never read as weights")
    with pytest.raises(ModelError, match="'mamba'"):
        outline(spec_of(tmp_path))
