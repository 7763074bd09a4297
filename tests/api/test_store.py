"""`rd.open`: what a store holds, lazily, by row and by entry."""

import html

import dask.array as da
import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.errors import BadInput, NotAStore, RetomatonError, StageMissing
from retomaton_dist.storage.store import writing
from tests.conftest import CHUNK_ENTRIES, TINY_DIMENSION


@pytest.fixture(scope="module")
def store(small_store):
    return rd.open(small_store.path)


@pytest.mark.parametrize(
    ("name", "dtype", "width"),
    [("keys", np.float16, (TINY_DIMENSION,)), ("values", np.int32, ()), ("pointers", np.int64, ())],
)
def test_arrays_are_lazy_chunked_as_on_disk_and_equal_the_mapped_ones(store, name, dtype, width):
    lazy, mapped = getattr(store, name), getattr(store.store.datastore(), name)
    assert isinstance(lazy, da.Array)
    assert (lazy.shape, lazy.dtype) == ((store.entries, *width), dtype)
    assert lazy.chunksize == (CHUNK_ENTRIES, *width)
    assert lazy.numblocks[0] > 3
    np.testing.assert_array_equal(lazy.compute(), mapped)
    assert getattr(store, name) is lazy


def test_a_part_of_a_lazy_array_is_that_part(store):
    around = slice(CHUNK_ENTRIES - 3, CHUNK_ENTRIES + 3)
    expected = store.store.datastore().values[around]
    np.testing.assert_array_equal(store.values[around].compute(), expected)


def test_rows_are_the_keys_of_any_entries_in_any_order(store):
    keys = store.keys.compute()
    chosen = np.random.default_rng(0).integers(0, store.entries, 200)
    np.testing.assert_array_equal(store.rows(chosen), keys[chosen])
    np.testing.assert_array_equal(store.rows([3, 3, store.entries - 1]), keys[[3, 3, -1]])
    np.testing.assert_array_equal(store.rows(5), keys[5])
    np.testing.assert_array_equal(store.rows([[1, 2], [3, 4]]), keys[[[1, 2], [3, 4]]])
    assert store.rows([]).shape == (0, TINY_DIMENSION)


def test_rows_outside_are_refused(store):
    for wrong in ([-1], [0, store.entries], [10**18]):
        with pytest.raises(IndexError, match=r"an entry is outside 0\.\."):
            store.rows(wrong)


@pytest.mark.parametrize("wrong", [[0.5], [True, False], ["1"]])
def test_rows_are_named_by_whole_numbers(store, wrong):
    with pytest.raises(BadInput, match="entries are whole numbers"):
        store.rows(wrong)


def test_an_entry_knows_its_value_pointer_document_and_position(store):
    values, pointers = store.values.compute(), store.pointers.compute()
    for document in store.documents[17:20]:
        for position in range(document.length):
            number = document.first_entry + position
            entry = store.entry(number)
            assert (entry.number, entry.position) == (number, position)
            assert (entry.value, entry.pointer) == (values[number], pointers[number])
            assert entry.document == document
            assert entry.source == document.source


def test_places_grow_inside_a_document(store):
    document = max(store.documents[:50], key=lambda each: each.length)
    entries = range(document.first_entry, document.first_entry + document.length)
    places = [store.entry(number).place for number in entries]
    assert places[0] == 0
    assert places == sorted(set(places))


def test_entries_count_from_the_end_as_in_lists_and_may_be_of_numpy(store):
    assert store.entry(-1) == store.entry(store.entries - 1)
    assert store.entry(-store.entries) == store.entry(0)
    assert store.entry(np.int32(7)) == store.entry(7)


@pytest.mark.parametrize("beyond", [0, 1, 10**18])
def test_entries_outside_are_refused(store, beyond):
    for number in (store.entries + beyond, -store.entries - 1 - beyond):
        with pytest.raises(RetomatonError, match=f"entry {number} is outside 0.."):
            store.entry(number)


def test_a_fraction_is_no_entry(store):
    with pytest.raises(TypeError):
        store.entry(1.5)


def test_documents_are_a_sequence(store):
    documents = store.documents
    listed = list(documents)
    assert len(documents) == len(listed) == 1800
    assert [document.number for document in listed] == list(range(1800))
    assert documents[-1] == listed[-1]
    assert documents[3:9:2] == listed[3:9:2]
    assert documents[-2:] == listed[-2:]
    assert documents[5:5] == []
    assert listed[4] in documents


def test_documents_outside_are_refused_as_from_any_sequence(store):
    for number in (1800, -1801):
        with pytest.raises(IndexError, match=f"document {number} is outside 0..1799") as caught:
            store.documents[number]
        assert isinstance(caught.value, BadInput)


def test_tokens_are_those_of_all_documents(store):
    np.testing.assert_array_equal(store.tokens, store.values.compute())


def test_it_knows_its_size_and_describes_itself(store, small_store):
    facts = store.describe()
    assert store.path == small_store.path
    assert facts["entries"] == store.entries
    assert facts["dimension"] == store.dimension == TINY_DIMENSION


def test_a_store_that_is_only_begun_says_which_command_goes_on(tmp_path):
    with writing(tmp_path / "a.store") as writer:
        writer.begin("tokenize", {}, 3, {})
    begun = rd.open(tmp_path / "a.store")
    assert begun.describe()["stages"]["tokenize"]["status"] == "running"
    for ask in (lambda: begun.documents[0], lambda: len(begun.documents), lambda: begun.entries):
        with pytest.raises(StageMissing, match="run `retomaton tokenize"):
            ask()
    for ask in (lambda: begun.dimension, lambda: begun.keys, lambda: begun.rows([0])):
        with pytest.raises(StageMissing, match="run `retomaton extract"):
            ask()


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(NotAStore, match="no such store"):
        rd.open(tmp_path / "missing")
    with pytest.raises(NotAStore, match="is not a store"):
        rd.open(tmp_path)


def test_keywords_of_the_api_are_checked_before_anything_is_done(tmp_path):
    with pytest.raises(BadInput, match="unknown key 'strid'; the nearest known one is 'stride'"):
        rd.extract(tmp_path / "a.store", corpus="a", model="m", strid=3)
    with pytest.raises(BadInput, match="--corpus is needed"):
        rd.tokenize(tmp_path / "a.store", model="m")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_the_package_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = rd.nothing


def test_completion_offers_every_public_name():
    assert set(rd.__all__) <= set(dir(rd))
    assert {"Any", "TYPE_CHECKING", "importlib"}.isdisjoint(dir(rd))


def test_what_a_session_shows_of_a_store_and_its_parts_is_one_line(walkable_store):
    store = rd.open(walkable_store.path)
    with store.searcher() as searcher:
        shown = {
            repr(store): f"{store.entries:,} entries; tokenize, extract, cluster/kmeans",
            repr(store.documents): "1,800 documents of",
            repr(store.automaton("kmeans")): "50 states, keys of 32 dimensions",
            repr(store.suffixes()): "contexts of up to",
            repr(store.states()): "50 kmeans states of",
            repr(searcher): "index 'default', Flat",
        }
    for line, said in shown.items():
        assert said in line
        assert len(line) < 300
        assert "\n" not in line


def test_a_notebook_shows_what_inspect_prints(store, command):
    printed = command("inspect", store.path).stdout
    assert html.unescape(store._repr_html_()) == f"<pre>{printed.rstrip()}</pre>"
