"""`retomaton prune`: parts go by name, never what others need, and what is left is sound."""

import pytest

from retomaton_dist.storage import lock
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.store import Store, writing
from retomaton_dist.storage.verify import verify
from tests.cli.checks import Unchanged, check_refused
from tests.stages.made import compile_here, make_store, random_states, write_clustering

ENTRIES = 3000
KINDS = ("evaluation", "calibration", "automaton", "states", "index", "ngrams", "suffixes")


@pytest.fixture
def store(tmp_path):
    """A store with a clustering and an automaton of pq codes."""
    path = make_store(tmp_path / "a.store", ENTRIES)
    write_clustering(path, random_states(ENTRIES))
    compile_here(path, unit_entries=700, code_size=8)
    return path


def check_sound(store, *stages):
    opened = Store.open(store)
    checked = verify(opened)
    assert (checked.findings, checked.leftovers) == ([], [])
    assert [*opened.manifest.stages] == [*stages]


def test_what_others_need_stays_and_goes_after_them(store, command):
    with Unchanged(store):
        refused = command("prune", store, "--states", "kmeans")
        check_refused(refused, "states 'kmeans' is needed by compile/kmeans; prune that first")
    both = command("prune", store, "--states", "kmeans", "--automaton", "kmeans")
    assert both.returncode == 0
    assert [line.split(":")[0] for line in both.stdout.splitlines()] == [
        "automaton 'kmeans' deleted",
        "states 'kmeans' deleted",
    ]
    check_sound(store, "tokenize", "extract")


def test_whatever_is_made_from_others_goes_before_them(tmp_path, command):
    store, digest = tmp_path / "a.store", {}
    with writing(store) as writer:
        for name in ("index/default", "cluster/greedy"):
            writer.begin(name, {"made from": digest}, 0, {})
            files = {name: FileDigest("made up", 1)}
            digest = writer.finish(name, files, {"states": 1, "entries": 1}).digest
    both = command("prune", store, "--index", "default", "--states", "greedy")
    assert both.stdout.splitlines()[0].startswith("states 'greedy' deleted")
    assert both.returncode == 0


def test_a_codec_goes_with_the_last_automaton_that_has_it(store, command):
    compile_here(store, unit_entries=700, code_size=8, name="again")
    stages = ("tokenize", "extract", "cluster/kmeans")
    assert command("prune", store, "--automaton", "kmeans").returncode == 0
    check_sound(store, *stages, "codec/pq8", "compile/again")
    assert command("prune", store, "--automaton", "again").returncode == 0
    check_sound(store, *stages)


def test_a_codec_that_could_not_be_made_again_stays(store, command):
    assert command("prune", store, "--keys").returncode == 0
    assert command("prune", store, "--automaton", "kmeans").returncode == 0
    assert "codec/pq8" in Store.open(store).manifest.stages
    compile_here(store, unit_entries=700, code_size=8)


def test_a_stage_that_was_begun_and_never_finished_is_forgotten(tmp_path, command):
    store = tmp_path / "a.store"
    with writing(store) as writer:
        writer.begin("tokenize", {}, 1, {})
        writer.begin("index/default", {"factory": "Flat"}, 2, {})
    assert "running  0 of 2 units" in command("inspect", store).stdout
    assert command("prune", store, "--index", "default").returncode == 0
    assert "index/default" not in command("inspect", store).stdout


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["..", ".", "", "../states", "/tmp", "kmeans/", "nonesuch"])
def test_only_the_name_of_a_part_can_be_pruned(tmp_path, command, kind, name):
    with writing(tmp_path / "a.store") as writer:
        writer.begin("tokenize", {}, 1, {})
    with Unchanged(tmp_path):
        refused = command("prune", tmp_path / "a.store", f"--{kind}", name)
        check_refused(refused, f"has no {kind} {name!r}; there is none")


def test_an_evaluation_goes_with_all_its_files_unless_it_is_running(tmp_path, command):
    store, out = tmp_path / "a.store", tmp_path / "a.store/evaluations/law-sweep"
    with writing(store) as writer:
        writer.begin("tokenize", {}, 1, {})
    with writing(out / "text") as writer:
        writer.begin("tokenize", {}, 1, {})
    (out / "results.json").write_text("{}")
    (out.parent / "other").mkdir()
    with lock.exclusive(out / "text"), Unchanged(out):
        check_refused(command("prune", store, "--evaluation", out.name), "being written")
    assert "deleted" in command("prune", store, "--evaluation", out.name).stdout
    assert [path.name for path in out.parent.iterdir()] == ["other"]
