"""Many chunk files mapped side by side as one array."""

import mmap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.storage.errors import StoreError
from retomaton_dist.storage.rows import map_rows

PAGE_ROWS = mmap.PAGESIZE // 8


def write_chunks(folder, count, columns, dtype="<i8"):
    """So many chunk files of a page per column, and the array that they are together."""
    whole = np.arange(count * PAGE_ROWS * columns).astype(dtype).reshape(-1, columns)
    paths = [folder / str(number) for number in range(count)]
    for path, chunk in zip(paths, np.split(whole, count), strict=True):
        path.write_bytes(chunk.tobytes())
    return paths, whole


@given(count=st.integers(1, 5), columns=st.integers(1, 3), data=st.data())
def test_rows_come_from_the_right_file_and_place(tmp_path_factory, count, columns, data):
    paths, whole = write_chunks(tmp_path_factory.mktemp("rows"), count, columns)
    length = data.draw(st.integers((count - 1) * PAGE_ROWS + 1, len(whole)))
    shape = (PAGE_ROWS, columns)
    rows = map_rows(paths, np.dtype("<i8"), shape, (length, columns))
    chosen = np.array(data.draw(st.lists(st.integers(0, length - 1), max_size=20)), np.int64)
    np.testing.assert_array_equal(rows[chosen], whole[chosen])
    np.testing.assert_array_equal(rows, whole[:length])


def test_a_mapped_array_can_never_be_made_writable(tmp_path):
    paths, whole = write_chunks(tmp_path, 2, 1)
    rows = map_rows(paths, whole.dtype, (PAGE_ROWS,), (2 * PAGE_ROWS,))
    with pytest.raises(ValueError, match="read-only"):
        rows[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        rows.flags.writeable = True


def test_rows_stay_readable_when_their_files_are_replaced_or_removed(tmp_path):
    paths, whole = write_chunks(tmp_path, 2, 1)
    rows = map_rows(paths, whole.dtype, (PAGE_ROWS,), (2 * PAGE_ROWS,))
    (tmp_path / "new").write_bytes(bytes(paths[0].stat().st_size))
    (tmp_path / "new").replace(paths[0])
    paths[1].unlink()
    np.testing.assert_array_equal(rows, whole[:, 0])


def test_a_slice_keeps_the_map_and_the_last_one_gives_it_back(tmp_path):
    paths, whole = write_chunks(tmp_path, 3, 1)
    rows = map_rows(paths, whole.dtype, (PAGE_ROWS,), (3 * PAGE_ROWS,))
    part = rows[PAGE_ROWS:]
    del rows
    np.testing.assert_array_equal(part, whole[PAGE_ROWS:, 0])
    del part
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


def test_chunks_that_do_not_fill_whole_pages_are_refused_with_advice(tmp_path):
    with pytest.raises(StoreError, match="larger --chunk-entries"):
        map_rows([tmp_path / "0"], np.dtype("<i8"), (PAGE_ROWS + 1,), (1,))


def test_a_file_that_cannot_be_mapped_is_a_clear_error(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match=r"cannot map .*folder"):
        map_rows([tmp_path / "folder"], np.dtype("<i8"), (PAGE_ROWS,), (PAGE_ROWS,))
