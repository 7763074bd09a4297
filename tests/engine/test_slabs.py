"""Blocks and slabs: every position is in exactly one, and no slab is large."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.engine.text_reader import blocks, slabs
from retomaton_dist.evaluation.score import choose_documents, group_documents

lengths = st.lists(st.integers(1, 40), min_size=1, max_size=30).map(np.array)


@given(lengths, st.integers(1, 8), st.integers(1, 100), st.data())
def test_every_position_is_walked_exactly_once_and_in_order(sizes, block_size, positions, data):
    chosen = sorted(data.draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1)))
    seen = []
    for block in blocks(chosen, sizes, block_size):
        assert len(block.documents) <= block_size
        assert (np.diff(block.lengths) <= 0).all(), "longest first"
        stop = 0
        for slab in slabs(block, positions):
            documents, places = slab.positions()
            assert slab.steps.start == stop
            stop = slab.steps.stop
            assert len(slab.steps) >= 1
            assert len(places) <= max(positions, len(block.documents))
            rows = np.concatenate([np.arange(s.row, s.row + s.last - s.first) for s in slab.spans])
            assert rows.tolist() == list(range(len(places)))
            assert slab.starts.tolist() == [span.row for span in slab.spans]
            seen += zip(documents.tolist(), places.tolist(), strict=True)
        assert stop == block.lengths[0]
    expected = [(number, place) for number in chosen for place in range(sizes[number])]
    assert sorted(seen) == expected
    for number in chosen:
        assert [place for document, place in seen if document == number] == list(
            range(sizes[number])
        )


@given(st.lists(st.integers(1, 30_000), min_size=1, max_size=60).map(np.array))
def test_units_hold_every_document_once_and_are_of_like_size(sizes):
    everything = list(range(len(sizes)))
    groups = group_documents(everything, sizes)
    assert [number for group in groups for number in group] == everything
    assert all(groups)
    for group in groups:
        assert sizes[group[:-1]].sum() < 16_384, "only its last document may make it larger"
    if len(groups) > 1:
        assert min(sizes[group].sum() for group in groups[:-1]) >= 1024


@given(lengths, st.integers(1, 400))
def test_a_share_of_the_text_is_whole_documents_and_always_the_same_ones(sizes, positions):
    chosen = choose_documents(sizes, positions)
    assert chosen == sorted(set(chosen)) == choose_documents(sizes, positions)
    total = sizes[chosen].sum()
    assert total >= min(positions, sizes.sum())
    assert total - max(sizes[chosen]) < positions
    assert choose_documents(sizes, None) == list(range(len(sizes)))
