"""The stage `index`: same bytes whoever works, resumed, refused, tuned anew, found damaged."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.errors import BadInput, ConfigMismatch, DamagedStore
from retomaton_dist.storage.store import Store
from tests.cli.checks import Unchanged, check_refused
from tests.conftest import ROOT, contents
from tests.search.made import make_store

SETTINGS = {
    "factory": "IVF16,SQ8", "shards": 4, "sample": 2000, "recall_queries": 16, "recall_k": 8,
    "progress": "none",
}  # fmt: skip
FLAGS = [
    part for name, value in SETTINGS.items() for part in (f"--{name.replace('_', '-')}", str(value))
]


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A store of four chunks without an index."""
    keys = np.random.default_rng(0).standard_normal((8000, 8))
    return make_store(tmp_path_factory.mktemp("bare") / "bare.store", keys, [80] * 100)


@pytest.fixture(scope="module")
def built(bare, tmp_path_factory):
    """The same with an index in four shards."""
    path = shutil.copytree(bare, tmp_path_factory.mktemp("built") / "built.store")
    rd.index(path, workers=0, **SETTINGS)
    return path


@pytest.fixture
def copied(bare, tmp_path):
    return shutil.copytree(bare, tmp_path / "copy.store")


def index_files(store):
    return contents(store / "index") | contents(store / "stages/index")


@pytest.mark.slow
def test_bytes_do_not_depend_on_the_number_of_workers(built, copied, ray_local):
    rd.index(copied, workers=3, **SETTINGS)
    assert index_files(copied) == index_files(built)


@pytest.mark.slow
def test_a_killed_build_does_only_what_is_missing_and_ends_with_the_same_bytes(built, copied):
    command = [sys.executable, "-m", "retomaton_dist.cli", "index", copied, "--workers", "1"]
    build = subprocess.Popen([*command, *FLAGS], cwd=ROOT, start_new_session=True)
    records = copied / "stages/index/default"
    while not (records / "unit-00000.json").exists():
        assert build.poll() is None
        time.sleep(0.02)
    os.killpg(build.pid, signal.SIGKILL)
    build.wait()
    kept = {path: path.stat().st_mtime_ns for path in records.glob("unit-*.json")}
    assert len(kept) >= 2
    rd.index(copied, workers=0, **SETTINGS)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert index_files(copied) == index_files(built)


def test_a_finished_index_is_left_alone(built):
    with Unchanged(built):
        rd.index(built, workers=0, **SETTINGS)


def test_another_recall_only_tunes_anew(built, tmp_path):
    copy = shutil.copytree(built, tmp_path / "tuned.store")
    shards = contents(copy / "stages")
    before = json.loads((copy / "index/default/index.json").read_bytes())
    rd.index(copy, workers=0, target_recall=0.999, **SETTINGS)
    after = json.loads((copy / "index/default/index.json").read_bytes())
    assert contents(copy / "stages") == shards
    assert after["recall"]["recall"] > before["recall"]["recall"]
    assert after["parameters"]["nprobe"] > before["parameters"]["nprobe"]
    rd.index(copy, workers=0, **SETTINGS)
    assert contents(copy) == contents(built)


def test_other_settings_of_the_shards_are_refused_by_name(built):
    with Unchanged(built), pytest.raises(ConfigMismatch, match="factory was IVF16,SQ8, now Flat"):
        rd.index(built, **{**SETTINGS, "factory": "Flat"})


def test_inspect_tells_the_index_its_recall_and_its_parameters(built, command):
    shown = command("inspect", built).stdout
    assert "IVF16,SQ8, 4 shards, recall@8 0." in shown
    assert "nprobe=" in shown
    facts = json.loads(command("inspect", built, "--json").stdout)
    recall = facts["stages"]["index/default"]["facts"]["recall"]
    assert recall["target"] == 0.9
    assert recall["reached"]
    assert facts["bytes"]["total"] >= facts["bytes"]["index/default"] > 0


