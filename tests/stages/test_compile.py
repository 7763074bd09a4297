"""The stages `codec` and `compile`: a clustering becomes the same automaton however it is run."""

import shutil
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import retomaton_dist as rd
from retomaton_dist.automaton.automaton import Automaton
from retomaton_dist.automaton.layout import slot_order
from retomaton_dist.automaton.pieces import ranges_within, runs_within
from retomaton_dist.errors import BadInput, DamagedStore, NotAStore, StageMissing
from retomaton_dist.settings import CompileSettings
from retomaton_dist.stages.compile import CompilePlan
from retomaton_dist.storage import columns, exchange, files, records
from retomaton_dist.storage.automaton import AutomatonShape
from retomaton_dist.storage.canonical import content_hash
from retomaton_dist.storage.datastore import write_chunk
from retomaton_dist.storage.errors import ConfigMismatch
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store, writing
from retomaton_dist.storage.verify import verify
from tests.automaton.make import arrange
from tests.conftest import contents
from tests.stages.made import (
    CONFIG,
    DIMENSION,
    STATES,
    compile_here,
    make_store,
    random_states,
    write_clustering,
)

ENTRIES = 5000
SMALL = {"unit_entries": 700, "code_size": 8}
QUIET = {"progress": "none", "workers": 0}


@pytest.fixture(scope="module")
def clustered(tmp_path_factory):
    """A store with one clustering. Alter only copies."""
    path = make_store(tmp_path_factory.mktemp("clustered") / "a.store", ENTRIES)
    write_clustering(path, random_states(ENTRIES))
    return path


@pytest.fixture
def store(clustered, tmp_path):
    return shutil.copytree(clustered, tmp_path / "b.store")


@pytest.fixture(scope="module")
def compiled(clustered, tmp_path_factory):
    """The same store with an automaton of small units. Alter only copies."""
    path = shutil.copytree(clustered, tmp_path_factory.mktemp("compiled") / "c.store")
    compile_here(path, **SMALL)
    return path


def expected_columns(path, numbers):
    datastore = Store.open(path).datastore()
    return arrange(numbers, datastore.values, datastore.pointers, STATES)


def assert_columns(automaton, expected):
    for name, column in expected._asdict().items():
        found = getattr(automaton.columns, name)
        assert found.dtype == column.dtype
        assert np.array_equal(found, column), name


def test_columns_equal_the_layout_made_in_memory(compiled):
    automaton = rd.open(compiled).automaton("kmeans")
    assert_columns(automaton, expected_columns(compiled, random_states(ENTRIES)))


def test_slot_order_is_that_of_state_value_and_entry():
    random = np.random.default_rng(0)
    states, values = random.integers(0, 9, 500), random.integers(0, 9, 500).astype(np.int32)
    found = slot_order(states.astype(np.uint32), values).tolist()
    assert found == sorted(range(500), key=lambda entry: (states[entry], values[entry], entry))
    assert slot_order(states << 58, values).tolist() == found, "too wide to be packed"


@pytest.mark.parametrize("name", ["kmeans", "giant"])
def test_ranges_larger_than_memory_are_divided_once_more(store, compiled, name, monkeypatch):
    """With more entries than so many ranges of a unit hold, ranges grow; what is in memory not."""
    numbers = random_states(ENTRIES)
    if name == "giant":
        numbers = np.where(np.arange(ENTRIES) % 50 == 7, 3, 11).astype(np.uint32)
        write_clustering(store, numbers, "giant")
    monkeypatch.setattr(exchange, "MOST_DESTINATIONS", 3)
    compile_here(store, states=name, name="few", unit_entries=300, code_size=8)
    assert_columns(rd.open(store).automaton("few"), expected_columns(store, numbers))
    if name == "kmeans":
        expected = contents(compiled / "automata" / "kmeans")
        assert contents(store / "automata" / "few") == expected


def test_one_state_may_hold_nearly_all_entries(store):
    numbers = np.where(np.arange(ENTRIES) % 50 == 7, 3, 11).astype(np.uint32)
    write_clustering(store, numbers, "giant")
    compile_here(store, states="giant", **SMALL)
    automaton = rd.open(store).automaton("giant")
    assert_columns(automaton, expected_columns(store, numbers))
    compile_here(store, states="giant", name="whole", code_size=8)
    for name in ("codes", "cells", "brackets", "nexts"):
        cut = (store / "automata" / "giant" / f"{name}.arrow").read_bytes()
        assert cut == (store / "automata" / "whole" / f"{name}.arrow").read_bytes()


