"""Arrays on disk that nobody keeps: zeros, mapped, and refused where there is no room."""

import numpy as np
import pytest

from storage.room import mapped_zeros
from tests.storage.conftest import run_script


def test_an_array_is_zeros_even_where_a_killed_run_left_one(tmp_path):
    mapped_zeros(tmp_path / "parts", "a", np.int64, 5)[:] = 7
    assert mapped_zeros(tmp_path / "parts", "a", np.int64, 9).tolist() == [0] * 9


@pytest.mark.parametrize("length", [0, 1])
def test_arrays_of_any_length_can_be_had(tmp_path, length):
    assert mapped_zeros(tmp_path, "a", np.bool_, length).tolist() == [False] * length


def test_an_array_takes_no_memory_of_the_process(tmp_path):
    body = """
    import numpy as np
    from storage.room import mapped_zeros
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
    from storage.room import mapped_zeros
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    mapped_zeros(folder, "a", np.int64, 1 << 20)
    """
    message = run_script(body, tmp_path)
    assert message.startswith(f"WriteFailed: cannot write {tmp_path / 'a.scratch'}: the file size")
    assert list(tmp_path.iterdir()) == []
