"""Sorting by keys of several words, in memory and in pieces of what fits in memory."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.automaton.sorting import Sorter, choose_splitters, key_order, ranges_of
from retomaton_dist.storage.exchange import Exchange

RECORD = np.dtype([("entry", np.uint32), ("key", np.uint64, (2,))])
LARGEST = 2**64 - 1

words = st.sampled_from([0, 1, 2, 3, 2**63, LARGEST])
keys = st.lists(st.tuples(words, words), min_size=1, max_size=60)


def records_of(rows):
    records = np.zeros(len(rows), RECORD)
    records["entry"], records["key"] = np.arange(len(rows)), np.array(rows, np.uint64)
    return records


def expected_order(rows):
    return sorted(range(len(rows)), key=lambda row: (rows[row], row))


@given(keys)
def test_keys_are_ordered_word_by_word_and_equal_ones_by_place(rows):
    assert key_order(np.array(rows, np.uint64)).tolist() == expected_order(rows)


@given(keys, keys, st.integers(1, 9))
def test_ranges_begin_at_splitters(rows, sample, count):
    splitters = choose_splitters(np.array(sample, np.uint64), count)
    listed = list(map(tuple, splitters.tolist()))
    assert listed == sorted(set(listed))
    assert 1 <= len(listed) <= count
    found = ranges_of(np.array(rows, np.uint64), splitters).tolist()
    assert found == [sum(splitter <= row for splitter in listed) for row in rows]


@given(keys, st.integers(1, 9), st.integers(1, 4))
def test_more_than_fits_in_memory_is_sorted_in_pieces_that_do(
    tmp_path_factory, rows, most, senders
):
    folder = tmp_path_factory.mktemp("sorted")
    records = records_of(rows)
    inbox = Exchange(folder / "inbox", RECORD, senders, 1, most)
    for sender, part in enumerate(np.array_split(records, senders)):
        pieces = (part[at : at + most] for at in range(0, len(part), most))
        inbox.send(sender, ((np.zeros(len(piece), np.int64), piece) for piece in pieces))
    sorter = Sorter(
        RECORD,
        lambda some: np.ascontiguousarray(some["key"]),
        lambda some: key_order(np.ascontiguousarray(some["key"])),
        most,
        folder / "divided",
    )
    found = list(sorter.pieces(inbox, inbox.slices(0)))
    assert max(len(order) for _, order in found) <= most
    entries = [entry for some, order in found for entry in some["entry"][order].tolist()]
    assert entries == expected_order(rows)
    assert not (folder / "divided").exists(), "what was divided is removed"
