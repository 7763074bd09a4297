"""Values and pointers read through windows: the same numbers, and few maps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.storage import datastore
from retomaton_dist.storage.datastore import Datastore, Shape
from retomaton_dist.storage.windows import Windows
from tests.storage.conftest import run_script

SHAPE = Shape(5 * 2048 + 100, 1, 2048)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """A datastore of six chunks, and its pointers."""
    path, pointers = tmp_path_factory.mktemp("windows"), np.arange(SHAPE.entries) * 7
    datastore.create(path, SHAPE)
    for chunk in range(SHAPE.chunks):
        first, last = SHAPE.chunk_range(chunk)
        keys, values = np.zeros((last - first, 1), np.float16), np.zeros(last - first, np.int32)
        datastore.write_chunk(path, chunk, keys, values, pointers[first:last])
    return Datastore.open(path, SHAPE), pointers


@given(
    st.integers(1, 7), st.lists(st.integers(0, SHAPE.entries), min_size=2, max_size=2).map(sorted)
)
def test_a_slice_is_the_same_whatever_the_window(opened, chunks, bounds):
    found = Windows(opened[0], "pointers", chunks)[slice(*bounds)]
    assert np.array_equal(found, opened[1][slice(*bounds)])


@given(st.integers(1, 7), st.sets(st.integers(0, SHAPE.entries - 1), max_size=30), st.booleans())
def test_ascending_entries_are_the_same_whatever_the_window(opened, chunks, chosen, narrow):
    entries = np.array(sorted(chosen), np.uint32 if narrow else np.int64)
    found = Windows(opened[0], "pointers", chunks)[entries]
    assert np.array_equal(found, opened[1][entries])


MANY = """
    import numpy as np
    from retomaton_dist.storage import datastore
    from retomaton_dist.storage.datastore import Datastore, Shape
    from retomaton_dist.storage.windows import Windows
    shape = Shape(2048 * datastore.MOST_CHUNKS, 1, 2048)
    datastore.create(folder, shape)
    files = Datastore(folder / "datastore.zarr", shape)
    for name, kind in datastore.DTYPES.items():
        size = 2048 * np.dtype(kind).itemsize
        for chunk in range(shape.chunks):
            path = files.chunk_file(name, chunk)
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
            os.truncate(descriptor, size)
            os.close(descriptor)
    opened = [Datastore.open(folder, shape) for _ in range(2)]
    read = [(one.keys, Windows(one, "values"), Windows(one, "pointers")) for one in opened]
    for keys, values, pointers in read:
        assert not keys[:: 2048].any()
        assert not values[0 : len(values)].any()
        assert not pointers[np.arange(0, len(pointers), 2048)].any()
    maps = len(open("/proc/self/maps").readlines())
    print(maps < 2.2 * datastore.MOST_CHUNKS)
"""


@pytest.mark.slow
def test_two_datastores_of_as_many_chunks_as_there_may_be_are_read_side_by_side(tmp_path):
    assert run_script(MANY, tmp_path) == "True"
