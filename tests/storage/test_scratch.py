"""Scratch arrays: full size from the start, filled in any order, mapped by whoever reads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import DamagedStore, WriteFailed
from storage.scratch import ScratchArray


@given(st.permutations(range(6)), st.integers(1, 4))
def test_runs_written_in_any_order_are_the_array(tmp_path_factory, order, width):
    whole = np.arange(12 * width, dtype=np.float16).reshape(12, width)
    array = ScratchArray(tmp_path_factory.mktemp("a") / "b" / "c", "<f2", (12, width))
    array.make()
    for run in order:
        array.write([(2 * run, whole[2 * run : 2 * run + 2])])
    np.testing.assert_array_equal(array.map(), whole)
    assert array.path.stat().st_size == array.bytes == whole.nbytes


def test_making_it_again_keeps_what_was_written(tmp_path):
    array = ScratchArray(tmp_path / "a", "<i4", (4, 2))
    array.make()
    assert not array.map().any()
    array.write([(1, np.ones((1, 2), np.int32)), (3, np.full((1, 2), 3, np.int32))])
    array.make()
    np.testing.assert_array_equal(array.map()[:, 0], [0, 1, 0, 3])


def test_a_file_that_is_missing_or_too_short_is_named(tmp_path):
    array = ScratchArray(tmp_path / "a", "<i4", (4, 2))
    with pytest.raises(DamagedStore, match=r"/a is missing or too short"):
        array.map()
    array.path.write_bytes(b"12345")
    with pytest.raises(DamagedStore, match=r"/a is missing or too short"):
        array.map()


def test_a_disk_that_refuses_is_said_in_one_line(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(WriteFailed):
        ScratchArray(tmp_path / "file" / "a", "<i4", (4, 2)).make()
