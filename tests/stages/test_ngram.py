"""The stage `ngram`: the same model however it is run, and equal to one made in memory."""

import shutil

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.automaton import ngram_counts
from retomaton_dist.automaton.ngrams import NGrams
from retomaton_dist.errors import BadInput, ConfigMismatch, DamagedStore, NotAStore, StageMissing
from retomaton_dist.storage.store import Store, writing
from retomaton_dist.storage.verify import repair, verify
from tests.automaton.ngram_oracle import BOS, SlowNGrams
from tests.conftest import contents
from tests.stages.made import make_store, ngram_here, suffix_here
from tests.storage import make

ENTRIES = 10_000
SMALL = {"order": 4, "unit_entries": 700}


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """A store with an n-gram model of small units. Alter only copies."""
    path = make_store(tmp_path_factory.mktemp("counted") / "a.store", ENTRIES)
    suffix_here(path, longest=4)
    ngram_here(path, **SMALL)
    return path


@pytest.fixture
def store(counted, tmp_path):
    return shutil.copytree(counted, tmp_path / "b.store")


@pytest.mark.parametrize("prefix", [make.PREFIX, None])
def test_a_corpus_that_is_only_tokenised_has_the_oracles_probabilities(tmp_path, prefix):
    documents = [document for document in make.sample_documents(900) if len(document) > 1]
    path = tmp_path / "tokens.store"
    with writing(path) as writer:
        make.tokenize(writer, documents, prefix)
    suffix_here(path, longest=3)
    ngram_here(path, unit_entries=200)
    oracle = SlowNGrams(documents, make.VOCABULARY, 4, int(prefix is None))
    model = rd.open(path).ngrams()
    assert model.order == 4, "as long as the suffix index allows, and at most 5"
    for document in documents:
        recent = np.array([[*document[1::-1], -1]], np.int32)
        expected, known = oracle.p([BOS, *document[:2]])
        np.testing.assert_allclose(model.distributions(recent)[0], expected, rtol=1e-9)
        assert model.log_p(recent, np.zeros(1, np.int32))[1] == known


def test_bytes_do_not_depend_on_units_or_blocks_and_are_those_made_in_memory(
    store, counted, monkeypatch
):
    monkeypatch.setattr(ngram_counts, "BLOCK", 300)
    ngram_here(store, name="whole", order=4)
    expected = contents(counted / "ngrams" / "default")
    names = {"followers", "shared", "unigrams", "nodes", "lists"}
    assert {*(f"{name}.arrow" for name in names), "ngrams.json"} == set(expected)
    assert contents(store / "ngrams" / "whole") == expected
    opened = rd.open(store)
    made = NGrams.of(opened.suffixes(), opened.store.corpus().values(0, ENTRIES), 4)
    found = opened.ngrams()
    assert len(found.columns.nodes) > 10
    for name, column in made.columns._asdict().items():
        assert getattr(found.columns, name).dtype == column.dtype
        assert np.array_equal(getattr(found.columns, name), column), name
    assert np.array_equal(found.unigrams, made.unigrams)
    assert np.array_equal(found.counted, made.counted)


def test_another_run_changes_nothing_and_verify_finds_nothing(store):
    before = contents(store)
    ngram_here(store, **SMALL)
    assert contents(store) == before
    checked = verify(Store.open(store))
    assert (checked.findings, checked.leftovers) == ([], [])


@pytest.mark.parametrize("name", ["corpus/tokens.arrow", "suffixes/default/before.arrow"])
def test_flipped_bits_are_found_before_anything_is_made_of_them(store, name):
    path = store / name
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 64
    path.write_bytes(data)
    with pytest.raises(DamagedStore, match=name):
        ngram_here(store, name="again")
    assert not Store.open(store).units("ngram/again")
    if name.startswith("suffixes"):
        with pytest.raises(DamagedStore, match=name):
            rd.open(store).ngrams()


def test_a_damaged_model_is_refused_and_made_anew(store):
    expected = contents(store)
    path = store / "ngrams" / "default" / "lists.arrow"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedStore, match=r"lists.arrow"):
        rd.open(store).ngrams()
    checked = verify(Store.open(store))
    assert [finding.stage for finding in checked.findings] == ["ngram/default"]
    repair(store, checked)
    ngram_here(store, **SMALL)
    assert contents(store) == expected


def test_a_missing_or_other_model_is_refused(store, tmp_path):
    with pytest.raises(StageMissing, match=r"ngram/fine has not been run; run `retomaton ngram"):
        rd.open(store).ngrams("fine")
    with pytest.raises(ConfigMismatch, match="order was 4, now 5"):
        ngram_here(store, order=5, unit_entries=700)
    suffixes = rd.open(store).suffixes()
    with pytest.raises(NotAStore, match=r"not an n-gram model.*`retomaton ngram STORE` makes one"):
        NGrams.open(tmp_path, suffixes)
    folder = shutil.copytree(store / "ngrams" / "default", tmp_path / "moved")
    data = (folder / "nodes.arrow").read_bytes()
    (folder / "nodes.arrow").write_bytes(data[:-100])
    with pytest.raises(DamagedStore, match=r"nodes.arrow has .* bytes instead of"):
        NGrams.open(folder, suffixes)


def test_a_model_of_another_suffix_index_is_refused(counted, tmp_path):
    other = make_store(tmp_path / "other.store", 2000)
    suffix_here(other, longest=4)
    with pytest.raises(BadInput, match="made from another suffix index"):
        NGrams.open(counted / "ngrams" / "default", rd.open(other).suffixes())


def test_a_suffix_index_that_a_model_was_counted_over_is_not_pruned(store, command):
    refused = command("prune", store, "--suffixes", "default")
    assert (refused.returncode, "needed by ngram/default" in refused.stderr) == (2, True)
    assert command("prune", store, "--ngrams", "default").returncode == 0
    assert command("prune", store, "--suffixes", "default").returncode == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"order": 1}, "--order 1: must be at least 2, at most 65"),
        ({"order": 6}, "order 6: .* up to 4 tokens allows 2 to 5; `retomaton suffix STORE --longe"),
        ({"unit_entries": 0}, "--unit-entries 0"),
        ({"name": "a/b"}, "--name a/b"),
        ({"ordr": 3}, "unknown key 'ordr'; the nearest known one is 'order'"),
    ],
)
def test_impossible_settings_are_refused(store, settings, said):
    before = contents(store)
    with pytest.raises(BadInput, match=said):
        ngram_here(store, **settings)
    assert contents(store) == before


def test_a_store_without_the_suffix_index_is_refused(store, command):
    refused = command("ngram", store, "--suffixes", "long", "--name", "long")
    assert refused.returncode == 2
    assert "stage suffix/long has not been run; run `retomaton suffix" in refused.stderr


def test_the_command_says_what_was_made_and_inspect_shows_it(small_store, tmp_path, command):
    store = small_store.copy(tmp_path).path
    suffix_here(store)
    done = command("ngram", store, "--name", "short", "--order", 2, "--workers", 0)
    assert done.returncode == 0
    assert (
        f"ngram/short: n-grams of up to 2 tokens over {rd.open(store).entries:,} entries"
        in done.stdout
    )
    shown = command("inspect", store).stdout
    assert "n-grams of up to 2 tokens" in shown
    assert "ngrams/short" in shown
