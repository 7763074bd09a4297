"""An index made in parts: the same bytes whoever makes them, and after any loss of them."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.errors import DamagedStore
from retomaton_dist.runtime.session import Session
from retomaton_dist.search.factory import UNDIVIDED
from retomaton_dist.search.layout import Layout
from retomaton_dist.search.library import faiss
from retomaton_dist.settings import IndexSettings, WorkerSettings
from retomaton_dist.stages.index import plan_index
from retomaton_dist.stages.runner import run_stage
from retomaton_dist.storage import canonical, records
from retomaton_dist.storage.store import Store, writing
from retomaton_dist.storage.verify import repair, verify
from tests.cli.checks import Unchanged
from tests.conftest import contents
from tests.search.made import make_store, many_ties
from tests.stages.killing import Running

ENTRIES, CHUNK = 8000, 2048
# Two shards of two blocks, and two groups of books.
SETTINGS = {
    "factory": "IVF16,PQ8x4", "shards": 2, "sample": 2000, "recall_queries": 16, "recall_k": 8,
    "unit_entries": CHUNK, "progress": "none",
}  # fmt: skip
FLAGS = [
    part for name, value in SETTINGS.items() for part in (f"--{name.replace('_', '-')}", str(value))
]
SHARDS, TRAINING, RESIDUALS, BOOKS, BLOCKS = {0, 1}, {2}, {3}, {4, 5}, {6, 7, 8, 9}


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    keys = np.random.default_rng(0).standard_normal((ENTRIES, 16))
    path = make_store(tmp_path_factory.mktemp("bare") / "bare.store", keys, [80] * 100)
    shutil.rmtree(path / "corpus/parts")
    return path


@pytest.fixture(scope="module")
def built(bare, tmp_path_factory):
    """Made in this process, without Ray."""
    path = shutil.copytree(bare, tmp_path_factory.mktemp("built") / "built.store")
    rd.index(path, workers=0, **SETTINGS)
    return path


@pytest.fixture
def copied(bare, tmp_path):
    return shutil.copytree(bare, tmp_path / "copy.store")


@pytest.fixture
def finished(built, tmp_path):
    return shutil.copytree(built, tmp_path / "finished.store")


def record_times(store):
    folder = records.folder(store, "index/default")
    return {int(path.stem[5:]): path.stat().st_mtime_ns for path in folder.glob("unit-*.json")}


def test_the_parts_are_gone_when_the_index_is_done_and_nothing_else_is_left(built):
    checked = verify(Store.open(built))
    assert (checked.findings, checked.leftovers) == ([], [])
    assert not (built / "index/default/parts").exists()


def test_the_size_of_units_changes_no_file_of_the_index(built, copied):
    rd.index(copied, workers=0, **{**SETTINGS, "unit_entries": ENTRIES})
    assert contents(copied / "index") == contents(built / "index")


def test_a_shard_is_what_faiss_makes_of_the_trained_index_and_its_entries(built):
    keys = Store.open(built).datastore().keys
    for shard, (first, last) in enumerate([(0, 2 * CHUNK), (2 * CHUNK, ENTRIES)]):
        index = faiss.read_index(str(built / "index/default/trained.faiss"))
        for start in range(first, last, CHUNK):
            numbers = np.arange(start, min(start + CHUNK, last))
            index.add_with_ids(keys[numbers].astype(np.float32), numbers)
        path = built / f"index/default/shard-{shard:05d}.faiss"
        assert path.read_bytes() == faiss.serialize_index(index).tobytes()


def test_a_store_that_was_moved_is_searched_from_its_new_place(finished, tmp_path):
    queries = rd.open(finished).rows(range(0, ENTRIES, 500))
    with rd.open(finished).searcher() as searcher:
        expected = searcher.search(queries, 5)
    moved = shutil.move(finished, tmp_path / "elsewhere.store")
    with rd.open(moved).searcher() as searcher:
        found = searcher.search(queries, 5)
    assert all(map(np.array_equal, found, expected))


def test_a_damaged_shard_is_made_anew_from_its_own_blocks_alone(built, finished):
    (finished / "index/default/shard-00001.faiss").write_bytes(b"damage")
    repair(finished, verify(Store.open(finished)))
    before = record_times(finished)
    rd.index(finished, workers=0, **SETTINGS)
    after = record_times(finished)
    redone = {unit for unit in after if after[unit] != before.get(unit)}
    assert redone == {1, 8, 9}
    assert contents(finished) == contents(built)


def test_a_damaged_codebook_is_trained_anew_to_the_same_bytes(built, finished):
    (finished / "index/default/trained.faiss").write_bytes(b"damage")
    repair(finished, verify(Store.open(finished)))
    before = record_times(finished)
    rd.index(finished, workers=0, **SETTINGS)
    after = record_times(finished)
    redone = {unit for unit in after if after[unit] != before.get(unit)}
    assert redone == TRAINING | RESIDUALS | BOOKS
    assert contents(finished) == contents(built)


@pytest.mark.parametrize("unit", sorted(RESIDUALS | BOOKS | BLOCKS))
def test_a_damaged_record_of_a_part_is_written_anew(built, finished, unit):
    path = records.folder(finished, "index/default") / f"unit-{unit:05d}.json"
    path.write_bytes(path.read_bytes()[:-20])
    repair(finished, verify(Store.open(finished)))
    rd.index(finished, workers=0, **SETTINGS)
    assert contents(finished) == contents(built)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_actors_and_then_the_driver_are_killed_while_blocks_are_filled_and_merged(built, copied):
    done = 7
    running = Running.start("index", copied, [*FLAGS, "--workers", "2"])
    running.wait_for_units("index/default", done - 2)
    running.kill_actors()
    running.wait_for_units("index/default", done)
    running.kill(with_actors=True)
    rd.index(copied, workers=0, **SETTINGS)
    assert contents(copied) == contents(built)


def test_fewer_different_keys_than_cells_make_fewer_cells(tmp_path):
    store = make_store(tmp_path / "ties.store", many_ties(3000, 3), [30] * 100)
    rd.index(
        store, workers=0, factory="IVF64,SQ8", sample=3000, recall_queries=8, recall_k=8,
        progress="none",
    )  # fmt: skip
    # Three numbers of three values each.
    assert 0 < Layout.read(store, "default").cells <= 27
    opened = rd.open(store)
    distances, _ = opened.searcher().search(opened.rows(range(0, 3000, 100)), 20)
    assert distances.max() < 0.01


def test_an_index_that_one_worker_trains_says_so_everywhere(copied, command):
    flags = [*FLAGS, "--factory", "OPQ4,IVF16,PQ4x4", "--workers", "0"]
    ended = command("index", copied, *flags)
    assert ended.returncode == 0
    assert "note: OPQ4,IVF16,PQ4x4 is trained by one worker" in ended.stderr
    assert "trained by one worker" in ended.stdout
    assert "trained by one worker" in command("inspect", copied).stdout
    assert Layout.read(copied, "default").trained == "whole"


def test_one_that_all_workers_train_does_not(built, command):
    assert "one worker" not in command("inspect", built).stdout
    assert Layout.read(built, "default").trained == "in parts"


def test_an_index_that_was_begun_undivided_is_left_so_and_tuned(copied):
    settings = {name: value for name, value in SETTINGS.items() if name != "progress"}
    store = Store.open(copied)
    plan = plan_index(store, IndexSettings(**settings), 1)
    undivided = replace(plan, recipe=replace(plan.recipe, division=UNDIVIDED))
    with Session(WorkerSettings(workers=0, progress="none")) as session, writing(copied) as writer:
        run_stage(writer, undivided, session)
    with Unchanged(copied):
        rd.index(copied, workers=0, **SETTINGS)
    stages = contents(copied / "stages")
    rd.index(copied, workers=0, target_recall=0.2, **SETTINGS)
    assert contents(copied / "stages") == stages


def test_what_an_earlier_version_said_of_an_index_is_read_and_what_a_later_one_says_refused(
    finished,
):
    path = finished / "index/default/index.json"
    said = json.loads(path.read_bytes())
    told = Layout.read(finished, "default")
    earlier = {name: said[name] for name in said if name not in ("trained", "digest")}
    canonical.write(path, {**earlier, "version": 1})
    assert Layout.read(finished, "default") == replace(told, trained="whole")
    canonical.write(path, {**earlier, "version": 3})
    with pytest.raises(DamagedStore, match="another or newer program; upgrade"):
        Layout.read(finished, "default")
