"""OpenAI's own client, whole and streamed, one and many at a time; clients that go away."""

import asyncio
import contextlib
import json
import time

import httpx
import openai
import pytest

PROMPT = "the key value"


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_models_are_listed(server, client):
    (model,) = client.models.list().data
    assert model.id == server.model == "law.store"


def test_a_whole_answer_and_its_stream_are_the_same_text(server, client):
    asked = {"model": server.model, "prompt": PROMPT, "max_tokens": 12, "seed": 4}
    whole = client.completions.create(**asked)
    events = list(
        client.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    texts = [event.choices[0].text for event in events if event.choices]
    assert "".join(texts) == whole.choices[0].text
    assert sum(bool(text) for text in texts) > 1
    ends = [event.choices[0].finish_reason for event in events if event.choices]
    assert ends[-1] == whole.choices[0].finish_reason
    assert set(ends[:-1]) == {None}
    assert events[-1].usage == whole.usage


def test_a_stream_shows_nothing_of_a_stop_string(server, client):
    asked = {"model": server.model, "prompt": PROMPT, "max_tokens": 30, "seed": 5}
    text = client.completions.create(**asked).choices[0].text
    asked["stop"] = [text[4:7]]
    whole = client.completions.create(**asked).choices[0].text
    events = client.completions.create(**asked, stream=True)
    assert "".join(event.choices[0].text for event in events) == whole


def test_several_texts_are_streamed_side_by_side(server, client):
    asked = {"model": server.model, "prompt": [PROMPT, "a"], "max_tokens": 6, "seed": 6, "n": 2}
    whole = client.completions.create(**asked)
    texts = [""] * 4
    for event in client.completions.create(**asked, stream=True):
        for choice in event.choices:
            texts[choice.index] += choice.text
    assert texts == [choice.text for choice in whole.choices]


def test_streamed_log_probabilities_are_those_of_the_whole(server, client):
    asked = {"model": server.model, "prompt": PROMPT, "max_tokens": 6, "seed": 7, "logprobs": 2}
    whole = client.completions.create(**asked).choices[0].logprobs
    streamed = []
    for event in client.completions.create(**asked, stream=True):
        if event.choices[0].logprobs is not None:
            streamed += event.choices[0].logprobs.token_logprobs
    assert streamed == pytest.approx(whole.token_logprobs, abs=1e-5)


def test_a_conversation_goes_through_the_chat_template(server, client, lm):
    messages = [{"role": "user", "content": "value"}]
    asked = {"model": server.model, "max_tokens": 7, "temperature": 0}
    whole = client.chat.completions.create(
        messages=messages, **asked, logprobs=True, top_logprobs=2
    )
    (made,) = lm.generate(["user = value ->"], max_new_tokens=7)
    assert whole.choices[0].message.content == made.text
    listed = whole.choices[0].logprobs.content
    assert [one.logprob for one in listed] == pytest.approx(made.log_p.tolist(), abs=1e-5)
    assert all(one.top_logprobs[0].logprob == one.logprob for one in listed)
    parts = [{"role": "user", "content": [{"type": "text", "text": "value"}]}]
    events = client.chat.completions.create(messages=parts, **asked, stream=True)
    assert "".join(event.choices[0].delta.content for event in events) == made.text


def test_many_clients_at_once_get_what_each_gets_alone(server):
    words = ("the", "a", "state", "entry", "walks", "search", "café", "of", "and")
    prompts = [f"{word} {PROMPT}" for word in words]
    asked = [
        {"prompt": prompt, "max_tokens": 3 + number, "seed": number, "temperature": number % 2}
        for number, prompt in enumerate(prompts)
    ]
    alone = [server.complete(**one)["choices"][0]["text"] for one in asked]

    async def all_at_once():
        client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        answers = [client.completions.create(model=server.model, **one) for one in asked]
        return await asyncio.gather(*answers)

    together = asyncio.run(all_at_once())
    assert [answer.choices[0].text for answer in together] == alone


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_frees_its_rows(server, stream):
    before = server.metric("retomaton_cancelled_total")
    # More than fit: what is cancelled may wait, be read, or grow.
    body = {"model": server.model, "prompt": [PROMPT] * 14, "max_tokens": 100, "slide": True}
    # It takes longer than this client waits: texts of the plain LM seldom end.
    body |= {"stream": stream, "n": 3, "seed": 1, "walk": False}
    with contextlib.suppress(httpx.ReadTimeout):
        asked = {"json": body, "timeout": httpx.Timeout(30, read=0.2)}
        with httpx.stream("POST", f"{server.url}/v1/completions", **asked) as answer:
            next(answer.iter_lines())
    until = time.monotonic() + 60
    while server.metric("retomaton_cancelled_total") == before and time.monotonic() < until:
        time.sleep(0.05)
    assert server.metric("retomaton_cancelled_total") == before + 1
    assert server.complete(prompt=PROMPT, max_tokens=1)
    assert server.metric("retomaton_waiting_texts") == 0


def test_metrics_count_what_was_done(server):
    names = ("new_tokens_total", "prompt_tokens_total", "texts_total", "scored_positions_total")
    before = {name: server.metric(f"retomaton_{name}") for name in names}
    found = server.complete(prompt=PROMPT, max_tokens=4, temperature=0)
    usage = found["usage"]
    after = {name: server.metric(f"retomaton_{name}") - before[name] for name in names}
    new = usage["completion_tokens"]
    assert after == dict(zip(names, (new, usage["prompt_tokens"], 1, new), strict=True))
    assert 0 <= server.metric("retomaton_foss") <= 1
    page = server.get("/metrics").text
    for name in ("texts_worse_than_lm", "drafted_tokens", "accepted_tokens", "searches"):
        assert f"retomaton_{name}_total" in page
    assert "retomaton_first_token_seconds_count" in page


def test_tokens_go_there_and_back(server, lm):
    text = "the café 東京"
    plain = server.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json()
    assert plain["tokens"] == lm.tokenizer.encode([text])[0][0].tolist()
    assert server.post("/detokenize", {"tokens": plain["tokens"]}).json() == {"prompt": text}
    special = server.post("/tokenize", {"prompt": text}).json()
    assert special["tokens"] == [lm.generator.prefix, *plain["tokens"]]
    info = server.get("/tokenizer_info").json()
    assert info["eos_token"] == info["bos_token"] == "<|endoftext|>"
    assert "messages" in info["chat_template"]


def test_the_log_is_json_and_says_nothing_of_what_was_asked(server):
    def completions():
        lines = [line for line in server.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in map(json.loads, lines) if line["route"] == "/v1/completions"]

    before = len(completions())
    server.complete(prompt="naïve secret", max_tokens=1)
    # The answer is there a little before its line is.
    until = time.monotonic() + 60
    while len(completions()) == before and time.monotonic() < until:
        time.sleep(0.05)
    assert len(completions()) == before + 1
    assert completions()[-1].keys() == {"event", "time", "method", "route", "status", "seconds"}
    assert "secret" not in server.log.read_text()
