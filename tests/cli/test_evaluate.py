"""`retomaton eval` and `retomaton report`: what they print, and what they refuse in one line."""

import shutil

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.settings import PRESETS, EvaluateSettings, WalkSettings
from retomaton_dist.settings.parsing import make_groups
from retomaton_dist.storage import columns
from retomaton_dist.storage.store import writing
from tests.cli.checks import Unchanged, check_refused
from tests.conftest import contents, save_tiny_model
from tests.evaluation.evaluated import write_text, write_texts
from tests.lm.tiny import byte_level_tokenizer
from tests.storage.conftest import flip, flipped

GIVEN = {"methods": "lm,knnlm,retomaton", "automata": "kmeans", "tau": "1,inf", "k": 16}
CONSTANTS = {"lambda": 0.3, "knn-temperature": 2, "calibrate-on": None}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture
def eval_(command, walkable_store, texts, tmp_path):
    """Run `eval` with good settings but for those given; None leaves one out."""

    def run(store=walkable_store.path, **changed):
        paths = {"text": texts["text"], "calibrate-on": texts["calibrate_on"]}
        good = GIVEN | paths | {"out": tmp_path / "out", "workers": 1, "progress": "none"}
        named = {name.replace("_", "-").strip("-"): value for name, value in changed.items()}
        flags = []
        for flag, value in (good | named).items():
            flags += (
                [] if value is None else [f"--{flag}"] if value is True else [f"--{flag}", value]
            )
        return command("eval", store, *flags, "--workers", 0)

    return run


@pytest.fixture
def refused(eval_, walkable_store, tmp_path):
    """Check that these settings are refused with a line that says this, and nothing is written."""

    def check(*said, **changed):
        before = sorted(tmp_path.rglob("*"))
        check_refused(eval_(**changed), *said)
        assert sorted(tmp_path.rglob("*")) == before
        assert not (walkable_store.path / "evaluations").exists()

    return check


@pytest.fixture(scope="module")
def finished(walkable_store, texts, tmp_path_factory):
    """A finished evaluation. Alter only copies."""
    from retomaton_dist.cli import main

    out = tmp_path_factory.mktemp("finished") / "out"
    flags = [f"--{name}={value}" for name, value in GIVEN.items()]
    flags += ["--text", texts["text"], "--lambda=0.3", "--knn-temperature=2", "--progress=none"]
    place = ["--out", str(out), "--workers", "0"]
    assert main(["eval", str(walkable_store.path), *flags, *place]) == 0
    return out


def test_the_table_and_the_place_of_the_report_are_printed(eval_, finished):
    with Unchanged(finished / "text"):
        done = eval_(out=finished, **CONSTANTS)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:5] == ["method", "states", "tau", "FoSS", "perplexity"]
    assert [line.split()[0] for line in lines[1:7]] == ["lm", *["knnlm"] * 3, *["retomaton"] * 2]
    assert lines[-1] == f"report: {finished / 'report.html'}"


def test_report_makes_the_same_results_again(command, finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "copy")
    shown = command("report", copy)
    assert shown.returncode == 0
    assert contents(copy)["results.json"] == contents(finished)["results.json"]
    other = command("report", copy, "--lambda", "0.9", "--knn-temperature", "4")
    assert other.stdout != shown.stdout
    assert contents(copy / "text") == contents(finished / "text")


def test_the_walk_is_the_presets_but_for_what_is_given():
    def walk(given, **table):
        kinds = EvaluateSettings, WalkSettings
        return make_groups(kinds, {"text": "x", **given}, {"walk": table})[1]

    assert walk({}) == PRESETS["reference"]
    found = walk({"k": 6}, k=5, follow="members")
    assert (found.k, found.follow, found.count) == (6, "members", "entries")
    assert walk({"preset": "equations"}) == PRESETS["equations"]


def test_text_without_a_token(refused, tmp_path):
    (tmp_path / "blank.txt").write_text("\n \n\t\n")
    (tmp_path / "empty.txt").write_text("")
    refused("--text", "blank.txt", "no token", text=tmp_path / "blank.txt")
    refused("empty.txt", "no byte of text", text=tmp_path / "empty.txt")
    refused("--calibrate-on", "no token", calibrate_on=tmp_path / "blank.txt")


def test_missing_text(refused, tmp_path):
    refused("no/where.txt: no such file", "--text", text=tmp_path / "no" / "where.txt")
    refused("no such file", "--calibrate-on", calibrate_on=tmp_path / "no.txt")
    refused("--text is needed", text=None)


def test_another_key_model_than_the_stores(refused, tmp_path):
    model = save_tiny_model(tmp_path / "other", n_layer=1)
    refused("is not the one that", "--key-model", **{"key-model": model})


