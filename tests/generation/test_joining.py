"""Texts that join and leave at any step are the texts that each request gives alone."""

from collections import deque

import numpy as np
import pytest

from retomaton_dist.generation.decoding import Decoding
from retomaton_dist.generation.drafting import Drafting, Learnt
from retomaton_dist.generation.sampling import SamplingParams
from retomaton_dist.generation.text_request import Ending, TextRequest
from tests.generation.stores import loaded, with_network
from tests.generation.test_generating import prompts_of

CLOSE = 1e-6


@pytest.fixture(scope="module", params=["walk", "online", "knnlm", "without_bos", "lm"])
def lm(request, store_of):
    """Stores in double precision, so that what is beside a text does not decide by a rounding."""
    chosen = {
        "walk": lambda: with_network(loaded(store_of("gpt2"))),
        "online": lambda: loaded_online(store_of("gpt2")),
        "knnlm": lambda: loaded(store_of("gpt2"), method="knnlm", tau=None),
        "without_bos": lambda: with_network(loaded(store_of("llama"))),
        "lm": lambda: loaded(
            store_of("gpt2"), method="lm", tau=None, lambda_=None, knn_temperature=None
        ),
    }
    lm = chosen[request.param]()
    lm.lm.model.double()
    return lm


def loaded_online(path):
    """Weights that follow the text, of a walk and of models of text."""
    import retomaton_dist as rd
    from retomaton_dist.storage.store import Store

    if not Store.open(path).is_done("ngram/default"):
        rd.ngram(path, workers=0, progress="none")
    constants = {"tau": None, "lambda_": None, "knn_temperature": None}
    return loaded(path, method="retomaton+suffix+ngram+cache", **constants)


def random_requests(lm, lines, count, seed):
    """Requests whose every parameter is drawn at random."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 30, count).tolist()
    requests = []
    for number, prompt in enumerate(prompts_of(lm, lines, sizes)):
        sampled, scored = bool(random.random() < 0.5), bool(random.random() < 0.3)
        choosing = SamplingParams(
            do_sample=sampled,
            temperature=float(random.uniform(0.5, 1.5)),
            top_p=float(random.choice([1.0, 0.8])),
            frequency_penalty=float(random.choice([0.0, 0.5])),
            seed=int(random.integers(0, 1000)),
        )
        new = int(random.integers(0 if scored else 1, 14))
        requests.append(
            TextRequest(
                number,
                np.array(prompt, np.int32),
                Ending(new, (0,), ("ca",) if random.random() < 0.2 else (), lm.tokenizer.decode),
                choosing,
                copies=int(random.integers(1, 3)) if sampled else 1,
                score_prompt=scored,
                alternatives=int(random.integers(0, 3)),
            )
        )
    return requests


def fixed_drafts(lm, length):
    return Drafting(lm.draft_suffixes, Learnt(length)) if length else None


def one_by_one(lm, requests):
    return [text for request in requests for text in Decoding(lm.generator, 2).run([request])]


def same(one, other):
    assert (one.prompt, one.copy, one.ending) == (other.prompt, other.copy, other.ending)
    assert one.scores.tokens.tolist() == other.scores.tokens.tolist()
    assert one.scores.log_p == pytest.approx(other.scores.log_p, abs=CLOSE)
    assert one.scores.searched.tolist() == other.scores.searched.tolist()
    assert len(one.alternatives) == len(other.alternatives)
    for left, right in zip(one.alternatives, other.alternatives, strict=True):
        assert dict(left) == pytest.approx(dict(right), abs=CLOSE)


def check_joining(lm, lines, count, drafted):
    """Requests that come at random steps, some of which are cancelled, against each alone."""
    requests = random_requests(lm, lines, count, seed=drafted)
    expected = {(text.prompt, text.copy): text for text in one_by_one(lm, requests)}
    random, waiting, done = np.random.default_rng(5), deque(requests), []
    decoding = Decoding(lm.generator, 4, fixed_drafts(lm, drafted))
    cancelled = set()
    while waiting or decoding.busy:
        while waiting and random.random() < 0.4:
            decoding.submit(waiting.popleft())
        if random.random() < 0.1:
            number = int(random.integers(0, len(requests)))
            decoding.cancel(number)
            submitted = len(requests) - len(waiting)
            cancelled |= {number} if number < submitted else set()
        done += decoding.step()
    decoding.close()
    assert {text.prompt for text in done} | cancelled == set(range(len(requests)))
    for text in done:
        same(text, expected[text.prompt, text.copy])
    assert len(done) > len(requests) / 2


@pytest.mark.parametrize("drafted", [0, 3])
def test_random_requests_at_random_steps_equal_the_same_ones_alone(lm, lines, drafted):
    check_joining(lm, lines, 24, drafted)


@pytest.mark.slow
def test_so_do_200_requests(lm, lines):
    check_joining(lm, lines, 200, 3)


def test_what_is_scored_of_a_prompt_is_what_scoring_says(lm, lines):
    for request in random_requests(lm, lines, 24, seed=1):
        if not request.score_prompt:
            continue
        for text in Decoding(lm.generator, 2).run([request]):
            lead = lm.generator.unpredicted
            whole = [*request.prompt[:lead], *text.scores.tokens]
            assert whole[: len(request.prompt)] == request.prompt.tolist()
            if len(whole) > lead:
                (scored,) = lm.score([whole])
                assert text.scores.log_p == pytest.approx(scored.log_p, abs=1e-5)


def test_alternatives_are_the_likeliest_tokens_and_the_chosen_one(lm, lines):
    prompt = np.array(prompts_of(lm, lines, (9,))[0], np.int32)
    ending = Ending(6, (), (), lm.tokenizer.decode)
    asked = TextRequest(0, prompt, ending, SamplingParams(), score_prompt=True, alternatives=2)
    (text,) = Decoding(lm.generator, 1).run([asked])
    assert len(text.alternatives) == len(text.scores.tokens) == 15 - lm.generator.unpredicted
    for token, log_p, listed in zip(
        text.scores.tokens.tolist(), text.scores.log_p.tolist(), text.alternatives, strict=True
    ):
        assert len(listed) in (2, 3)
        assert dict(listed)[token] == log_p
        assert listed == sorted(listed, key=lambda pair: -pair[1])
    for token, listed in zip(text.scores.tokens[-6:], text.alternatives[-6:], strict=True):
        assert listed[0][0] == token


def test_a_cancelled_request_frees_its_rows_at_once(lm, lines):
    prompts = prompts_of(lm, lines, (4, 5, 6))
    ending = Ending(10, (), (), lm.tokenizer.decode)
    first, second, third = (
        TextRequest(number, np.array(prompt, np.int32), ending, SamplingParams())
        for number, prompt in enumerate(prompts)
    )
    decoding = Decoding(lm.generator, 1)
    decoding.submit(first)
    for _ in range(3):
        decoding.step()
    decoding.submit(second)
    decoding.submit(third)
    assert not decoding.step()
    decoding.cancel(0)
    decoding.cancel(2)
    done = decoding.run([])
    assert [text.prompt for text in done] == [1]


def test_more_prompts_than_rows_give_the_same_texts(lm, lines):
    prompts = prompts_of(lm, lines, (3, 8, 20, 1, 5))
    asked = {"max_new_tokens": 9, "do_sample": True, "num_return_sequences": 3, "seed": 2}
    together = lm.generate(prompts, **asked)
    few = lm.generate(prompts, batch=2, **asked)
    assert [text.tokens.tolist() for text in few] == [text.tokens.tolist() for text in together]
