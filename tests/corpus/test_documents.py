"""However a corpus is cut into pieces and units, they hold the documents of the whole files."""

import json
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from retomaton_dist.corpus.documents import read_documents, read_texts
from retomaton_dist.corpus.pieces import LONGEST_DOCUMENT, check_length, choose_split, plan_units
from retomaton_dist.corpus.sources import Source, find_sources
from retomaton_dist.errors import CorpusError
from retomaton_dist.settings import CorpusSettings
from tests.corpus.reading import read_corpus

PATTERN = r" ?= [^=]"
PARTS = [
    "\n",
    "\n",
    "\r\n",
    "\r",
    " = é =",
    "= ",
    "=",
    " ",
    "word",
    "naïve",
    "東京",
    "🗼",
    "\u2028",
]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=25).map("".join)
CORPORA = st.lists(TEXTS, min_size=1, max_size=4).filter(any)
UNIT_BYTES = st.integers(1, 60)


@pytest.fixture(scope="session")
def new_folder(tmp_path_factory):
    return lambda: tmp_path_factory.mktemp("corpus")


def write_all(folder, contents, suffix="txt"):
    for number, content in enumerate(contents):
        (folder / f"{number}.{suffix}").write_bytes(content.encode())
    return folder


def lines_of(text):
    """(offset, line with its newline): the obvious way."""
    offset, found = 0, []
    for line in re.findall(r"[^\n]*\n|[^\n]+$", text):
        found.append((offset, line))
        offset += len(line.encode())
    return found


def bare(line):
    return line.removesuffix("\n").removesuffix("\r")


def whole_lines(text):
    return [(offset, bare(line)) for offset, line in lines_of(text)]


def whole_sections(text):
    documents = []
    for offset, line in lines_of(text):
        if not documents or re.match(PATTERN, bare(line)):
            documents.append((offset, line))
        else:
            start, body = documents.pop()
            documents.append((start, body + line))
    return documents


def whole_files(text):
    return [(0, text)]


ORACLES = {"line": whole_lines, f"regex:{PATTERN}": whole_sections, "file": whole_files}


@pytest.mark.parametrize("split", ORACLES)
@given(contents=CORPORA, unit_bytes=UNIT_BYTES)
def test_any_text_cut_anywhere_gives_the_documents_of_whole_files(
    split, contents, unit_bytes, new_folder
):
    folder = write_all(new_folder(), contents)
    expected = [
        (f"{number}.txt", *document)
        for number, content in enumerate(contents)
        for document in ORACLES[split](content)
    ]
    assert read_corpus(folder, split, unit_bytes) == expected


@given(contents=CORPORA, unit_bytes=UNIT_BYTES)
def test_a_documents_offset_leads_to_its_bytes(contents, unit_bytes, new_folder):
    folder = write_all(new_folder(), contents)
    for split in ORACLES:
        for name, offset, text in read_corpus(folder, split, unit_bytes):
            data = (folder / name).read_bytes()
            assert data[offset : offset + len(text.encode())] == text.encode()


@given(
    records=st.lists(st.tuples(TEXTS, st.booleans(), st.integers(0, 2)), min_size=1),
    unit_bytes=UNIT_BYTES,
)
def test_jsonl_records_come_in_order_at_their_offsets(records, unit_bytes, new_folder):
    """Some are written in ASCII, some with blank lines before them."""
    data, expected = "", []
    for text, ascii_only, blanks in records:
        data += "\n" * blanks
        expected.append(("0.jsonl", len(data.encode()), text))
        data += json.dumps({"n": 1, "text": text}, ensure_ascii=ascii_only) + "\n"
    folder = write_all(new_folder(), [data], "jsonl")
    assert read_corpus(folder, None, unit_bytes) == expected
    write_all(folder, [data.removesuffix("\n")], "jsonl")
    assert read_corpus(folder, "record", unit_bytes) == expected


@given(
    tables=st.lists(st.lists(st.none() | TEXTS), min_size=1, max_size=3),
    rows=st.integers(1, 5),
    large=st.booleans(),
    unit_bytes=st.integers(1, 1000),
)
def test_parquet_rows_come_in_order_with_their_numbers(tables, rows, large, unit_bytes, new_folder):
    folder = new_folder()
    kind = pa.large_string() if large else pa.string()
    for number, texts in enumerate(tables):
        table = pa.table({"n": range(len(texts)), "body": pa.array(texts, kind)})
        parquet.write_table(table, folder / f"{number}.parquet", row_group_size=rows)
    expected = [
        (f"{number}.parquet", row, text or "")
        for number, texts in enumerate(tables)
        for row, text in enumerate(texts)
    ]
    assert read_corpus(folder, None, unit_bytes, field="body") == expected


