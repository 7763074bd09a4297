"""A store inside transformers' own `generate`: people keep their code."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, LogitsProcessor, LogitsProcessorList

from retomaton_dist.errors import BadInput
from tests.generation.stores import loaded, save_model


@pytest.fixture(scope="module")
def lm(store_of):
    return loaded(store_of("gpt2"))


@pytest.fixture(scope="module")
def model(store_of):
    """The same weights, loaded by the user."""
    return AutoModelForCausalLM.from_pretrained(store_of("gpt2").parent / "model").eval()


def ids_of(lm, texts):
    """Rows as tokenizers of transformers make them: BOS first, padded on the left."""
    rows = [[lm.tokenizer.bos, *lm.tokenizer.encode([text])[0][0].tolist()] for text in texts]
    longest = max(map(len, rows))
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("chosen", [{"do_sample": False}, {"do_sample": False, "num_beams": 3}])
def test_it_gives_the_texts_of_our_own_generate(lm, model, lines, chosen):
    texts = [lines[400], lines[401][:3]]
    inputs = ids_of(lm, texts)
    found = model.generate(
        **inputs, max_new_tokens=9, pad_token_id=0, custom_generate=lm.custom_generate, **chosen
    )
    ours = {"num_beams": chosen.get("num_beams", 1)}
    for row, text in zip(found, lm.generate(texts, max_new_tokens=9, **ours), strict=True):
        new = row[inputs["input_ids"].shape[1] :].tolist()
        assert new[: len(text.tokens)] == text.tokens.tolist()
        assert set(new[len(text.tokens) :]) <= {0}


def test_with_lambda_0_every_option_of_transformers_does_what_it_does(store_of, model, lines):
    plain = loaded(store_of("gpt2"), lam=0.0)
    inputs = ids_of(plain, [lines[402][:9]])
    asked = {"max_new_tokens": 6, "min_new_tokens": 5, "no_repeat_ngram_size": 2, "pad_token_id": 0}
    asked |= {"repetition_penalty": 1.4, "suppress_tokens": [5, 6], "do_sample": False}
    expected = model.generate(**inputs, **asked)
    found = model.generate(**inputs, **asked, custom_generate=plain.custom_generate)
    assert found.tolist() == expected.tolist()


class Only(LogitsProcessor):
    """Forbids all tokens but one."""

    def __call__(self, input_ids, scores):
        return torch.where(torch.arange(scores.shape[1]) == 42, scores, -torch.inf)


def test_processors_of_the_user_see_the_mixture_and_seeds_repeat(lm, model, lines):
    inputs, asked = ids_of(lm, [lines[403]]), {"max_new_tokens": 5, "pad_token_id": 0}
    with_store = {"custom_generate": lm.custom_generate, **asked}
    forced = model.generate(
        **inputs, **with_store, do_sample=False, logits_processor=LogitsProcessorList([Only()])
    )
    assert forced[0, -5:].tolist() == [42] * 5
    sampled = [
        model.generate(
            **inputs, **with_store, do_sample=True, num_return_sequences=3, top_k=50, seed=seed
        ).tolist()
        for seed in (1, 1, 2)
    ]
    assert sampled[0] == sampled[1] != sampled[2]
    assert len(np.unique(sampled[0], axis=0)) > 1


def test_a_model_with_other_weights_is_refused(lm, tmp_path, lines):
    other = AutoModelForCausalLM.from_pretrained(save_model("mistral", tmp_path / "other"))
    with pytest.raises(BadInput, match="other weights"):
        other.generate(**ids_of(lm, lines[:1]), custom_generate=lm.custom_generate)


class Heard:
    """A streamer that writes down what it is given."""

    def __init__(self):
        self.tokens, self.ended = [], False

    def put(self, value):
        self.tokens += value.flatten().tolist()

    def end(self):
        self.ended = True


def test_a_streamer_hears_the_prompt_and_every_token(lm, model, lines):
    inputs, heard = ids_of(lm, [lines[404]]), Heard()
    asked = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    made = model.generate(**inputs, **asked, custom_generate=lm.custom_generate, stream_to=heard)
    assert heard.tokens == made[0].tolist()
    assert heard.ended


@pytest.mark.parametrize(
    "asked",
    [
        {"num_beams": 2, "length_penalty": 2.0},
        {"num_beams": 2, "early_stopping": True},
        {"output_scores": True, "return_dict_in_generate": True},
        {"num_beams": 4, "num_beam_groups": 2},
        {"penalty_alpha": 0.6, "top_k": 4},
    ],
)
def test_what_cannot_be_done_as_asked_is_refused(lm, model, lines, asked):
    with pytest.raises(BadInput, match=f"{list(asked)[-1 if 'num_beams' in asked else 0]} = "):
        model.generate(
            **ids_of(lm, lines[:1]), custom_generate=lm.custom_generate, max_new_tokens=3, **asked
        )


def test_greedy_and_sampled_texts_learn_apart(lm, model, lines):
    lm.learnt.clear()
    for do_sample in (False, True):
        model.generate(
            **ids_of(lm, lines[:1]),
            custom_generate=lm.custom_generate,
            max_new_tokens=3,
            do_sample=do_sample,
            pad_token_id=0,
        )
    assert len(lm.learnt) == 2


@pytest.mark.parametrize(
    ("rows", "asked", "said"),
    [
        ([[1, 5], [1, 10**6]], {}, "prompt 1 has ids outside the vocabulary"),
        ([[1, -5]], {}, "prompt 0 has ids outside the vocabulary"),
        ([[1, 5]], {"seed": "7"}, "seed = 7: must be a whole number"),
    ],
)
def test_rows_and_seeds_that_make_no_sense_are_refused_in_one_line(lm, model, rows, asked, said):
    chosen = {"custom_generate": lm.custom_generate, "max_new_tokens": 3, "pad_token_id": 0}
    with pytest.raises(BadInput, match=said):
        model.generate(torch.tensor(rows), **chosen, **asked)


def test_no_rows_at_all_are_refused(lm, model):
    config = model.generation_config
    empty = torch.zeros((0, 3), dtype=torch.int64)
    with pytest.raises(BadInput, match="no rows"):
        lm.custom_generate(model, empty, [], [], config, num_beams=1)
