"""Arrow columns: one batch per file, each column one buffer that is mapped and never copied."""

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from retomaton_dist.storage import columns, files
from retomaton_dist.storage.columns import ColumnBuilder
from retomaton_dist.storage.errors import DamagedStore
from tests.conftest import contents
from tests.storage.conftest import run_script

DTYPES = [f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)] + ["f2", "f4", "f8"]


def arrays(dtype, length):
    elements = {"allow_nan": False} if dtype.startswith("f") else None
    return hnp.arrays(dtype, length, elements=elements)


@st.composite
def column_sets(draw, length=None):
    """Equally long columns of any types."""
    length = draw(st.integers(0, 50)) if length is None else length
    chosen = draw(st.lists(st.sampled_from(DTYPES), min_size=1, max_size=3))
    return {f"column{n}": draw(arrays(dtype, length)) for n, dtype in enumerate(chosen)}


def dtypes_of(named):
    return {name: column.dtype for name, column in named.items()}


def assert_equal(found, expected):
    assert list(found) == list(expected)
    for name, column in expected.items():
        assert found[name].dtype == column.dtype
        np.testing.assert_array_equal(found[name], column)


@given(column_sets())
def test_columns_are_read_as_they_were_written(tmp_path_factory, named):
    path = tmp_path_factory.mktemp("columns") / "a.arrow"
    written = columns.write_columns(path, named)
    assert written == files.digest_of(path)
    assert_equal(columns.map_columns(path, dtypes_of(named)), named)
    assert pa.ipc.open_file(pa.memory_map(str(path))).num_record_batches == 1


@given(named=column_sets(length=60), cuts=st.lists(st.integers(0, 60), max_size=4))
def test_parts_appended_one_by_one_make_the_same_file(tmp_path_factory, named, cuts):
    folder = tmp_path_factory.mktemp("columns")
    builder = ColumnBuilder(folder / "new" / "built.arrow", dtypes_of(named))
    edges = [0, *sorted(cuts), 60]
    for first, last in itertools.pairwise(edges):
        builder.append({name: column[first:last] for name, column in named.items()})
    assert builder.length == 60
    assert builder.finish() == columns.write_columns(folder / "whole.arrow", named)
    assert sorted(contents(folder)) == ["new/built.arrow", "whole.arrow"]