def test_another_tokenizer_than_the_stores(refused, tiny_model, tmp_path):
    model = shutil.copytree(tiny_model, tmp_path / "other")
    marks = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
    byte_level_tokenizer("<|endoftext|>", 270, **marks).save_pretrained(model)
    refused("tokenizer", "is not the one that", model=model)


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("tau", "0", "must be 1 or more"),
        ("tau", "2,nan", "must be 1 or more"),
        ("tau", "many", "must be numbers with commas"),
        ("tau", ",", "names no threshold"),
        ("sigma", "-1", "--sigma -1: must be 0 (never search), a whole number, or inf"),
        ("sigma", "2,nan", "--sigma nan: must be 0"),
        ("sigma", "1.5", "--sigma 1.5: must be 0"),
        ("sigma", "long", "--sigma long: must be numbers with commas"),
        ("sigma", ",", "names no length"),
        ("target-foss", "1", "at least 0 and below 1"),
        ("target-foss", "0.5,-0.1", "at least 0 and below 1"),
        ("target-foss", "half", "must be numbers"),
        ("lambda", "2", "--lambda 2: must be at least 0 and below 1"),
        ("lambda", "1", "--lambda 1: must be at least 0 and below 1"),
        ("knn-temperature", "0", "--knn-temperature 0: must be above 0"),
        ("knn-temperature", "inf", "--knn-temperature inf: must be above 0"),
        ("methods", "lm,knn", "--methods knn: choose from lm, knnlm"),
        ("automata", "kmeans,fine", "`retomaton compile"),
        ("positions", "0", "--positions 0: at least 1"),
        ("k", "0", "--k 0: at least 1"),
        ("k", "9999999", "entries; choose 1.."),
        ("pointer-weight", "0", "must be above 0"),
        ("mode", "dead", "choose one of sweep, live"),
        ("index", "other", "index/other has not been run"),
        ("device", "cuda", "--device cpu"),
    ],
)
def test_a_setting_that_makes_no_sense(refused, flag, value, said):
    refused(said, **{flag: value})


def test_targets_without_text_to_meet_them_on(refused):
    refused("--calibrate-on", target_foss="0.5", **CONSTANTS)


def test_constants_that_nothing_tells(refused):
    refused("--calibrate-on", "--lambda", calibrate_on=None)
    refused("adaptret", "--calibrate-on", methods="adaptret", **CONSTANTS)


def test_an_automaton_that_is_not_there_names_the_commands_that_make_it(
    refused, small_store, walkable_store
):
    path = walkable_store.path
    refused(
        f"no automaton 'fine'; make it: `retomaton compile {path} --states fine`", automata="fine"
    )
    path = small_store.path
    refused(f"{path} has no automaton; make one: `retomaton compile", store=path, automata=None)
    refused("`retomaton cluster", "none", "retomaton compile", store=path, automata="none")


def test_a_store_without_an_index(eval_, walkable_store, tmp_path):
    store = walkable_store.copy(tmp_path).path
    with writing(store) as writer:
        writer.abandon("index/default")
    with Unchanged(store):
        check_refused(eval_(store=store), "index/default has not been run", "retomaton index")
    assert not (tmp_path / "out").exists()


def test_a_sigma_beyond_what_the_suffix_index_tells_apart(refused):
    said = "--sigma 9: the suffix index tells 8 tokens apart; choose 0..8, or inf"
    refused(said, sigma="0,9", methods="retomaton+suffix")


def test_no_index_and_what_searches(refused):
    refused("--methods knnlm searches", "--no-index", no_index=True)
    refused("--sigma 0,2 searches", "--no-index", no_index=True, sigma="0,2", methods="suffix")


def test_a_store_without_a_suffix_index(eval_, walkable_store, tmp_path):
    store = walkable_store.copy(tmp_path).path
    with writing(store) as writer:
        writer.abandon("suffix/default")
    with Unchanged(store):
        for methods in ("suffix", "lm,retomaton+suffix", "retomaton+suffix+lambda"):
            done = eval_(store=store, methods=methods)
            check_refused(done, "suffix/default has not been run", f"retomaton suffix {store}")
        check_refused(eval_(store=store, methods=None, no_index=True), "suffix/default")
    assert not (tmp_path / "out").exists()


def test_a_store_without_an_index_to_search_below_sigma(eval_, walkable_store, tmp_path):
    store = walkable_store.copy(tmp_path).path
    with writing(store) as writer:
        writer.abandon("index/default")
    with Unchanged(store):
        done = eval_(store=store, methods="retomaton+suffix")
        check_refused(done, "no index 'default'", f"`retomaton index {store}`", "--no-index")
    assert not (tmp_path / "out").exists()


COLUMNS = ("offsets", "values", "nexts", "states", "entries", "slots", "keys")
USED = (
    *(f"automata/kmeans/{name}.arrow" for name in COLUMNS),
    "automata/kmeans/automaton.json",
    "index/default/shard-00000.faiss",
    "suffixes/default/order.arrow",
    "corpus/tokens.arrow",
)


