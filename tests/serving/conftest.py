"""One server over one small store, for all tests that do not end it."""

import json

import pytest

from tests.conftest import save_tiny_model
from tests.serving.served import serving

TEMPLATE = "{% for m in messages %}{{ m.role }} = {{ m.content }} {% endfor %}->"
FLAGS = ("--rows", "3", "--queue", "40", "--max-tokens", "100")


@pytest.fixture(scope="session")
def served_store(tmp_path_factory, small_corpus):
    """A store with an n-gram model, whose tokenizer has a chat template."""
    import retomaton_dist as rd

    folder = tmp_path_factory.mktemp("served")
    model = save_tiny_model(folder / "model")
    config = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": TEMPLATE}))
    lines = small_corpus.read_text().splitlines()[:400]
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(lines) + "\n")
    path = folder / "law.store"
    quiet = {"workers": 0, "progress": "none"}
    rd.extract(path, corpus=str(corpus), split="line", model=str(model), **quiet)
    rd.cluster(path, states=50, iterations=3, **quiet)
    rd.compile(path, codec="fp16", **quiet)
    rd.suffix(path, **quiet)
    rd.ngram(path, **quiet)
    return path


@pytest.fixture(scope="session")
def server(served_store, tmp_path_factory):
    """The server, with the default method."""
    with serving(served_store, tmp_path_factory.mktemp("server"), *FLAGS) as running:
        yield running


@pytest.fixture(scope="session")
def lm(served_store):
    """The same store in this process."""
    import retomaton_dist as rd

    return rd.load(served_store)
