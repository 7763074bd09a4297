"""Whatever is wrong with what a user gives: one line, exit code 2, and no trace of a store."""

import shutil

import pyarrow as pa
import pytest
from pyarrow import parquet
from transformers import AutoConfig

from tests.cli.checks import check_refused, check_refused_without_a_trace
from tests.conftest import run_command, save_tiny_model


@pytest.fixture
def extract(command, tiny_model, small_corpus, tmp_path):
    """Run `extract` on a new store with good settings but for those given; None leaves one out."""

    def run(name="extract", **changed):
        good = {"corpus": small_corpus, "split": "line", "model": tiny_model}
        chosen = good | {"workers": 0, "progress": "none"} | changed
        flags = []
        for flag, value in chosen.items():
            flags += [f"--{flag.replace('_', '-')}", value] if value is not None else []
        return command(name, tmp_path / "new.store", *flags)

    return run


@pytest.fixture
def refused(extract, tmp_path):
    """Check that these settings are refused with a line that says this."""

    def check(*said, **changed):
        check_refused_without_a_trace(extract(**changed), tmp_path / "new.store", *said)

    return check


def test_a_missing_corpus(refused, tmp_path):
    refused("no/where.txt: no such file", "--corpus", corpus=tmp_path / "no" / "where.txt")


def test_no_corpus(refused):
    refused("--corpus is needed", corpus=None)


def test_no_model(refused):
    refused("--model is needed", model=None)


def test_an_empty_corpus(refused, tmp_path):
    (tmp_path / "empty.txt").write_text("")
    refused("the corpus is empty", "empty.txt", corpus=tmp_path / "empty.txt")


def test_a_corpus_without_a_token(refused, tmp_path):
    (tmp_path / "blank.txt").write_text("\n \n\t\r\n")
    refused("no token", "3 empty documents", name="tokenize", corpus=tmp_path / "blank.txt")


def test_a_missing_field(refused, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"body": "x"}\n')
    said = ("a.jsonl", "byte 0 has no field text", "it has body", "--field")
    refused(*said, name="tokenize", corpus=tmp_path / "a.jsonl", split=None)


def test_a_missing_column(refused, tmp_path):
    parquet.write_table(pa.table({"body": ["x"]}), tmp_path / "a.parquet")
    said = ("a.parquet has no column content", "it has body", "--field")
    chosen = {"corpus": tmp_path / "a.parquet", "field": "content", "split": "record"}
    refused(*said, name="tokenize", **chosen)


def test_a_split_that_does_not_suit(refused, tmp_path):
    (tmp_path / "a.jsonl").write_text("{}")
    refused("--split line does not suit a.jsonl; use record", corpus=tmp_path / "a.jsonl")


def test_a_model_that_is_not_there(refused, tmp_path):
    refused("there is no such file or folder", model=tmp_path / "no-model")
    refused("has no config.json", model=tmp_path)


def test_a_tokenizer_that_does_not_match_the_model(refused, tmp_path):
    model = save_tiny_model(tmp_path / "model", vocabulary=100)
    refused("does not match the model", "up to 299", "100 tokens", model=model)


def test_an_architecture_that_is_unknown(refused, tiny_model, tmp_path):
    model = shutil.copytree(tiny_model, tmp_path / "model")
    (model / "config.json").write_text('{"model_type": "nonesuch"}')
    refused("nonesuch", str(model), model=model)


def test_an_architecture_that_has_no_such_key(refused, tiny_model, tmp_path):
    model = shutil.copytree(tiny_model, tmp_path / "model")
    shape = {"vocab_size": 400, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 2}
    AutoConfig.for_model("mamba", **shape).save_pretrained(model)
    refused("Mamba", "--key", model=model)


def test_a_context_larger_than_the_models(refused):
    refused("context 65 is larger than the model's 64", "--context", context=65)


def test_a_stride_larger_than_the_context(refused):
    refused("--stride 33 is larger than --context 32", "--stride", context=32, stride=33)


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("context", 0),
        ("stride", 0),
        ("batch-tokens", 0),
        ("chunk-entries", 1000),
        ("unit-bytes", 0),
        ("workers", -1),
        ("workers", 10**9),
        ("threads", 0),
        ("threads", 10**9),
        ("cpus-per-worker", 0),
        ("unit-timeout", -1),
        ("context", "many"),
        ("end", "stop"),
        ("key", "first"),
        ("split", "regex:("),
    ],
)
def test_a_setting_that_makes_no_sense(refused, flag, value):
    refused(f"{flag} {value}", **{flag: value})


def test_workers_that_do_not_fit_the_cluster(ray_local, refused):
    said = ("3 workers of 2 CPUs", "has 4 CPUs", "room for 2", "--cpus-per-worker")
    refused(*said, workers=3, cpus_per_worker=2)
    refused("1 workers of 5 CPUs", "room for 0", workers=1, cpus_per_worker=5)


def test_a_gpu_where_there_is_none(ray_local, refused):
    refused("--device cuda", "no GPU", "--device cpu", device="cuda", workers=1)


def test_arithmetic_that_a_cpu_is_not_fit_for(refused):
    refused("bfloat16", "--dtype float32", dtype="bfloat16")


def test_a_folder_with_other_things_in_it(extract, tmp_path):
    (tmp_path / "new.store").mkdir()
    (tmp_path / "new.store" / "thesis.tex").write_text("mine")
    check_refused(extract(), "a folder with other things in it")
    assert [path.name for path in (tmp_path / "new.store").iterdir()] == ["thesis.tex"]


def test_a_file_in_the_stores_place(extract, tmp_path):
    (tmp_path / "new.store").write_text("mine")
    check_refused(extract(), "is a file, not a store")
    assert (tmp_path / "new.store").read_text() == "mine"


@pytest.mark.parametrize(
    "line",
    [
        ("inspect", "caf\udce9.store"),
        ("generate", "a.store", "--prompt", "caf\udce9"),
        ("generate", "a.store", "--prompt", "x", "--stop", "\udce9"),
    ],
)
def test_an_argument_that_is_not_utf_8(command, line):
    check_refused(command(*line), "\\xe9", "is not UTF-8")


@pytest.mark.parametrize(
    "line",
    [
        ("inspect", "a" * 300),
        ("report", "a" * 300),
        ("plan", "--tokens", "1e9", "--model", "./" + "a" * 300),
        ("serve-index", "a" * 300, "--status"),
    ],
)
def test_a_name_that_no_file_system_takes(command, line):
    check_refused(command(*line), "aaa")


@pytest.mark.slow
def test_undecodable_bytes_found_by_a_worker_of_a_real_process(tiny_model, tmp_path):
    """It starts a Ray of its own, of which nothing comes through."""
    (tmp_path / "latin.txt").write_bytes(b"good\ncaf\xe9\n")
    flags = ["--corpus", tmp_path / "latin.txt", "--model", tiny_model, "--split", "line"]
    result = run_command("extract", tmp_path / "new.store", *flags, "--progress", "none")
    said = (f"{tmp_path / 'latin.txt'}: byte 8 is not UTF-8", "iconv")
    check_refused_without_a_trace(result, tmp_path / "new.store", *said)