@pytest.mark.parametrize("split", ORACLES)
@given(contents=CORPORA, unit_bytes=UNIT_BYTES)
def test_pieces_tile_the_sources_and_fill_units_up_to_their_size(
    split, contents, unit_bytes, new_folder
):
    sources = find_sources([str(write_all(new_folder(), contents))])
    units = plan_units(sources, choose_split(split, "text", sources), unit_bytes)
    assert all(units)
    for number, source in enumerate(sources):
        mine = [piece for unit in units for piece in unit if piece.source == number]
        assert [i for p in mine for i in range(p.start, p.stop)] == list(range(source.bytes))
    sizes = [sum(piece.stop - piece.start for piece in unit) for unit in units]
    assert all(
        size <= unit_bytes or len(unit) == 1 for size, unit in zip(sizes, units, strict=True)
    )


def test_a_multi_byte_character_on_the_border_of_two_pieces_stays_whole(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("東京\n🗼🗼\ncafé")
    for unit_bytes in range(1, 25):
        assert [text for *_, text in read_corpus(path, "line", unit_bytes)] == [
            "東京",
            "🗼🗼",
            "café",
        ]


def test_what_stands_before_the_first_match_is_a_document_too(tmp_path):
    path = tmp_path / "wiki.txt"
    path.write_text("preamble\n = One = \nbody\n = = Section = = \n = Two = \n")
    assert [text for *_, text in read_corpus(path, r"regex: = [^=]", 8)] == [
        "preamble\n",
        " = One = \nbody\n = = Section = = \n",
        " = Two = \n",
    ]


def test_documents_are_named_by_title_or_by_source_and_place(tmp_path):
    (tmp_path / "wiki.txt").write_text(" = One = \nbody\n = Two = \n")
    [source] = find_sources([str(tmp_path)])

    def names(asked):
        split = choose_split(asked, "text", [source])
        [[piece]] = plan_units([source], split, 1000)
        return [document.name for document in read_documents(source, piece, split)]

    assert names("regex: = ") == ["= One =", "= Two ="]
    assert names("line") == ["wiki.txt@0", "wiki.txt@10", "wiki.txt@15"]
    assert names("file") == ["wiki.txt"]


def test_a_piece_in_which_no_document_begins_is_not_read_beyond_its_end(tmp_path):
    """Else a file without a match would be read once per unit; here that would hit a bad byte."""
    (tmp_path / "a.txt").write_bytes(b"long\n" * 8 + b"\xff\n")
    [source] = find_sources([str(tmp_path)])
    split = choose_split("regex:#", "text", [source])
    [_, [second], *_] = plan_units([source], split, 10)
    assert list(read_documents(source, second, split)) == []


def test_a_source_that_changed_since_the_units_were_planned_is_not_read(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    [source] = find_sources([str(tmp_path)])
    split = choose_split("line", "text", [source])
    [[piece]] = plan_units([source], split, 10)
    (tmp_path / "a.txt").write_text("one\nTWO\n")
    with pytest.raises(CorpusError, match=r"a.txt on .* is not the file that this run began with"):
        next(read_documents(source, piece, split))


def test_a_document_whose_places_do_not_fit_their_32_bits_is_refused_not_wrapped():
    """Of a whole file before it is read; of a record or section when it was."""
    large = Source("law.txt", "/law.txt", "text", LONGEST_DOCUMENT + 1, "digest", ())
    with pytest.raises(CorpusError, match=r"law.txt has 4,294,967,296 bytes.*--split line"):
        plan_units([large], choose_split("file", "text", [large]), 1 << 30)
    assert plan_units([large], choose_split("line", "text", [large]), 1 << 30)
    check_length("a", LONGEST_DOCUMENT)
    with pytest.raises(CorpusError, match="document a has"):
        check_length("a", LONGEST_DOCUMENT + 1)


def test_rows_of_parquet_that_changed_are_not_read(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"text": ["one", "two"]}), path)
    [source] = find_sources([str(path)])
    split = choose_split(None, "text", [source])
    [[piece]] = plan_units([source], split, 1000)
    parquet.write_table(pa.table({"text": ["one", "TWO"]}), path)
    with pytest.raises(CorpusError, match="not the file that this run began with"):
        list(read_documents(source, piece, split))


def test_the_documents_of_a_corpus_come_as_texts_without_the_empty_ones(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\n \ntwo\n")
    (tmp_path / "b.txt").write_text("three")
    found = read_texts(CorpusSettings(corpus=(str(tmp_path),), split="line"))
    assert found == ["one", "two", "three"]