@given(st.lists(hnp.arrays("i4", st.integers(0, 20)), max_size=4))
def test_joined_files_equal_joined_arrays(tmp_path_factory, parts):
    folder = tmp_path_factory.mktemp("columns")
    paths = [folder / f"part-{number}" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        columns.write_columns(path, {"x": part, "y": part.astype("f8")})
    columns.concatenate(folder / "whole.arrow", paths, {"x": "i4", "y": "f8"})
    whole = np.concatenate([np.empty(0, "i4"), *parts])
    found = columns.map_columns(folder / "whole.arrow", {"x": "i4", "y": "f8"})
    assert_equal(found, {"x": whole, "y": whole.astype("f8")})
    assert len(contents(folder)) == len(parts) + 1


def test_a_failed_join_leaves_nothing_behind(tmp_path):
    columns.write_columns(tmp_path / "part", {"x": np.arange(5)})
    parts = [tmp_path / "part", tmp_path / "missing"]
    with pytest.raises(DamagedStore, match="missing"):
        columns.concatenate(tmp_path / "whole.arrow", parts, {"x": "i8"})
    assert list(contents(tmp_path)) == ["part"]


@pytest.mark.parametrize("limit", [10_000, 80_200])
def test_a_full_disk_while_joining_is_a_clear_refusal_and_leaves_nothing_behind(tmp_path, limit):
    """Reached while parts are collected, or only by the Arrow file with its header."""
    columns.write_columns(tmp_path / "part", {"x": np.arange(5000)})
    message = run_script(
        f"""
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
        columns.concatenate(folder / "whole", [folder / "part"] * 2, {{"x": "i8"}})
        """,
        tmp_path,
    )
    expected = f"WriteFailed: cannot write {tmp_path / 'whole'}: the file size limit is reached"
    assert message.startswith(expected)
    assert list(contents(tmp_path)) == ["part"]


def test_a_folder_of_another_user_is_a_clear_refusal(tmp_path):
    tmp_path.chmod(0o555)
    body = 'columns.ColumnBuilder(folder / "a.arrow", {"x": "i8"})'
    message = run_script(body, tmp_path, unprivileged=True)
    assert message.startswith(f"WriteFailed: cannot write {tmp_path / 'a.arrow'}: permission")


def mapped_range(path):
    """Addresses at which this process has mapped a file."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    places = [line.split()[0].split("-") for line in lines if line.endswith(str(path))]
    return min(int(first, 16) for first, _ in places), max(int(last, 16) for _, last in places)


def test_columns_are_mapped_not_loaded_and_read_only(tmp_path):
    path = tmp_path / "a.arrow"
    columns.write_columns(path, {"x": np.arange(9000), "y": np.ones(9000, "f2")})
    for column in columns.map_columns(path, {"x": "i8", "y": "f2"}).values():
        first, last = mapped_range(path)
        assert first <= column.ctypes.data < last
        assert column.ctypes.data + column.nbytes <= last
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_only_the_columns_asked_for_are_needed_and_given(tmp_path):
    columns.write_columns(tmp_path / "a", {"x": np.arange(3), "y": np.arange(3)})
    assert list(columns.map_columns(tmp_path / "a", {"y": "i8"})) == ["y"]


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [({"x": "i4"}, "lacks column x of type int32"), ({"z": "i8"}, "lacks column z of type int64")],
)
def test_other_columns_than_expected_are_damage(tmp_path, wanted, problem):
    columns.write_columns(tmp_path / "a", {"x": np.arange(3)})
    with pytest.raises(DamagedStore, match=problem):
        columns.map_columns(tmp_path / "a", wanted)


@pytest.mark.parametrize("column", [pa.array([1, None]), pa.array(["a", "b"]), pa.array([True])])
def test_columns_that_are_no_plain_numbers_are_damage(tmp_path, column):
    columns.write_batch(tmp_path / "a", pa.RecordBatch.from_arrays([column], names=["x"]))
    with pytest.raises(DamagedStore, match="column x has nulls or is not numeric"):
        columns.map_columns(tmp_path / "a", {"x": "i8"})


def test_a_column_longer_than_its_bytes_is_damage_before_anyone_reads_it(tmp_path):
    columns.write_columns(tmp_path / "a", {"x": np.zeros(12345, "i8")})
    length, longer = (number.to_bytes(8, "little") for number in (12345, 12345000))
    whole = (tmp_path / "a").read_bytes()
    assert length in whole
    (tmp_path / "a").write_bytes(whole.replace(length, longer))
    with pytest.raises(DamagedStore, match="no whole Arrow file"):
        columns.map_columns(tmp_path / "a", {"x": "i8"})


@pytest.mark.parametrize("count", [0, 2])
def test_a_file_of_several_batches_or_none_is_damage(tmp_path, count):
    batch = pa.RecordBatch.from_arrays([pa.array([1])], names=["x"])
    with pa.OSFile(str(tmp_path / "a"), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as file:
        for _ in range(count):
            file.write_batch(batch)
    with pytest.raises(DamagedStore, match=f"holds {count} record batches instead of one"):
        columns.map_batch(tmp_path / "a")


@pytest.mark.parametrize("foreign", [b"", b"ARROW1", b"dear" * 200])
def test_a_foreign_or_missing_file_is_damage(tmp_path, foreign):
    with pytest.raises(DamagedStore, match=r"a\.arrow is missing or no whole Arrow file"):
        columns.map_batch(tmp_path / "a.arrow")
    (tmp_path / "a.arrow").write_bytes(foreign)
    with pytest.raises(DamagedStore, match=r"a\.arrow is missing or no whole Arrow file"):
        columns.map_batch(tmp_path / "a.arrow")


def test_a_file_cut_off_anywhere_is_damage(tmp_path):
    columns.write_columns(tmp_path / "whole", {"x": np.arange(9), "y": np.ones(9, "f4")})
    whole = (tmp_path / "whole").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "a").write_bytes(whole[:length])
        with pytest.raises(DamagedStore):
            columns.map_columns(tmp_path / "a", {"x": "i8", "y": "f4"})
