"""Other inputs than a store's own, or a second writer, are refused and leave it as it is."""

import json
import subprocess
import sys

import pytest

from tests.cli.checks import Unchanged, check_refused
from tests.conftest import ROOT, save_tiny_model

HOLD = """
import sys
from retomaton_dist.storage.store import writing
with writing(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def again(command, small_store):
    """Run `extract` on the small store as it was made, but for the settings given."""

    def run(**changed):
        flags = []
        for name, value in (small_store.settings | changed).items():
            flags += [f"--{name.replace('_', '-')}", value]
        with Unchanged(small_store.path):
            return command("extract", small_store.path, *flags)

    return run


def test_the_same_settings_again_do_nothing_and_say_what_is_there(again, command, small_store):
    result = again()
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == command("inspect", small_store.path).stdout


def test_the_same_text_elsewhere_is_the_same_corpus(again, small_corpus, tmp_path):
    (tmp_path / "moved").write_bytes(small_corpus.read_bytes())
    assert again(corpus=tmp_path / "moved").returncode == 0


def test_settings_that_cannot_change_a_result_may_change(again):
    assert again(workers=2, cpus_per_worker=0.5, unit_timeout=60).returncode == 0


def test_another_corpus(again, small_corpus, tmp_path):
    (tmp_path / "more.txt").write_bytes(small_corpus.read_bytes() + b"one more\n")
    result = again(corpus=tmp_path / "more.txt")
    check_refused(
        result,
        "was made from another corpus: more.txt is new; lines.txt is gone. Name the same files",
        "use another store",
    )


def test_another_text_in_a_file_of_the_corpus(again, small_corpus, tmp_path):
    changed = tmp_path / small_corpus.name
    changed.write_bytes(small_corpus.read_bytes() + b"one more\n")
    check_refused(again(corpus=changed), "another corpus: lines.txt is changed. Name")


def test_another_split(again):
    check_refused(again(split="file"), "split was line, now file", "use another store")


def test_another_end(again):
    check_refused(again(end="none"), "end was 0, now None")


def test_another_tokenizer(again, tmp_path):
    model = save_tiny_model(tmp_path / "other", end="</s>")
    check_refused(again(model=model), "stage tokenize", "tokenizer was ")


def test_another_model(again, tmp_path):
    model = save_tiny_model(tmp_path / "other", n_layer=1)
    check_refused(again(model=model), "stage extract", "model was ")


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("context", 32, "context was 64, now 32"),
        ("stride", 16, "stride was 32, now 16"),
        ("key", "final_hidden", "key was last_ffn_input, now final_hidden"),
        ("batch_tokens", 99, "batch_tokens was 4096, now 99"),
        ("chunk_entries", 4096, "chunk_entries was 2048, now 4096"),
        ("threads", 2, "threads was 1, now 2"),
    ],
)
def test_another_setting_of_extraction(again, setting, value, said):
    check_refused(again(**{setting: value}), "stage extract", said, "Repeat the old settings")


@pytest.fixture
def held(small_store, tmp_path):
    """A copy of the small store that a process is writing, and that process's id."""
    copied = small_store.copy(tmp_path)
    line = [sys.executable, "-c", HOLD, str(copied.path)]
    with subprocess.Popen(
        line, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield copied, process.pid
        process.stdin.close()


def test_a_store_that_another_process_is_writing(command, held):
    store, pid = held
    said = (f"is being written by process {pid}", "wait for it or stop it")
    with Unchanged(store.path):
        check_refused(command("extract", store.path, *store.flags()), *said)
        check_refused(command("tokenize", store.path, *store.flags()[:6]), *said)


def test_such_a_store_can_be_read_and_says_who_is_writing(command, held):
    store, pid = held
    facts = json.loads(command("inspect", store.path, "--json").stdout)
    assert facts["writer"].startswith(f"process {pid} on ")
    assert f"being written by process {pid}" in command("inspect", store.path).stdout
    assert command("verify", store.path, "--progress", "none").returncode == 0


def test_damage_in_such_a_store_cannot_be_repaired_yet(command, held):
    store, pid = held
    (store.path / "datastore.zarr/values/c/0").unlink()
    result = command("verify", store.path, "--repair", "--progress", "none")
    assert result.returncode == 2
    assert f"is being written by process {pid}" in result.stderr
