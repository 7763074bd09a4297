"""/v1/completions: what the API says is what the loaded store says, to the letter."""

import numpy as np
import pytest

CLOSE = 1e-5
PROMPT = "the key value"


def test_greedy_text_is_that_of_generate(server, lm):
    for prompt in (PROMPT, lm.tokenizer.encode([PROMPT])[0][0].tolist()):
        found = server.complete(prompt=prompt, max_tokens=9, temperature=0)
        (made,) = lm.generate([PROMPT], max_new_tokens=9)
        (choice,) = found["choices"]
        assert choice["text"] == made.text
        assert choice["finish_reason"] == {"eos": "stop", "length": "length"}[made.ending]
        new, before = len(made.tokens), len(made.prompt_tokens)
        assert found["usage"] == {
            "prompt_tokens": before,
            "completion_tokens": new,
            "total_tokens": before + new,
        }


def test_sampled_texts_are_those_of_generate_by_seed(server, lm):
    asked = {"temperature": 0.8, "top_p": 0.9, "seed": 7}
    found = server.complete(prompt=[PROMPT, "document"], max_tokens=8, n=3, **asked)
    made = lm.generate(
        [PROMPT, "document"], max_new_tokens=8, num_return_sequences=3, do_sample=True, **asked
    )
    assert [choice["text"] for choice in found["choices"]] == [text.text for text in made]
    assert [choice["index"] for choice in found["choices"]] == list(range(6))


def test_copies_beyond_the_rows_and_greedy_copies(server):
    many = server.complete(prompt=PROMPT, max_tokens=4, n=5, seed=1)["choices"]
    few = server.complete(prompt=PROMPT, max_tokens=4, n=2, seed=1)["choices"]
    assert [one["text"] for one in many[:2]] == [one["text"] for one in few]
    alike = server.complete(prompt=PROMPT, max_tokens=4, n=3, temperature=0)["choices"]
    assert len(alike) == 3
    assert len({one["text"] for one in alike}) == 1


@pytest.mark.parametrize("max_tokens", [0, 1, 5])
@pytest.mark.parametrize("with_bos", [False, True])
def test_echo_with_logprobs_scores_the_prompt_as_score_does(server, lm, max_tokens, with_bos):
    tokens = lm.tokenizer.encode(["the pointer of a state walks to the entry"])[0][0].tolist()
    prompt = [lm.generator.prefix, *tokens] if with_bos else tokens
    asked = {"echo": True, "logprobs": 1, "max_tokens": max_tokens, "temperature": 0, "seed": 1}
    (choice,) = server.complete(prompt=prompt, **asked)["choices"]
    listed = choice["logprobs"]
    lengths = {len(listed[name]) for name in listed}
    assert lengths == {len(prompt) + max_tokens}
    assert listed["token_logprobs"][0] is None
    assert listed["top_logprobs"][0] is None
    new = lm.generate([tokens], max_new_tokens=max_tokens)[0].tokens.tolist() if max_tokens else []
    (scored,) = lm.score([[*tokens, *new]])
    expected = scored.log_p if with_bos else scored.log_p[1:]
    assert listed["token_logprobs"][1:] == pytest.approx(expected, abs=CLOSE)
    assert choice["text"].startswith(lm.tokenizer.decode(prompt))


def test_greedy_tokens_are_those_whose_value_is_the_largest_bit_by_bit(server, lm):
    (made,) = lm.generate([PROMPT], max_new_tokens=12)
    whole = [*made.prompt_tokens.tolist(), *made.tokens.tolist()]
    asked = {"echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
    listed = server.complete(prompt=whole, **asked)["choices"][0]["logprobs"]
    pairs = list(zip(listed["token_logprobs"], listed["top_logprobs"], strict=True))
    greedy = [value == max(top.values()) for value, top in pairs[1:]]
    first = len(made.prompt_tokens) - 1
    assert all(greedy[first:])
    other = [*whole[:-1], (whole[-1] + 1) % 300]
    listed = server.complete(prompt=other, **asked)["choices"][0]["logprobs"]
    value, top = listed["token_logprobs"][-2], listed["top_logprobs"][-2]
    assert value != max(top.values())


def test_text_offsets_point_into_the_text(server):
    asked = {"prompt": "café 東京 the", "max_tokens": 6, "echo": True, "logprobs": 0}
    choice = server.complete(**asked)["choices"][0]
    offsets = choice["logprobs"]["text_offset"]
    assert offsets == sorted(offsets)
    assert offsets[0] == 0
    assert offsets[-1] <= len(choice["text"])


def test_best_of_gives_back_the_likeliest(server):
    asked = {"prompt": PROMPT, "max_tokens": 5, "seed": 3, "logprobs": 0}
    every = server.complete(n=4, **asked)
    best = server.complete(n=1, best_of=4, **asked)
    means = [np.mean(one["logprobs"]["token_logprobs"]) for one in every["choices"]]
    (choice,) = best["choices"]
    assert choice["text"] == every["choices"][int(np.argmax(means))]["text"]
    assert best["usage"] == every["usage"]


def test_a_stop_string_is_no_part_of_the_text(server):
    asked = {"prompt": PROMPT, "max_tokens": 30, "seed": 5}
    whole = server.complete(**asked)["choices"][0]["text"]
    word = whole[4:6]
    (cut,) = server.complete(stop=[word, "never there"], **asked)["choices"]
    assert (cut["text"], cut["finish_reason"]) == (whole[: whole.index(word)], "stop")


def test_the_plain_lm_and_other_methods_can_be_asked_for(server, lm, served_store):
    import retomaton_dist as rd

    plain = rd.load(served_store, method="lm")
    asked = {"prompt": PROMPT, "max_tokens": 10, "temperature": 0}
    expected = plain.generate([PROMPT], max_new_tokens=10)[0].text
    assert server.complete(walk=False, **asked)["choices"][0]["text"] == expected
    assert server.complete(method="lm", **asked)["choices"][0]["text"] == expected
    other = rd.load(served_store, method="lm+ngram+cache").generate([PROMPT], max_new_tokens=10)
    assert server.complete(method="lm+ngram+cache", **asked)["choices"][0]["text"] == other[0].text


def test_texts_longer_than_the_context_slide_if_asked(server, lm):
    prompt = (PROMPT + " ") * 12
    expected = lm.generate([prompt], max_new_tokens=6)[0].text
    found = server.complete(prompt=prompt, max_tokens=6, temperature=0, slide=True)
    assert found["choices"][0]["text"] == expected
