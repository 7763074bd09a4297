"""Which index is chosen, and what is said about one that cannot be."""

import re

import pytest

from retomaton_dist.errors import BadInput
from retomaton_dist.search.factory import (
    check_trainable,
    choose_factory,
    choose_sample,
    choose_shards,
    make_index,
)


@pytest.mark.parametrize(
    ("entries", "dimension", "factory"),
    [
        (10, 64, "Flat"),
        (49_999, 1024, "Flat"),
        (50_000, 64, "IVF256,SQ8"),
        (1_000_000, 256, "IVF1024,SQ8"),
        (103_000_000, 1024, "IVF16384,PQ64"),
        (100_000_000, 768, "IVF16384,PQ64"),
        (10_000_000_000, 90, "IVF65536,PQ45"),
    ],
)
def test_auto_goes_by_entries_and_width(entries, dimension, factory):
    choice = choose_factory(entries, dimension)
    assert choice.factory == factory
    assert choice.why
    make_index(choice.factory, dimension, entries)


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("Flatt", "could not parse"),
        ("IVF256,PQ7", "multiple of the number of subquantizers"),
        ("IVF16,SQ9", "could not parse code description SQ9"),
        ("", "could not parse"),
    ],
)
def test_what_faiss_rejects_is_said_in_one_line_with_an_example_that_works(factory, said):
    with pytest.raises(BadInput) as caught:
        make_index(factory, 64, 100_000)
    message = str(caught.value)
    assert said in message
    assert "\n" not in message
    assert "/project/" not in message
    example = re.search(r"; (\S+) would work", message)[1]
    check_trainable(example, make_index(example, 64, 100_000), 100_000, None)


def test_fewer_entries_than_centroids_are_refused_with_an_example_that_works():
    index = make_index("IVF4096,SQ8", 16, 1000)
    with pytest.raises(BadInput, match=r"4,096 centroids.*1,000 entries are fewer; Flat would"):
        check_trainable("IVF4096,SQ8", index, 1000, None)
    with pytest.raises(BadInput, match=r"--sample 100 are fewer"):
        check_trainable("IVF4096,SQ8", index, 1_000_000, 100)


def test_the_sample_has_enough_for_every_cell_and_is_empty_if_there_is_nothing_to_train():
    assert choose_sample(make_index("Flat", 8, 10), 10) == 0
    assert choose_sample(make_index("IVF64,Flat", 8, 10**6), 10**6) == 65_536
    assert choose_sample(make_index("PCA4,IVF4096,Flat", 8, 10**6), 10**6) == 262_144
    assert choose_sample(make_index("IVF64,Flat", 8, 10**6), 5000) == 5000


def test_shards_grow_with_bytes_and_never_outnumber_chunks():
    flat = make_index("Flat", 256, 10)
    assert choose_shards(flat, 1000, 1) == 1
    assert choose_shards(flat, 1_200_000, 40) == 2
    assert choose_shards(flat, 100_000_000, 10_000) == 96
    assert choose_shards(flat, 100_000_000, 50) == 50
