"""Arrays on disk that nobody keeps: filled in any order and mapped, or zeros to work on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.storage.errors import DamagedStore, WriteFailed
from retomaton_dist.storage.scratch import ScratchArray, mapped_zeros
from tests.storage.conftest import run_script


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


def test_an_array_is_zeros_even_where_a_killed_run_left_one(tmp_path):
    mapped_zeros(tmp_path / "parts", "a", np.int64, 5)[:] = 7
    assert mapped_zeros(tmp_path / "parts", "a", np.int64, 9).tolist() == [0] * 9


@pytest.mark.parametrize("length", [0, 1])
def test_arrays_of_any_length_can_be_had(tmp_path, length):
    assert mapped_zeros(tmp_path, "a", np.bool_, length).tolist() == [False] * length


def test_an_array_takes_no_memory_of_the_process(tmp_path):
    body = """
    import numpy as np
    from retomaton_dist.storage.scratch import mapped_zeros
    def own(): return int([l for l in open("/proc/self/status") if "RssAnon" in l][0].split()[1])
    before = own()
    array = mapped_zeros(folder, "a", np.int64, 1 << 24)
    array += 1
    print(int(array.sum()) == 1 << 24, own() - before < 1 << 14)
    """
    assert run_script(body, tmp_path) == "True True"


def test_a_disk_without_room_is_a_clear_refusal_and_nothing_is_left(tmp_path):
    body = """
    import resource
    import numpy as np
    from retomaton_dist.storage.scratch import mapped_zeros
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    mapped_zeros(folder, "a", np.int64, 1 << 20)
    """
    message = run_script(body, tmp_path)
    assert message.startswith(f"WriteFailed: cannot write {tmp_path / 'a.scratch'}: the file size")
    assert list(tmp_path.iterdir()) == []
