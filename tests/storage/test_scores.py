"""Per-token results: what is read is what was written, and damage is told in one line."""

import gc

import numpy as np
import pytest

from retomaton_dist.storage import scores
from retomaton_dist.storage.errors import DamagedStore
from retomaton_dist.storage.files import digest_of
from retomaton_dist.storage.scores import ScoreWriter

FACTS = {"temperatures": [0.5, 1.0], "walks": ["kmeans@inf"]}


def columns(rows, seed=0):
    random = np.random.default_rng(seed)
    return {
        "document": random.integers(0, 9, rows).astype(np.int32),
        "log_lm": np.where(random.random(rows) < 0.2, -np.inf, random.random(rows)).astype("f4"),
        "searched": random.random(rows) < 0.5,
        "query": random.random((rows, 3)).astype(np.float16),
        "sums": random.random((rows, 2, 2, 2)).astype(np.float32),
    }


def write(path, *parts):
    with ScoreWriter(path, FACTS) as writer:
        for part in parts:
            writer.write(part)
    return writer.result


def assert_same(found, expected):
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected.reshape(len(expected), -1).squeeze())


def test_numbers_truths_and_rows_of_numbers_come_back_as_they_were(tmp_path):
    path, parts = tmp_path / "a.parquet", [columns(7), columns(5, 1), columns(1, 2)]
    assert write(path, *parts) == digest_of(path)
    found = scores.read_columns([path], list(parts[0]))
    for name, column in found.items():
        assert_same(column, np.concatenate([part[name] for part in parts]))


def test_files_follow_each_other_and_only_what_is_asked_for_is_read(tmp_path):
    paths = [tmp_path / "folder=1" / "a.parquet", tmp_path / "folder=1" / "b.parquet"]
    parts = [columns(4), columns(3, 1)]
    for path, part in zip(paths, parts, strict=True):
        write(path, part)
    found = scores.read_columns(paths, ["query"])
    assert list(found) == ["query"]
    assert_same(found["query"], np.concatenate([part["query"] for part in parts]))


def test_equal_contents_are_equal_bytes(tmp_path):
    assert write(tmp_path / "a.parquet", columns(9)) == write(tmp_path / "b.parquet", columns(9))


def test_the_file_tells_its_facts_and_its_columns(tmp_path):
    write(tmp_path / "a.parquet", columns(3))
    assert scores.read_facts(tmp_path / "a.parquet") == FACTS
    assert scores.column_names(tmp_path / "a.parquet") == list(columns(1))


def refused(call):
    with pytest.raises(DamagedStore, match="evaluate again") as caught:
        call()
    assert "\n" not in str(caught.value)
    assert "a.parquet" in str(caught.value)


@pytest.mark.parametrize("kept", [0, 3, -1, 0.5])
def test_a_truncated_file_is_damage(tmp_path, kept):
    path = tmp_path / "a.parquet"
    write(path, columns(50))
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data)) if isinstance(kept, float) else kept])
    refused(lambda: scores.read_columns([path], ["document"]))
    refused(lambda: scores.read_facts(path))
    refused(lambda: scores.column_names(path))


def test_a_missing_file_or_column_is_damage(tmp_path):
    path = tmp_path / "a.parquet"
    refused(lambda: scores.read_columns([path], ["document"]))
    write(path, columns(3))
    refused(lambda: scores.read_columns([path], ["document", "none@1.sums"]))


def test_a_foreign_file_is_damage(tmp_path):
    from pyarrow import parquet, table

    parquet.write_table(table({"document": [1, 2]}), tmp_path / "a.parquet")
    refused(lambda: scores.read_facts(tmp_path / "a.parquet"))


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("parts", [0, 1])
def test_nothing_is_left_when_the_block_fails_and_nothing_is_written_after_it(tmp_path, parts):
    with pytest.raises(RuntimeError, match="stop"):
        fail_after(tmp_path / "a.parquet", parts)
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def fail_after(path, parts):
    with ScoreWriter(path, FACTS) as writer:
        for seed in range(parts):
            writer.write(columns(10, seed))
        raise RuntimeError("stop")
