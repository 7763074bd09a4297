"""Columns that are made at full size first: the same files, and no memory of that size."""

import numpy as np
import pytest

from retomaton_dist.storage import columns, preallocated
from tests.storage.conftest import run_script


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float16, np.int32, np.int64])
@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 4097])
def test_filled_in_any_order_a_column_is_the_file_that_writing_it_at_once_makes(
    tmp_path, kind, length
):
    numbers, half = (np.arange(length) % 250).astype(kind), length // 2
    preallocated.preallocate(tmp_path / "parts", {"x": (kind, length)})
    with preallocated.PartsWriter(tmp_path / "parts") as writer:
        writer.write("x", half, numbers[half:])
        writer.write("x", 0, numbers[:half])
    made = preallocated.finish(tmp_path / "parts", tmp_path, ["x"])
    assert made["x"] == columns.write_columns(tmp_path / "other.arrow", {"x": numbers})


def test_a_column_far_larger_than_memory_is_made_and_filled_on_disk_alone(tmp_path):
    # 200 GiB, more numbers than 31 bits count, in a process that can have 3 GiB. Maps of files
    # are addresses, not memory: for them the limit is lifted.
    body = """
    import resource
    import numpy as np
    from retomaton_dist.storage import preallocated
    length = 25 << 30
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, resource.RLIM_INFINITY))
    preallocated.preallocate(folder, {"x": (np.int64, length)})
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    with preallocated.PartsWriter(folder) as writer:
        writer.write("x", length - 3, np.arange(1, 4))
    path = preallocated.part(folder, "x")
    found = columns.map_columns(path, {"x": np.int64})["x"]
    print(len(found), found[-4:], path.stat().st_blocks * 512 < 1 << 20)
    """
    assert run_script(body, tmp_path) == "26843545600 [0 1 2 3] True"
