"""Text that cannot be read, and splits that do not suit it: refused, and said why and where."""

import io

import pyarrow as pa
import pytest
from pyarrow import parquet

from retomaton_dist.corpus.pieces import choose_split
from retomaton_dist.corpus.sources import find_sources
from retomaton_dist.errors import BadInput, CorpusError
from tests.corpus.reading import read_corpus


@pytest.fixture
def refused(tmp_path):
    """Check that a file with these bytes is refused with a line that says this."""

    def check(name, data, *said, **reading):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(CorpusError) as caught:
            read_corpus(path, **reading)
        message = str(caught.value)
        assert "\n" not in message
        for words in (str(path), *said):
            assert words in message

    return check


@pytest.mark.parametrize("split", ["file", "line", "regex:#"])
@pytest.mark.parametrize("unit_bytes", [3, 1000])
def test_undecodable_bytes_are_refused_with_file_and_byte(refused, split, unit_bytes):
    data = "# é\nok\n".encode() + b"caf\xe9\nok\n"
    refused("a.txt", data, "byte 11 is not UTF-8", "iconv", split=split, unit_bytes=unit_bytes)


def test_undecodable_bytes_of_a_record_are_refused_with_file_and_byte(refused):
    refused("a.jsonl", b'{"text": "ok"}\n{"text": "\xff"}\n', "byte 25 is not UTF-8")


def test_a_line_that_is_no_json_is_refused(refused):
    refused("a.jsonl", b'{"text": "ok"}\n{"text": \n', "no JSON in the line at byte 15")
    refused("a.jsonl", b"[" * 100_000, "no JSON in the line at byte 0")


def test_a_record_that_is_no_object_is_refused(refused):
    refused("a.jsonl", b'["text"]\n', "record at byte 0 is no JSON object")


def test_a_missing_field_is_refused_with_the_fields_there_are(refused):
    data = b'{"text": "ok"}\n{"body": "x", "id": 1}\n'
    refused("a.jsonl", data, "byte 15 has no field text", "it has body, id", "--field")


@pytest.mark.parametrize("value", [b"1", b'["x"]'])
def test_a_field_that_is_no_text_is_refused(refused, value):
    refused("a.jsonl", b'{"text": %s}\n' % value, "record at byte 0: field text is no text")


def test_half_a_character_is_refused(refused):
    refused("a.jsonl", b'{"text": "\\ud83d"}\n', "record at byte 0", "lone surrogate")


def test_a_missing_column_is_refused_with_the_columns_there_are(refused, tmp_path):
    data = parquet_bytes(tmp_path, pa.table({"body": ["x"], "id": [1]}))
    refused("a.parquet", data, "has no column text", "it has body, id", "--field")


def test_a_column_that_is_no_text_is_refused(refused, tmp_path):
    data = parquet_bytes(tmp_path, pa.table({"text": [1]}))
    refused("a.parquet", data, "column text is int64, not text")


def test_a_parquet_file_that_is_cut_off_is_refused(refused, tmp_path):
    data = parquet_bytes(tmp_path, pa.table({"text": ["x"] * 100}))
    refused("a.parquet", data[:-20], "no whole Parquet file")


def test_a_damaged_page_of_parquet_is_refused(refused, tmp_path):
    data = parquet_bytes(tmp_path, pa.table({"text": [f"{i}" * 50 for i in range(99)]}))
    refused("a.parquet", data[:4] + b"\xff" * 40 + data[44:], "damaged at row 0")


def test_undecodable_text_in_parquet_is_refused_with_its_row(refused, tmp_path):
    raw = pa.array([b"ok", b"x\xff"], pa.binary())
    table = pa.table({"text": pa.Array.from_buffers(pa.string(), 2, raw.buffers())})
    data = parquet_bytes(tmp_path, table)
    refused("a.parquet", data, "column text of row 1 is not UTF-8 at its byte 1")


def parquet_bytes(folder, table):
    path = folder / "written"
    parquet.write_table(table, path)
    return path.read_bytes()


@pytest.fixture
def sources(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.jsonl").write_text("{}")
    return lambda *names: find_sources([str(tmp_path / name) for name in names])


def test_without_a_split_text_falls_into_files_and_the_rest_into_records(sources):
    assert str(choose_split(None, "text", sources("a.txt"))) == "file"
    assert str(choose_split(None, "text", sources("b.jsonl"))) == "record"


def test_text_and_records_together_are_refused_with_one_of_each(sources):
    with pytest.raises(CorpusError, match=r"mixes text \(a.txt\) with records \(b.jsonl\)"):
        choose_split(None, "text", sources("a.txt", "b.jsonl"))


@pytest.mark.parametrize(
    ("split", "name", "right"),
    [
        ("record", "a.txt", "use file, line or regex:PATTERN"),
        ("line", "b.jsonl", "use record"),
        ("file", "b.jsonl", "use record"),
        ("regex:x", "b.jsonl", "use record"),
    ],
)
def test_a_split_that_does_not_suit_is_refused_with_one_that_does(sources, split, name, right):
    with pytest.raises(CorpusError, match=f"--split {split} does not suit {name}; {right}"):
        choose_split(split, "text", sources(name))


def test_an_unknown_split_is_refused_with_the_known_ones(sources):
    with pytest.raises(BadInput, match="--split word: use file, line, record or regex:PATTERN"):
        choose_split("word", "text", sources("a.txt"))


def test_a_pattern_that_is_none_is_refused(sources):
    with pytest.raises(BadInput, match=r"--split regex:\(: no regular expression"):
        choose_split("regex:(", "text", sources("a.txt"))


def test_units_without_a_byte_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(BadInput, match="--unit-bytes 0"):
        read_corpus(tmp_path, unit_bytes=0)


def test_two_columns_of_the_same_name(refused):
    columns = pa.table([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    data = io.BytesIO()
    parquet.write_table(columns, data)
    refused("a.parquet", data.getvalue(), "has several columns text")