def test_a_store_of_which_bits_that_are_used_were_flipped(eval_, walkable_store, tmp_path):
    store = walkable_store.copy(tmp_path).path
    for name in USED:
        with flipped(store / name, 4 * (store / name).stat().st_size), Unchanged(store):
            check_refused(eval_(store=store, methods="lm,knnlm,retomaton+suffix"), name)
    assert not (tmp_path / "out").exists()


def test_codes_and_codebooks_of_which_bits_were_flipped(eval_, walkable_store, tmp_path):
    store = walkable_store.copy(tmp_path).path
    rd.compile(store, name="coded", code_size=8, workers=0, progress="none")
    for column in ("codes", "cells", "centroids", "codebooks"):
        path = store / f"automata/coded/{column}.arrow"
        with flipped(path, 4 * path.stat().st_size), Unchanged(store):
            check_refused(eval_(store=store, automata="coded"), f"coded/{column}.arrow")
    assert not (tmp_path / "out").exists()


def test_a_store_of_which_any_bit_was_flipped_if_asked_to_look(eval_, walkable_store, tmp_path):
    store = walkable_store.copy(tmp_path).path
    flip(store / "datastore.zarr/values/c/0", 4000)
    with Unchanged(store):
        said = "datastore.zarr/values/c/0", f"`retomaton verify {store}` lists them"
        check_refused(eval_(store=store, verify=True), *said)
    check_refused(eval_(verify=True, no_verify=True), "leave one out")
    assert not (tmp_path / "out").exists()


def test_nan_in_an_automaton_that_is_used_without_a_look(eval_, walkable_store, tmp_path):
    """--no-verify insists; what cannot be is an error all the same."""
    store = walkable_store.copy(tmp_path).path
    path = store / "automata/kmeans/keys.arrow"
    count = len(columns.map_columns(path, {"keys": np.float16})["keys"])
    columns.write_columns(path, {"keys": np.full(count, np.nan, np.float16)})
    check_refused(eval_(store=store, no_verify=True), "NaN or infinite: its codec is damaged")
    done = eval_(store=store, no_verify=True, **CONSTANTS)
    assert done.returncode == 2
    *warned, error = done.stderr.splitlines()
    assert "a distance is NaN: keys or codes of the automaton are damaged" in error
    assert all(line.startswith("warning: ") for line in warned)


def test_calibration_on_the_evaluated_text(refused, eval_, texts, tmp_path):
    copied = shutil.copy(texts["text"], tmp_path / "renamed.txt")
    said = "same contents", texts["text"], "--same-text"
    refused(*said, calibrate_on=copied)
    done = eval_(calibrate_on=copied, same_text=True, positions=50, calibration_positions=50)
    assert done.returncode == 0, done.stderr


def test_an_output_that_is_a_file_or_a_foreign_folder(refused, tmp_path):
    (tmp_path / "file").write_text("mine")
    refused("is a file; name a folder", out=tmp_path / "file")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("mine")
    refused("has other things in it", out=tmp_path / "thesis")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"k": 8}, "walk.k was 16, now 8"),
        ({"tau": "1,4,inf"}, "passes.sweep.walks"),
        ({"preset": "sampled"}, "walk.follow was scored, now members"),
        ({"knn-temperature": 64}, "temperatures was"),
        ({"positions": 30}, "documents.number was"),
        ({"batch-tokens": 64}, "batch_tokens was"),
    ],
)
def test_an_output_folder_from_other_settings(eval_, finished, changed, said):
    with Unchanged(finished):
        check_refused(eval_(out=finished, **CONSTANTS | changed), "other settings", said)


def test_an_output_folder_of_another_text(eval_, finished, tmp_path):
    other = write_text(tmp_path / "other.txt", 77, 20)
    with Unchanged(finished):
        refused = eval_(out=finished, text=other, **CONSTANTS)
        check_refused(refused, "another corpus: other.txt is new", "another folder with --out")


def test_no_report_of_what_is_no_evaluation(command, small_store, tmp_path):
    check_refused(command("report", tmp_path), "is no finished evaluation", "retomaton eval")
    check_refused(command("report", small_store.path), "is no finished evaluation")
    check_refused(command("report", tmp_path / "nowhere"), "is no finished evaluation")


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--knn-temperature", "3", "the text was scored for 1, 2, 4; choose one"),
        ("--lambda", "1.5", "at least 0 and below 1"),
        ("--lambda", "nan", "at least 0 and below 1"),
        ("--pointer-weight", "-1", "must be above 0"),
    ],
)
def test_no_report_with_constants_that_make_no_sense(command, finished, flag, value, said):
    with Unchanged(finished):
        check_refused(command("report", finished, f"{flag}={value}"), said)


def test_scores_that_were_damaged(command, finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "copy")
    unit = next((copy / "text/scores/sweep").iterdir())
    unit.write_bytes(unit.read_bytes()[:-20])
    check_refused(command("report", copy), unit.name, "--repair", "run its stage score again")
