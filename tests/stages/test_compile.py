"""The stages `codec` and `compile`: a clustering becomes the same automaton however it is run."""

import shutil

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.automaton.automaton import Automaton
from retomaton_dist.automaton.layout import arrange
from retomaton_dist.errors import BadInput, DamagedStore, NotAStore, StageMissing
from storage import states
from storage.store import Store, writing
from storage.verify import verify
from tests.conftest import TINY_DIMENSION as DIMENSION
from tests.conftest import contents

# A store is compiled anew for most of these: minutes on two cores.
pytestmark = pytest.mark.slow

STATES = 37
QUIET = {"progress": "none", "workers": 1}


def cluster_at_random(path, name="kmeans", datastore=None):
    """Leave a clustering as the stage does, without its work."""
    store = Store.open(path)
    entries = store.datastore().shape.entries
    numbers = np.random.default_rng(3).integers(0, STATES, entries).astype(np.uint32)
    numbers[numbers == 5] = 6  # a state without members
    digest = datastore or store.stage("extract").digest
    with writing(path) as writer:
        writer.begin(f"cluster/{name}", {"algorithm": "kmeans", "datastore": digest}, 1, {})
        files = states.write_states(path, name, numbers)
        sizes = np.bincount(numbers, minlength=STATES).astype(np.int64)
        files |= states.write_column(path, name, "sizes", sizes)
        writer.finish_merged(f"cluster/{name}", files, {"states": STATES, "entries": entries})
    return numbers


@pytest.fixture(scope="module")
def clustered(tmp_path_factory, small_store):
    """A store with one clustering. Alter only copies."""
    path = small_store.copy(tmp_path_factory.mktemp("compile")).path
    return path, cluster_at_random(path)


@pytest.fixture
def store(clustered, tmp_path):
    return shutil.copytree(clustered[0], tmp_path / "b.store")


@pytest.fixture(scope="module")
def compiled(clustered, tmp_path_factory):
    """The same store with an automaton of small units. Alter only copies."""
    path = shutil.copytree(clustered[0], tmp_path_factory.mktemp("compiled") / "c.store")
    rd.compile(path, unit_entries=2500, **QUIET)
    return path


def expected_columns(path, numbers):
    datastore = Store.open(path).datastore()
    return arrange(numbers, datastore.values, datastore.pointers, STATES)


def test_columns_equal_the_layout_made_in_memory(clustered, compiled):
    automaton = rd.open(compiled).automaton("kmeans")
    expected = expected_columns(compiled, clustered[1])
    for name, column in expected._asdict().items():
        found = getattr(automaton.columns, name)
        assert found.dtype == column.dtype
        assert np.array_equal(found, column), name


def test_codes_stand_for_the_keys(clustered, compiled):
    automaton = rd.open(compiled).automaton("kmeans")
    keys = Store.open(compiled).datastore().keys.astype(np.float64)
    query = np.random.default_rng(0).normal(size=(1, DIMENSION))
    every = np.arange(automaton.entries)[None]
    found = automaton.neighbours(automaton.ready(query), every).distances[0]
    exact = ((keys - query) ** 2).sum(axis=1)
    assert np.abs(found - exact).mean() < 0.05 * exact.mean()
    assert np.corrcoef(found, exact)[0, 1] > 0.99


def test_fp16_holds_the_keys_themselves(store):
    rd.compile(store, codec="fp16", name="exact", unit_entries=3000, **QUIET)
    automaton = rd.open(store).automaton("exact")
    keys = Store.open(store).datastore().keys
    assert np.array_equal(automaton.codec.codes.keys, keys[automaton.columns.entries].view("u2"))


@pytest.mark.parametrize("workers", [2, 3])
def test_bytes_do_not_depend_on_the_number_of_workers(store, compiled, workers):
    rd.compile(store, unit_entries=2500, **{**QUIET, "workers": workers})
    assert automaton_bytes(store) == automaton_bytes(compiled)


def automaton_bytes(path):
    found = contents(path / "automata") | contents(path / "codecs")
    assert {"kmeans/values.arrow", "pq32/codes.arrow"} <= set(found)
    return found


@pytest.mark.parametrize("done", [1, 5, 9])
def test_a_run_that_broke_off_goes_on_and_ends_with_the_same_bytes(
    store, compiled, monkeypatch, done
):
    from retomaton_dist.stages import compile as compiling

    run_rounds = compiling.run_rounds

    def break_off(plan, rounds, *rest):
        shortened = [[unit for unit in group if unit < done] for group in rounds]
        run_rounds(plan, shortened, *rest)
        raise KeyboardInterrupt

    monkeypatch.setattr(compiling, "run_rounds", break_off)
    with pytest.raises(KeyboardInterrupt):
        rd.compile(store, unit_entries=2500, **QUIET)
    assert Store.open(store).units("compile/kmeans") == set(range(done))
    monkeypatch.setattr(compiling, "run_rounds", run_rounds)
    rd.compile(store, unit_entries=2500, **QUIET)
    assert automaton_bytes(store) == automaton_bytes(compiled)


def test_another_run_changes_nothing_and_verify_finds_nothing(compiled):
    before = contents(compiled)
    rd.compile(compiled, unit_entries=2500, **QUIET)
    assert contents(compiled) == before
    checked = verify(Store.open(compiled))
    assert (checked.findings, checked.leftovers) == ([], [])


def test_without_clusters_every_entry_is_a_state(store):
    rd.cluster(store, algorithm="none", **QUIET)
    rd.compile(store, states="none", **QUIET)
    automaton = rd.open(store).automaton("none")
    assert automaton.states == automaton.entries
    assert automaton.members(7).tolist() == [7]


def test_pruned_keys_are_not_missed(store, command):
    refused = command("prune", store, "--keys")
    assert refused.returncode == 2
    assert "retomaton compile" in refused.stderr
    assert command("prune", store).returncode == 2
    rd.compile(store, unit_entries=2500, **QUIET)
    before = rd.open(store).automaton("kmeans").weights([1], np.ones(DIMENSION))
    assert command("prune", store, "--keys").returncode == 0
    assert not list(store.glob("datastore.zarr/keys/c/*"))
    after = rd.open(store).automaton("kmeans").weights([1], np.ones(DIMENSION))
    assert np.array_equal(before.weights, after.weights)
    assert rd.open(store).entry(3).number == 3
    rd.compile(store, name="again", **QUIET)
    checked = verify(Store.open(store))
    assert (checked.findings, checked.leftovers) == ([], [])
    with pytest.raises(StageMissing, match="keys were dropped"):
        rd.open(store).rows([1])


def test_a_clustering_that_is_not_there_or_of_another_store_is_refused(store):
    with pytest.raises(StageMissing, match="cluster/fine has not been run"):
        rd.compile(store, states="fine", **QUIET)
    cluster_at_random(store, "foreign", datastore="0" * 64)
    with pytest.raises(BadInput, match="another datastore"):
        rd.compile(store, states="foreign", **QUIET)


def test_impossible_settings_are_refused(store):
    with pytest.raises(BadInput, match="divisor of 32"):
        rd.compile(store, code_size=5, **QUIET)
    with pytest.raises(BadInput, match="--unit-entries 0"):
        rd.compile(store, unit_entries=0, **QUIET)
    with pytest.raises(BadInput, match="--name"):
        rd.compile(store, name="../x", **QUIET)


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


def test_the_command_says_what_was_made(compiled, command):
    done = command("compile", compiled, "--unit-entries", 2500, "--progress", "none")
    assert done.returncode == 0
    assert "37 states over" in done.stdout