def test_codes_stand_for_the_keys(compiled):
    automaton = rd.open(compiled).automaton("kmeans")
    keys = Store.open(compiled).datastore().keys.astype(np.float64)
    query = np.random.default_rng(0).normal(size=(1, DIMENSION)) * 3
    every = np.arange(automaton.entries)[None]
    found = automaton.neighbours(automaton.ready(query), every).distances[0]
    exact = ((keys - query) ** 2).sum(axis=1)
    assert np.abs(found - exact).mean() < 0.1 * exact.mean()
    assert np.corrcoef(found, exact)[0, 1] > 0.97


def test_fp16_holds_the_keys_themselves(store):
    compile_here(store, codec="fp16", name="exact", unit_entries=900)
    automaton = rd.open(store).automaton("exact")
    keys = Store.open(store).datastore().keys
    assert np.array_equal(automaton.codec.codes.keys, keys[automaton.columns.entries].view("u2"))


def test_another_run_changes_nothing_and_verify_finds_nothing(compiled):
    before = contents(compiled)
    compile_here(compiled, **SMALL)
    assert contents(compiled) == before
    checked = verify(Store.open(compiled))
    assert (checked.findings, checked.leftovers) == ([], [])


@pytest.mark.parametrize(
    "name",
    [
        "codecs/pq8/codes.arrow",
        "codecs/pq8/centroids.arrow",
        "states/kmeans/state_of_entry.arrow",
        "datastore.zarr/values/c/1",
        "datastore.zarr/pointers/c/2",
    ],
)
def test_flipped_bits_in_what_is_read_are_found_before_anything_is_made_of_it(
    compiled, tmp_path, name
):
    store = shutil.copytree(compiled, tmp_path / "flipped.store")
    data = bytearray((store / name).read_bytes())
    data[len(data) // 2] ^= 1
    (store / name).write_bytes(data)
    with pytest.raises(DamagedStore, match=name):
        compile_here(store, name="again", **SMALL)
    units = Store.open(store).units("compile/again")
    assert len(units) < 4, "no entry was put in order"


def test_sizes_that_do_not_match_the_states_are_refused(store):
    numbers = random_states(ENTRIES)
    others = np.where(numbers == 0, 1, numbers)
    write_clustering(store, numbers, "wrong", sizes_of=others)
    with pytest.raises(DamagedStore, match="sizes do not match"):
        compile_here(store, states="wrong", **SMALL)


def test_a_pointer_to_another_than_the_next_entry_is_refused(store):
    with writing(store) as writer:
        shape = Store.open(store).datastore().shape
        first, last = shape.chunk_range(1)
        datastore, pointers = Store.open(store).datastore(), np.arange(first + 1, last + 1)
        pointers[7] = 3
        rows = datastore.keys[first:last], datastore.values[first:last], pointers
        written = write_chunk(store, 1, *rows)
        records.write(store, "extract", Record(1, content_hash(CONFIG), written))
        assert writer.manifest.stages["extract"].done
    with pytest.raises(DamagedStore, match=r"a pointer of .* leads elsewhere"):
        compile_here(store, **SMALL)


def test_without_clusters_every_entry_is_a_state(ray_local, store):
    rd.cluster(store, algorithm="none", **QUIET)
    compile_here(store, states="none", **SMALL)
    automaton = rd.open(store).automaton("none")
    assert automaton.states == automaton.entries
    assert automaton.members(7).tolist() == [7]
    datastore = Store.open(store).datastore()
    every = np.arange(ENTRIES)
    assert_columns(automaton, arrange(every, datastore.values, datastore.pointers, ENTRIES))


def test_pruned_keys_are_not_missed(store, command):
    refused = command("prune", store, "--keys")
    assert refused.returncode == 2
    assert "retomaton compile" in refused.stderr
    assert command("prune", store).returncode == 2
    compile_here(store, **SMALL)
    before = rd.open(store).automaton("kmeans").weights([1], np.ones(DIMENSION))
    assert command("prune", store, "--keys").returncode == 0
    assert not list(store.glob("datastore.zarr/keys/c/*"))
    after = rd.open(store).automaton("kmeans").weights([1], np.ones(DIMENSION))
    assert np.array_equal(before.weights, after.weights)
    assert rd.open(store).entry(3).number == 3
    compile_here(store, name="again", code_size=8)
    checked = verify(Store.open(store))
    assert (checked.findings, checked.leftovers) == ([], [])
    with pytest.raises(StageMissing, match="keys were dropped"):
        rd.open(store).rows([1])


def test_a_clustering_that_is_not_there_or_of_another_store_is_refused(store):
    with pytest.raises(StageMissing, match="cluster/fine has not been run"):
        compile_here(store, states="fine")
    write_clustering(store, random_states(ENTRIES), "foreign", "0" * 64)
    with pytest.raises(BadInput, match="another datastore"):
        compile_here(store, states="foreign")


def test_a_codec_made_from_other_keys_is_refused(store):
    """Extracted anew, the store still has the codec of the keys that were."""
    compile_here(store, **SMALL)
    with writing(store) as writer:
        extracted = writer.manifest.stages["extract"]
        writer._commit("extract", replace(extracted, digest="1" * 64))
    write_clustering(store, random_states(ENTRIES), "fresh", "1" * 64)
    with pytest.raises(ConfigMismatch, match=r"codec/pq8 .*datastore"):
        compile_here(store, states="fresh", **SMALL)


def test_impossible_settings_are_refused(store):
    with pytest.raises(BadInput, match="divisor of 32"):
        compile_here(store, code_size=5)
    with pytest.raises(BadInput, match="--unit-entries 0"):
        compile_here(store, unit_entries=0)
    with pytest.raises(BadInput, match="--name"):
        compile_here(store, name="../x")


def test_missing_truncated_and_foreign_automata_are_refused(compiled, tmp_path):
    folder = shutil.copytree(compiled / "automata" / "kmeans", tmp_path / "moved")
    assert Automaton.open(folder).states == STATES
    with pytest.raises(NotAStore, match="not a compiled automaton"):
        Automaton.open(tmp_path)
    data = (folder / "codes.arrow").read_bytes()
    (folder / "codes.arrow").write_bytes(data[:-100])
    with pytest.raises(DamagedStore, match=r"codes.arrow has .* bytes instead of"):
        Automaton.open(folder)
    (folder / "codes.arrow").write_bytes(data)
    (folder / "automaton.json").write_bytes(b"{}")
    with pytest.raises(DamagedStore, match=r"automaton.json is damaged"):
        Automaton.open(folder)


@pytest.mark.slow
def test_the_command_says_what_was_made(small_store, tmp_path, command):
    path = small_store.copy(tmp_path).path
    write_clustering(path, random_states(Store.open(path).datastore().shape.entries))
    done = command("compile", path, "--code-size", 4, "--progress", "none")
    assert done.returncode == 0
    assert "37 states over" in done.stdout


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(1, 12), st.integers(1, 41))
def test_states_are_cut_into_units_alike_however_their_sizes_are_read(sizes, most, block):
    counts = np.array(sizes)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    blocks = (counts[first : first + block] for first in range(0, len(counts), block))
    assert list(runs_within(blocks, most)) == [
        (first, last, offsets[last] - offsets[first], offsets[first])
        for first, last in ranges_within(offsets, most)
    ]


def test_compiling_without_clusters_holds_no_number_per_state(store):
    rd.cluster(store, algorithm="none", workers=0, progress="none")
    many = 1 << 25
    states = replace(Store.open(store).states("none"), count=many)
    shape = AutomatonShape(many, many, DIMENSION, "fp16", 0, 0)
    settings = CompileSettings(states="none", unit_entries=1 << 20)
    plan = CompilePlan(Store.open(store), settings, states, shape, None)
    tracemalloc.start()
    ordered = [unit for unit in plan.units if unit.kind == "order"]
    written = plan.write_small()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * many, "bytes"
    assert [(unit.first, unit.place, unit.entries) for unit in ordered] == [
        (first, first, 1 << 20) for first in range(0, many, 1 << 20)
    ]
    path = plan.folder / "offsets.arrow"
    assert written["offsets"] == files.digest_of(path)
    offsets = columns.map_columns(path, {"offsets": np.uint32})["offsets"]
    assert np.array_equal(offsets, np.arange(many + 1))
