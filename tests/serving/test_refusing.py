"""What cannot be answered is refused in OpenAI's form, with its status; the server goes on."""

import json
import re
import signal
import socket
import threading
import time

import httpx
import pytest

from tests.conftest import run_command
from tests.serving.served import serving

GOOD = {"prompt": "the", "max_tokens": 2}


@pytest.mark.parametrize(
    ("changed", "status", "words"),
    [
        ({"model": "gpt-9"}, 404, "there is no model 'gpt-9'"),
        ({"prompt": []}, 400, "prompt is empty"),
        ({"prompt": [[]], "method": "lm"}, 200, ""),
        ({"prompt": [9999]}, 400, "token outside"),
        ({"prompt": [-1]}, 400, "prompt"),
        ({"prompt": {"a": 1}}, 400, "prompt"),
        ({"prompt": "the " * 200}, 400, "more than the context of 64"),
        ({"max_tokens": 101, "slide": True}, 400, "max_tokens = 101: 100 at most"),
        ({"max_tokens": -1}, 400, "max_tokens"),
        ({"max_tokens": 0}, 400, "without echo"),
        ({"temperature": -0.5}, 400, "temperature"),
        ({"top_p": 0}, 400, "top_p"),
        ({"n": 0}, 400, "n: "),
        ({"n": 44}, 400, "44 texts are asked for at once: 43 at most"),
        ({"n": 2, "best_of": 1}, 400, "best_of = 1 is less than n = 2"),
        ({"best_of": 2, "stream": True}, 400, "best_of cannot be streamed"),
        ({"echo": True, "logprobs": 1, "stream": True}, 400, "cannot be streamed"),
        ({"logprobs": 50}, 400, "logprobs"),
        ({"stop": ""}, 400, "stop: an empty string"),
        ({"seed": -3}, 400, "seed"),
        ({"suffix": "x"}, 400, "suffix"),
        ({"logit_bias": {"3": 1.0}}, 400, "logit_bias"),
        ({"unknown": 1}, 400, "unknown"),
        ({"method": "nothing"}, 400, "nothing: choose from"),
        ({"method": "retomaton+lambda"}, 400, "retomaton calibrate law.store --on"),
        ({"method": "retomaton", "walk": False}, 400, "walk: false is the plain LM"),
    ],
)
def test_bad_requests_are_refused_with_what_is_wrong(server, changed, status, words):
    found = server.post("/v1/completions", {"model": server.model, **GOOD, **changed})
    assert found.status_code == status, found.text
    if status != 200:
        error = found.json()["error"]
        assert words in error["message"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert "/" not in error["message"]
    assert server.complete(**GOOD)["choices"]


def test_what_is_no_request_is_refused(server):
    url = f"{server.url}/v1/completions"
    broken = httpx.post(url, content=b'{"model": ', headers={"content-type": "application/json"})
    assert broken.status_code == 400
    assert "not JSON" in broken.json()["error"]["message"]
    assert server.get("/v1/nothing").json()["error"]["type"] == "not_found_error"
    assert server.get("/v1/completions").status_code == 405
    large = httpx.post(url, content=b" " * (9 << 20), headers={"content-type": "application/json"})
    assert large.status_code == 413
    parts = (b" " * (1 << 20) for _ in range(9))
    chunked = httpx.post(url, content=parts, headers={"content-type": "application/json"})
    assert chunked.status_code == 413
    assert server.complete(**GOOD)["choices"]


def test_a_full_queue_is_said_and_when_to_come_back(server):
    body = {"model": server.model, "prompt": "the", "n": 43, "max_tokens": 100, "slide": True}
    body |= {"walk": False, "seed": 1}
    with httpx.stream(
        "POST", f"{server.url}/v1/completions", json={**body, "stream": True}, timeout=60
    ):
        many = {"model": server.model, **GOOD, "n": 43}
        found = server.post("/v1/completions", many)
        assert found.status_code == 429
        assert int(found.headers["retry-after"]) >= 1
        assert found.json()["error"]["type"] == "rate_limit_error"
        streamed = server.post("/v1/completions", {**many, "stream": True})
        assert streamed.status_code == 429


def test_others_need_the_token_and_sigterm_lets_what_began_finish(served_store, tmp_path):
    secret = tmp_path / "token"
    secret.write_text("open sesame\n")
    flags = ("--method", "lm", "--host", "0.0.0.0", "--token-file", str(secret))
    with serving(served_store, tmp_path, *flags) as server:
        assert server.get("/healthz").status_code == 200
        for headers in ({}, {"authorization": "Bearer open"}):
            found = server.get("/v1/models", headers=headers)
            assert found.status_code == 401
            assert found.json()["error"]["code"] == "invalid_api_key"
        right = {"authorization": "Bearer open sesame"}
        assert server.get("/v1/models", headers=right).status_code == 200
        body = {"model": server.model, "prompt": "the", "max_tokens": 300, "slide": True, "n": 8}
        answers = []

        def ask():
            answers.append(server.post("/v1/completions", body, headers=right))

        asking = threading.Thread(target=ask)
        asking.start()
        until = time.monotonic() + 30
        # Some of them may have ended by the time that we look.
        running = re.compile(r"^retomaton_running_texts [1-8]", re.MULTILINE)
        while not running.search(server.get("/metrics", headers=right).text):
            assert time.monotonic() < until
        server.process.send_signal(signal.SIGTERM)
        asking.join()
        assert server.process.wait(60) == 0
        assert len(answers[0].json()["choices"]) == 8


def test_a_port_in_use_and_an_open_host_are_one_line(served_store):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = run_command("serve", served_store, "--port", port)
    assert found.returncode == 2
    (line,) = found.stderr.splitlines()
    assert f"cannot listen at 127.0.0.1:{port}" in line
    found = run_command("serve", served_store, "--host", "0.0.0.0")
    assert found.returncode == 2
    assert "is open to others: give --token" in found.stderr


def test_a_chat_without_a_template_is_refused(walkable_store, tmp_path):
    with serving(walkable_store.path, tmp_path, "--method", "lm", "--name", "tiny") as server:
        messages = [{"role": "user", "content": "value"}]
        found = server.post("/v1/chat/completions", {"model": "tiny", "messages": messages})
        assert found.status_code == 400
        assert "has no chat template" in json.loads(found.text)["error"]["message"]
