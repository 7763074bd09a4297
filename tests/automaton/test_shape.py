"""The shape of an automaton says what its columns are, for any number of entries."""

import numpy as np
import pytest

from retomaton_dist.automaton.layout import scatter
from retomaton_dist.codec.named import columns_of
from retomaton_dist.storage.automaton import AutomatonShape, id_type

BILLION = 10**9
LARGEST_NARROW = 2**32 - 2


def shape(entries, codec="pq"):
    sizes = {"pq": (64, 1024), "fp16": (0, 0)}[codec]
    return AutomatonShape(entries, entries // 100, 768, codec, *sizes)


@pytest.mark.parametrize("entries", [100, BILLION, LARGEST_NARROW])
def test_ids_take_four_bytes_as_long_as_they_hold_all_entries_and_none(entries):
    columns = columns_of(shape(entries))
    for name in ("offsets", "nexts", "entries", "slots"):
        assert columns[name][0] == np.uint32
    # The largest slot is entries - 1 and the end of the last state is entries: neither is -1.
    assert np.uint32(entries) != np.array(-1).astype(np.uint32)


@pytest.mark.parametrize("entries", [LARGEST_NARROW + 1, 2**32, 10**11])
def test_beyond_that_they_take_eight(entries):
    columns = columns_of(shape(entries))
    for name in ("offsets", "nexts", "entries", "slots"):
        assert columns[name][0] == np.int64
    assert columns["states"] == (np.uint32, entries)
    assert columns["values"] == (np.int32, entries)


def test_columns_are_as_long_as_what_they_hold():
    lengths = {name: length for name, (_, length) in columns_of(shape(BILLION)).items()}
    assert lengths["offsets"] == BILLION // 100 + 1
    assert lengths["codes"] == 64 * BILLION
    assert lengths["cells"] == lengths["brackets"] == lengths["slots"] == BILLION
    assert (lengths["centroids"], lengths["codebooks"]) == (1024 * 768, 256 * 768)
    assert columns_of(shape(BILLION, "fp16"))["keys"] == (np.float16, 768 * BILLION)


def test_an_entry_of_64_code_bytes_costs_at_most_96():
    columns = columns_of(shape(BILLION))
    total = sum(kind.itemsize * length for kind, length in columns.values())
    assert total / BILLION < 96


@pytest.mark.parametrize("kind", [np.uint32, np.int64])
def test_no_next_slot_is_minus_one_in_either_type(kind):
    none = int(np.array(-1).astype(kind))
    nexts = np.zeros(3, kind)
    count = scatter(np.array([12, 10, 11, 9], kind), np.array([0, none, 2, 7], kind), 10, nexts)
    assert (count, nexts.tolist()) == (3, [none, 2, 0])


def test_the_type_of_ids_changes_exactly_where_minus_one_would_be_an_entry():
    assert id_type(LARGEST_NARROW) is np.uint32
    assert id_type(LARGEST_NARROW + 1) is np.int64
