"""Every position is yielded once, with enough context; batches are full and hardly padded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.errors import BadInput
from retomaton_dist.lm.windows import batches, document_windows, resolve_windows


@st.composite
def plans(draw):
    context = draw(st.integers(2, 12))
    return draw(st.integers(0, 60)), context, draw(st.integers(1, context))


def obvious_windows(length, context, stride):
    """Slide until the end is reached; yield what no earlier window has."""
    windows, seen, start = [], 0, 0
    while seen < length:
        end = min(start + context, length)
        windows.append((start, end - start, seen - start))
        seen, start = end, start + stride
    return windows


@given(plans())
def test_windows_of_a_document_are_those_of_sliding_over_it(plan):
    length, context, stride = plan
    windows = document_windows(7, length, context, stride, 0, length)
    assert [(w.start, w.length, w.keep) for w in windows] == obvious_windows(*plan)
    assert all(w.document == 7 for w in windows)


@given(plans())
def test_every_position_is_yielded_exactly_once_and_sees_enough(plan):
    length, context, stride = plan
    windows = document_windows(0, length, context, stride, 0, length)
    yielded = [position for w in windows for position in range(w.first, w.last)]
    assert yielded == list(range(length))
    for window in windows:
        assert window.length <= context
        for position in range(window.first, window.last):
            assert position - window.start >= min(position, context - stride)


@given(plans(), st.integers(0, 60), st.integers(0, 60))
def test_a_part_of_a_document_needs_just_the_windows_that_yield_something_in_it(plan, first, last):
    length, context, stride = plan
    whole = document_windows(0, length, context, stride, 0, length)
    part = document_windows(0, length, context, stride, first, last)
    wanted = set(range(first, last))
    assert part == [w for w in whole if wanted & set(range(w.first, w.last))]


def test_a_document_that_fits_is_one_window():
    (window,) = document_windows(0, 8, 8, 4, 0, 8)
    assert (window.start, window.length, window.keep) == (0, 8, 0)


def padding_share(lengths, groups):
    """What a padded array of each group would hold in vain."""
    cells = [np.arange(max(lengths[i] for i in g)) < lengths[i] for g in groups for i in g]
    return 1 - np.concatenate(cells).mean()


lengths_of_windows = st.lists(st.integers(1, 300), max_size=80)


@given(lengths_of_windows, st.integers(1, 600))
def test_batches_hold_every_window_once_within_the_tokens_asked_for(lengths, batch_tokens):
    groups = batches(lengths, batch_tokens)
    assert sorted(i for group in groups for i in group.tolist()) == list(range(len(lengths)))
    for group in groups:
        longest = max(lengths[i] for i in group)
        assert len(group) == 1 or len(group) * longest <= batch_tokens


@given(lengths_of_windows, st.integers(1, 600))
def test_at_most_a_tenth_of_any_batch_is_padding(lengths, batch_tokens):
    for group in batches(lengths, batch_tokens):
        assert padding_share(lengths, [group]) <= 0.1 + 1e-9


def test_one_sentence_documents_fill_batches_with_little_padding():
    lengths = np.random.default_rng(0).poisson(25, 5000) + 1
    groups = batches(lengths.tolist(), 4096)
    assert padding_share(lengths.tolist(), groups) < 0.05
    assert len(groups) < 1.1 * lengths.sum() / 4096 + 10


def test_windows_of_equal_length_keep_their_order():
    assert [group.tolist() for group in batches([5, 3, 5, 3], 10)] == [[1, 3], [0, 2]]


def test_no_windows_give_no_batches():
    assert batches([], 10) == []


def test_auto_takes_the_models_context_up_to_1024_and_half_of_it_as_stride():
    assert resolve_windows(None, None, 512) == (512, 256)
    assert resolve_windows(None, None, 8192) == (1024, 512)
    assert resolve_windows(None, None, None) == (1024, 512)
    assert resolve_windows(3000, 3000, None) == (3000, 3000)


@pytest.mark.parametrize(
    ("context", "stride", "model_context", "message"),
    [
        (64, 65, 512, "--stride 65 is larger than --context 64"),
        (64, 0, 512, "stride 0 is too small"),
        (1, 1, 512, "context 1 is too small"),
        (513, 1, 512, "context 513 is larger than the model's 512"),
    ],
)
def test_windows_that_cannot_be_are_refused(context, stride, model_context, message):
    with pytest.raises(BadInput, match=message):
        resolve_windows(context, stride, model_context)