def test_auto_says_what_it_took_and_why(copied, command):
    result = command("index", copied, "--progress", "none", "--workers", "0")
    assert result.returncode == 0
    assert "Flat, 1 shard, recall@500 1.000 (8,000 entries are few enough" in result.stdout
    assert command("verify", copied, "--progress", "none").returncode == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--factory", "Foo"], "could not parse index string Foo"),
        (["--factory", "IVF16,PQ3"], "multiple of the number of subquantizers"),
        (["--factory", "IVF9999,Flat"], "9,999 centroids to train, the store's 8,000 entries"),
        (["--shards", "5"], "whole chunks, of which there are 4"),
        (["--factory", "IVF16,Flat", "--parameters", "nprob=3"], "it has nprobe"),
        (["--factory", "Flat", "--nprobe", "3"], "this index has no such parameter"),
        (["--target-recall", "1.5"], "must be above 0, at most 1"),
        (["--recall-queries", "0"], "at least 1"),
        (["--name", "../x"], "use letters"),
    ],
)
def test_bad_input_is_refused_in_one_line_and_leaves_no_trace(bare, command, flags, said):
    with Unchanged(bare):
        check_refused(command("index", bare, "--workers", "0", *flags), said)


def test_what_faiss_refuses_only_when_training_leaves_no_trace(copied):
    with Unchanged(copied), pytest.raises(BadInput, match=r"FAISS cannot train it on 100 entries"):
        rd.index(copied, factory="PQ4", sample=100, workers=0, progress="none")


def test_a_truncated_shard_is_found_at_open(built, tmp_path):
    copy = shutil.copytree(built, tmp_path / "cut.store")
    shard = copy / "index/default/shard-00002.faiss"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(DamagedStore, match=r"shard-00002.faiss has .* bytes instead of"):
        rd.open(copy).searcher()


def test_a_flipped_bit_is_found_by_verify_and_mended_by_repair(built, command, tmp_path):
    copy = shutil.copytree(built, tmp_path / "flipped.store")
    for name in ("shard-00001.faiss", "trained.faiss"):
        path = copy / "index/default" / name
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    with pytest.raises(DamagedStore, match=r"shard-00001.faiss: its contents were altered"):
        rd.open(copy).searcher(verify=True)
    found = command("verify", copy, "--repair", "--progress", "none")
    assert found.returncode == 1
    assert "shard-00001.faiss" in found.stdout
    assert "trained.faiss" in found.stdout
    rd.index(copy, workers=0, **SETTINGS)
    assert contents(copy) == contents(built)


def test_damaged_keys_stop_the_build(copied):
    chunk = copied / "datastore.zarr/keys/c/2/0"
    data = bytearray(chunk.read_bytes())
    data[100] ^= 1
    chunk.write_bytes(data)
    with pytest.raises(DamagedStore, match=r"keys/c/2/0: its contents were altered"):
        rd.index(copied, workers=0, progress="none", factory="Flat", shards=4)


def test_an_index_of_another_datastore_is_refused(built, tmp_path):
    keys = np.random.default_rng(9).standard_normal((8000, 8))
    foreign = make_store(tmp_path / "foreign.store", keys, [80] * 100)
    rd.index(foreign, workers=0, **SETTINGS)
    shutil.rmtree(foreign / "index")
    shutil.copytree(built / "index", foreign / "index")
    with pytest.raises(DamagedStore, match="another datastore"):
        rd.open(foreign).searcher()


def test_ids_in_the_shards_are_entry_numbers(built):
    from retomaton_dist.search.library import faiss

    store = Store.open(built)
    keys = store.datastore().keys
    for number in range(4):
        index = faiss.read_index(str(built / f"index/default/shard-{number:05d}.faiss"))
        faiss.ParameterSpace().set_index_parameter(index, "nprobe", 16)
        entry = 2048 * number + 7
        assert index.search(keys[entry : entry + 1].astype(np.float32), 1)[1][0, 0] == entry


@pytest.mark.parametrize("factory", ["HNSW8", "IVF16,SQ8,RFlat"])
def test_indexes_that_hold_no_entry_numbers_find_entries_all_the_same(copied, factory):
    rd.index(copied, **{**SETTINGS, "factory": factory, "shards": 2}, workers=0)
    store = rd.open(copied)
    chosen = np.array([3, 2047, 2048, 5000, 7999])
    _, entries = store.searcher().search(store.rows(chosen), 5)
    assert (entries[:, 0] == chosen).all()
    assert store.describe()["stages"]["index/default"]["facts"]["recall"]["reached"]
