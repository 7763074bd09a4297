"""The stage `suffix`: the same index however it is run, and equal to one made in memory."""

import shutil

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.automaton.suffixes import Suffixes
from retomaton_dist.errors import BadInput, ConfigMismatch, DamagedStore, NotAStore, StageMissing
from retomaton_dist.storage import exchange
from retomaton_dist.storage.store import Store, writing
from retomaton_dist.storage.verify import repair, verify
from tests.automaton.suffix_oracle import SlowSuffixes, before_of
from tests.conftest import contents
from tests.stages.made import make_store, suffix_here
from tests.storage import make

ENTRIES = 5000
SMALL = {"longest": 4, "unit_entries": 700}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    """A store with a suffix index of small units. Alter only copies."""
    path = make_store(tmp_path_factory.mktemp("indexed") / "a.store", ENTRIES)
    suffix_here(path, **SMALL)
    return path


@pytest.fixture
def store(indexed, tmp_path):
    return shutil.copytree(indexed, tmp_path / "b.store")


@pytest.mark.parametrize("prefix", [make.PREFIX, None])
def test_a_corpus_that_is_only_tokenised_is_indexed(tmp_path, prefix):
    documents = [document for document in make.sample_documents(900) if len(document) > 1]
    path = tmp_path / "tokens.store"
    with writing(path) as writer:
        make.tokenize(writer, documents, prefix)
    suffix_here(path, longest=3, unit_entries=200)
    unpredicted = int(prefix is None)
    expected = Suffixes.of(before_of(documents, unpredicted), make.VOCABULARY, 3)
    found = rd.open(path).suffixes()
    entries = sum(map(len, documents)) - unpredicted * len(documents)
    assert (found.longest, found.entries) == (3, entries)
    for name, column in expected.columns._asdict().items():
        assert getattr(found.columns, name).dtype == column.dtype
        assert np.array_equal(getattr(found.columns, name), column), name


def test_look_ups_in_a_store_equal_the_oracle(indexed):
    documents = make.sample_documents(ENTRIES)
    oracle = SlowSuffixes(documents, 4)
    suffixes = rd.open(indexed).suffixes()
    rows = [[*reversed(document[:4]), -1, -1, -1][:4] for document in documents[:30]]
    found = suffixes.look_up(np.array(rows, np.int32), 50)
    for row, tokens in enumerate(rows):
        entries, length = oracle.look_up(tokens, 50)
        assert found.entries[row, : len(entries)].tolist() == entries
        assert (found.lengths[row], found.counts[row]) == (length, len(entries))


@pytest.mark.parametrize("most", [3, exchange.MOST_DESTINATIONS])
def test_ranges_larger_than_memory_are_divided_once_more(store, indexed, most, monkeypatch):
    monkeypatch.setattr(exchange, "MOST_DESTINATIONS", most)
    suffix_here(store, name="few", longest=4, unit_entries=40)
    assert contents(store / "suffixes" / "few") == contents(indexed / "suffixes" / "default")


def test_a_corpus_of_few_contexts_leaves_ranges_without_entries(tmp_path):
    documents, path = [[3] * 50, [3] * 40 + [4, 3], [5]] * 10, tmp_path / "alike.store"
    with writing(path) as writer:
        make.tokenize(writer, documents)
    suffix_here(path, longest=2, unit_entries=30)
    expected = Suffixes.of(before_of(documents), make.VOCABULARY, 2)
    found = rd.open(path).suffixes()
    for name, column in expected.columns._asdict().items():
        assert np.array_equal(getattr(found.columns, name), column), name


def test_bytes_do_not_depend_on_units(store, indexed):
    suffix_here(store, name="whole", longest=4)
    expected = contents(indexed / "suffixes" / "default")
    assert {"order.arrow", "before.arrow", "starts.arrow", "suffixes.json"} == set(expected)
    assert contents(store / "suffixes" / "whole") == expected


def test_another_run_changes_nothing_and_verify_finds_nothing(store):
    before = contents(store)
    suffix_here(store, **SMALL)
    assert contents(store) == before
    checked = verify(Store.open(store))
    assert (checked.findings, checked.leftovers) == ([], [])


def test_an_entry_takes_little_room(tmp_path):
    path = make_store(tmp_path / "large.store", 20_000, dimension=2)
    suffix_here(path)
    assert Store.open(path).stage("suffix/default").facts["bytes_per_entry"] < 12


def test_flipped_bits_of_the_corpus_are_found_before_anything_is_made_of_it(store):
    path = store / "corpus" / "tokens.arrow"
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 64
    path.write_bytes(data)
    with pytest.raises(DamagedStore, match=r"corpus/tokens.arrow"):
        suffix_here(store, name="again")
    assert not Store.open(store).units("suffix/again")


def test_a_damaged_index_is_found_and_made_anew(store):
    expected = contents(store)
    path = store / "suffixes" / "default" / "order.arrow"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    checked = verify(Store.open(store))
    assert [finding.stage for finding in checked.findings] == ["suffix/default"]
    repair(store, checked)
    suffix_here(store, **SMALL)
    assert contents(store) == expected


def test_a_missing_or_other_index_is_refused(store, tmp_path):
    with pytest.raises(StageMissing, match=r"suffix/fine has not been run; run `retomaton suffix"):
        rd.open(store).suffixes("fine")
    with pytest.raises(ConfigMismatch, match="longest was 4, now 5"):
        suffix_here(store, longest=5, unit_entries=700)
    with pytest.raises(NotAStore, match=r"not a suffix index.*`retomaton suffix STORE` makes one"):
        Suffixes.open(tmp_path)
    folder = shutil.copytree(store / "suffixes" / "default", tmp_path / "moved")
    data = (folder / "order.arrow").read_bytes()
    (folder / "order.arrow").write_bytes(data[:-100])
    with pytest.raises(DamagedStore, match=r"order.arrow has .* bytes instead of"):
        Suffixes.open(folder)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"longest": 0}, "--longest 0: must be at least 1, at most 64"),
        ({"longest": 65}, "--longest 65"),
        ({"unit_entries": 0}, "--unit-entries 0"),
        ({"name": "a/b"}, "--name a/b"),
        ({"longets": 3}, "unknown key 'longets'; the nearest known one is 'longest'"),
    ],
)
def test_impossible_settings_are_refused(store, settings, said):
    with pytest.raises(BadInput, match=said):
        suffix_here(store, **settings)


def test_a_folder_that_is_no_store_is_refused(tmp_path, command):
    refused = command("suffix", tmp_path / "none.store")
    assert refused.returncode == 2
    assert "no such store" in refused.stderr


def test_the_command_says_what_was_made_and_inspect_shows_it(small_store, tmp_path, command):
    path = small_store.copy(tmp_path).path
    done = command("suffix", path, "--name", "long", "--longest", 16, "--workers", 0)
    assert done.returncode == 0
    entries = rd.open(path).entries
    assert f"suffix/long: {entries:,} entries by up to 16 tokens before them" in done.stdout
    shown = command("inspect", path).stdout
    assert "up to 16 tokens" in shown
    assert "suffixes/long" in shown
