"""`retomaton inspect`: what a store holds."""

import json

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.api.describe import as_text, clustering_as_text
from retomaton_dist.storage import canonical
from retomaton_dist.storage.store import Store, writing
from tests.cli.checks import Unchanged, check_refused
from tests.conftest import TINY_DIMENSION, contents

KMEANS = {"algorithm": "kmeans"}


def test_json_gives_sizes_stages_and_bytes(command, small_store, tiny_model):
    result = command("inspect", small_store.path, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    facts = json.loads(result.stdout)
    stages = Store.open(small_store.path).manifest.stages
    assert facts["entries"] == rd.open(small_store.path).entries
    assert facts["dimension"] == TINY_DIMENSION
    assert (facts["documents"], facts["skipped_documents"]) == (1800, 200)
    assert (facts["model"], facts["tokenizer"]) == (str(tiny_model), str(tiny_model))
    assert facts["writer"] is None
    assert list(facts["stages"]) == ["tokenize", "extract"]
    for name, stage in facts["stages"].items():
        assert stage["status"] == "done"
        assert stage["digest"] == stages[name].digest
        assert stage["config"] == stages[name].config
    assert facts["stages"]["extract"]["config"]["chunk_entries"] == 2048


def test_bytes_by_part_are_those_of_the_files(command, small_store):
    facts = json.loads(command("inspect", small_store.path, "--json").stdout)
    sizes = {name: len(data) for name, data in contents(small_store.path).items()}
    for part in ("corpus", "datastore.zarr"):
        found = sum(size for name, size in sizes.items() if name.startswith(f"{part}/"))
        assert facts["bytes"][part] == found
    assert facts["bytes"]["total"] == facts["bytes"]["corpus"] + facts["bytes"]["datastore.zarr"]
    entries = facts["entries"]
    assert facts["bytes"]["datastore.zarr/keys"] == 2 * TINY_DIMENSION * entries
    assert facts["bytes"]["datastore.zarr/values"] == 4 * entries
    assert facts["bytes"]["datastore.zarr/pointers"] == 8 * entries


def test_text_says_the_same_for_people(command, small_store, small_corpus, tiny_model):
    store = rd.open(small_store.path)
    text = command("inspect", small_store.path).stdout
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == str(small_store.path)
    assert f"entries {store.entries:,}" in lines
    assert f"dimension {TINY_DIMENSION}" in lines
    assert "documents 1,800 (200 empty ones skipped)" in lines
    assert any(line.startswith("corpus 1 file,") and str(small_corpus) in line for line in lines)
    assert any(line.startswith(f"model {tiny_model}") for line in lines)
    for name, stage in store.describe()["stages"].items():
        assert f"{name} done {stage['digest'][:16]}" in lines


def test_a_store_whose_build_was_interrupted_shows_how_far_it_came(command, tmp_path):
    with writing(tmp_path / "a.store") as writer:
        writer.begin("tokenize", {"split": "line"}, 7, {})
    facts = json.loads(command("inspect", tmp_path / "a.store", "--json").stdout)
    assert facts["entries"] is None
    assert facts["stages"]["tokenize"]["status"] == "running"
    assert facts["stages"]["tokenize"]["digest"] is None
    assert "tokenize running 0 of 7 units" in " ".join(
        command("inspect", tmp_path / "a.store").stdout.split()
    )


def test_it_reads_nothing_but_the_manifest(command, small_store, tmp_path):
    """So it answers at once, whatever N, even when the rest is gone."""
    folder = tmp_path / "only.store"
    folder.mkdir()
    (folder / "store.json").write_bytes((small_store.path / "store.json").read_bytes())
    facts = json.loads(command("inspect", folder, "--json").stdout)
    assert facts["entries"] == rd.open(small_store.path).entries


def test_it_changes_nothing(command, small_store):
    with Unchanged(small_store.path):
        command("inspect", small_store.path)


def newer(data):
    value = json.loads(data)
    value.pop("digest")
    return canonical.serialise({**value, "version": 99})


def foreign(_):
    return canonical.serialise({"format": "something else"})


def flipped(data):
    bits = np.frombuffer(data, np.uint8).copy()
    bits[len(bits) // 2] ^= 1
    return bits.tobytes()


DAMAGE = {
    "truncated": (lambda data: data[:-5], "does not match its own digest"),
    "empty": (lambda _: b"", "does not match its own digest"),
    "flipped": (flipped, "does not match its own digest"),
    "binary": (lambda _: b"\xff\xfe\x00", "does not match its own digest"),
    "foreign": (foreign, "is not the manifest of a retomaton-store"),
    "newer": (newer, "format version 99, this program knows 1; upgrade"),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["inspect", "extract"])
def test_a_truncated_foreign_or_newer_store_is_refused_and_left_alone(
    command, small_store, tmp_path, name, damage
):
    change, said = DAMAGE[damage]
    copied = small_store.copy(tmp_path)
    manifest = copied.path / "store.json"
    manifest.write_bytes(change(manifest.read_bytes()))
    flags = small_store.flags() if name == "extract" else []
    with Unchanged(copied.path):
        check_refused(command(name, copied.path, *flags), manifest, said)


def test_what_cannot_be_read_is_refused(command, tmp_path):
    (tmp_path / "a.store" / "store.json").mkdir(parents=True)
    check_refused(command("inspect", tmp_path / "a.store"), "cannot read", "Is a directory")
    check_refused(command("inspect", tmp_path / "none"), "no such store")
    check_refused(command("inspect", tmp_path), "is not a store: it has no store.json")
    (tmp_path / "file").write_text("x")
    check_refused(command("inspect", tmp_path / "file"), "no such store")
    check_refused(command("inspect", tmp_path / ("x" * 300)), "File name too long")


def test_stages_of_long_names_stand_in_one_column():
    done = {"status": "done", "digest": "d" * 64, "facts": {"methods": [], "positions": 7}}
    names = ("tokenize", f"calibrate/{'n' * 30}")
    facts = dict.fromkeys(("corpus", "model", "tokenizer", "documents", "entries"))
    facts |= {"path": "a.store", "dimension": None, "writer": None, "bytes": {}}
    lines = as_text({**facts, "stages": dict.fromkeys(names, done)}).splitlines()
    assert len({line.index("done  ") for line in lines if "done  " in line}) == 1


def test_a_state_is_giant_beside_the_others_not_where_there_are_few():
    facts = {
        "entries": 1000, "smallest": 0, "median": 10.0, "p99": 30.0, "largest": 30, "empty": 0,
        "several_values": 0.5, "inertia": None, "histogram": "",
        "giants": [{"state": 3, "size": 30, "share": 0.03}],
    }  # fmt: skip
    shown = {
        states: clustering_as_text("a", {"facts": {**facts, "states": states}, "config": KMEANS})
        for states in (62, 900)
    }
    assert "giant" not in shown[62]
    assert "giant      state 3 holds 30 entries, 3.0%" in shown[900]
