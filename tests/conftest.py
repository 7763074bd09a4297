"""What all tests share: one local Ray, and a tiny model, corpus and store that are made once."""

import os
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

# `make test-slow` asks for `thorough`.
settings.register_profile("quick", deadline=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.load_profile("quick")
# Tests run beside each other, a process per core; whoever wants more threads says so.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Folders whose files share what is made once; no two clusters of several nodes run at a time.
TOGETHER = {
    "chaos": "clusters",
    "jobs": "clusters",
    "nodes": "clusters",
    "generation": "generation",
    "search": "search",
}
LONGEST = ("test_wheel", "test_evaluate", "test_pool")
# What is started in the background of a shell ignores SIGINT, and so would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent.parent
TINY_CONTEXT = 64
TINY_DIMENSION = 32
TINY_VOCABULARY = 400
CHUNK_ENTRIES = 2048
TEXT = (
    "the a key value pointer state entry document walks search café naïve 東京 🗼 of and in to "
    "= ( ) def return x1 λ -> Straße 12,500 e.g. it's"
)


def pytest_collection_modifyitems(items):
    """Begin with the longest files, so that no process has to wait for one of them in the end."""
    items.sort(key=lambda item: item.path.stem not in LONGEST and item.path.parent.name != "jobs")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Share tests out between processes by file: what a file's tests share is made once."""
    from xdist.scheduler import LoadScopeScheduling

    class FileScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            path = Path(nodeid.split("::")[0])
            return TOGETHER.get(path.parent.name, path.as_posix())

    return FileScheduling(config, log)


@pytest.fixture(scope="session")
def ray_local():
    """A real Ray of four logical CPUs; what runs in this process joins it."""
    import ray

    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """The folder of a GPT-2 with random weights and a byte-level BPE tokenizer (BOS = EOS)."""
    return save_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


def save_tiny_model(folder, end="<|endoftext|>", **overrides):
    """Save a tiny GPT-2; `end` None gives a tokenizer with neither BOS nor EOS."""
    from transformers.utils.logging import disable_progress_bar

    from tests.lm.tiny import build_model, byte_level_tokenizer

    shape = {"n_embd": TINY_DIMENSION, "n_positions": TINY_CONTEXT, "vocabulary": TINY_VOCABULARY}
    disable_progress_bar()
    chosen = shape | {"bos_token_id": 0, "eos_token_id": 0} | overrides
    build_model("gpt2", **chosen).save_pretrained(folder)
    marks = {"bos_token": end, "eos_token": end} if end else {}
    byte_level_tokenizer(end, **marks).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def small_corpus(tmp_path_factory):
    """A text file of 2,000 short lines, every tenth of them blank; always the same."""
    chosen, words = random.Random(7), TEXT.split()
    lines = [
        "" if number % 10 == 9 else " ".join(chosen.choices(words, k=chosen.randint(1, 6)))
        for number in range(2000)
    ]
    path = tmp_path_factory.mktemp("corpus") / "lines.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@dataclass(frozen=True)
class BuiltStore:
    """A store with the settings that it was extracted with."""

    path: Path
    settings: dict[str, object]

    def copy(self, folder):
        """The same store elsewhere, to be altered."""
        return BuiltStore(shutil.copytree(self.path, Path(folder) / "copy.store"), self.settings)

    def flags(self):
        """The settings as flags of `retomaton extract`."""
        flags = []
        for name, value in self.settings.items():
            flags += [f"--{name.replace('_', '-')}", str(value)]
        return flags


@pytest.fixture(scope="session")
def small_store(tiny_model, small_corpus, tmp_path_factory):
    """A store extracted from `small_corpus` line by line, of several units. Alter only copies."""
    import retomaton_dist as rd

    chosen = {
        "corpus": str(small_corpus),
        "split": "line",
        "model": str(tiny_model),
        "chunk_entries": CHUNK_ENTRIES,
        "workers": 0,
        "progress": "none",
    }
    path = tmp_path_factory.mktemp("store") / "small.store"
    rd.extract(path, **chosen)
    return BuiltStore(path, chosen)


@pytest.fixture(scope="session")
def walkable_store(small_store, tmp_path_factory):
    """The same with two automata of exact keys, `kmeans` and `none`, and both indexes."""
    import retomaton_dist as rd

    made = small_store.copy(tmp_path_factory.mktemp("walkable"))
    quiet = {"workers": 0, "progress": "none"}
    rd.cluster(made.path, states=50, iterations=3, **quiet)
    rd.cluster(made.path, algorithm="none", **quiet)
    rd.index(made.path, factory="Flat", recall_queries=16, recall_k=8, **quiet)
    rd.compile(made.path, codec="fp16", **quiet)
    rd.compile(made.path, codec="fp16", states="none", **quiet)
    rd.suffix(made.path, **quiet)
    rd.ngram(made.path, **quiet)
    return made


@pytest.fixture
def command(capfd):
    """Run the command line inside this process: `command("inspect", path)`."""
    from retomaton_dist.cli import main

    def run(*arguments):
        capfd.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
        return subprocess.CompletedProcess(arguments, code, *capfd.readouterr())

    return run


def run_python(*arguments, **options):
    """Run this Python in a process of its own, from the project's root."""
    line = [sys.executable, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, cwd=ROOT, timeout=240, **options)


def run_command(*arguments, **options):
    """Run the command line in a process of its own."""
    return run_python("-m", "retomaton_dist.cli", *arguments, **options)


def contents(folder):
    """Every file below a folder with its bytes: what must not change."""
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
