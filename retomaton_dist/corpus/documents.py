"""Reading the documents that begin in a piece of a source, with their place."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from retomaton_dist.corpus.pieces import Piece, Split, choose_split, plan_units
from retomaton_dist.corpus.sources import Source, find_sources
from retomaton_dist.errors import CorpusError
from retomaton_dist.settings import CorpusSettings

PARQUET_ROWS = 1024
_SURROGATE = re.compile("[\\ud800-\\udfff]")


@dataclass(frozen=True)
class Text:
    """A document's text; `offset` is its first byte (.parquet: its row) in the source."""

    name: str
    offset: int
    text: str


def read_documents(source: Source, piece: Piece, split: Split) -> Iterator[Text]:
    """Yield, in order, the documents that begin in the piece, the empty ones among them."""
    if source.kind == "parquet":
        yield from _rows(source, piece, split.field)
        return
    with source.open() as file:
        if split.kind == "file":
            yield Text(source.name, 0, _decode(file.read(), source, 0))
        elif split.kind == "regex":
            yield from _sections(file, source, piece, split)
        elif source.kind == "jsonl":
            yield from _records(file, source, piece, split.field)
        else:
            yield from _text_lines(file, source, piece)


def read_texts(settings: CorpusSettings) -> list[str]:
    """Every document's text, in corpus order, without the empty ones; it must fit in memory."""
    sources = find_sources(settings.corpus)
    split = choose_split(settings.split, settings.field, sources)
    return [
        document.text
        for unit in plan_units(sources, split, unit_bytes=1 << 30)
        for piece in unit
        for document in read_documents(sources[piece.source], piece, split)
        if document.text.strip()
    ]


def _text_lines(file: BinaryIO, source: Source, piece: Piece) -> Iterator[Text]:
    for offset, line in _lines(file, piece):
        text = _decode(line, source, offset).removesuffix("\n").removesuffix("\r")
        yield Text(f"{source.name}@{offset}", offset, text)


def _sections(file: BinaryIO, source: Source, piece: Piece, split: Split) -> Iterator[Text]:
    """Documents begun by a matching line; what stands before the first one is a document too."""
    begun: tuple[str, int] | None = None
    parts: list[str] = []
    for offset, line in _lines(file, piece, beyond=True):
        text = _decode(line, source, offset)
        if offset == 0 or split.begins(text.removesuffix("\n").removesuffix("\r")):
            if begun:
                yield Text(*begun, "".join(parts))
            begun, parts = (text.strip() or source.name, offset), []
            if offset >= piece.stop:
                return
        if begun:
            parts.append(text)
        elif offset >= piece.stop:
            return
    if begun:
        yield Text(*begun, "".join(parts))


def _records(file: BinaryIO, source: Source, piece: Piece, field: str) -> Iterator[Text]:
    for offset, line in _lines(file, piece):
        if not line.strip():
            continue
        text = _decode(line, source, offset)
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CorpusError(
                f"{source.path}: no JSON in the line at byte {offset}: {error}"
            ) from error
        yield Text(f"{source.name}@{offset}", offset, _field(record, field, source, offset))


def _field(record: object, field: str, source: Source, offset: int) -> str:
    """Text of a field; null is an empty document, as a missing cell of .parquet is."""
    place = f"{source.path}: the record at byte {offset}"
    if not isinstance(record, dict):
        raise CorpusError(f"{place} is no JSON object")
    if field not in record:
        raise CorpusError(f"{place} has no field {field}; it has {', '.join(record)}: use --field")
    if record[field] is None:
        return ""
    if not isinstance(record[field], str):
        raise CorpusError(f"{place}: field {field} is no text")
    if not record[field].isascii() and _SURROGATE.search(record[field]):
        raise CorpusError(f"{place}: field {field} has half a character (a lone surrogate)")
    return str(record[field])


def _rows(source: Source, piece: Piece, column: str) -> Iterator[Text]:
    import pyarrow as pa
    from pyarrow import parquet

    with source.open() as opened, parquet.ParquetFile(opened) as file:
        _check_column(file.schema_arrow, column, source)
        row = sum(file.metadata.row_group(group).num_rows for group in range(piece.start))
        groups = list(range(piece.start, piece.stop))
        try:
            for batch in file.iter_batches(PARQUET_ROWS, groups, [column]):
                for cell in batch.column(0):
                    # A missing one is an empty document.
                    yield Text(f"{source.name}@{row}", row, cell.as_py() or "")
                    row += 1
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"{source.path}: column {column} of row {row} is not UTF-8 at its byte "
                f"{error.start}"
            ) from None
        except (OSError, pa.ArrowException) as error:
            raise CorpusError(
                f"{source.path}: damaged at row {row} or soon after: {str(error).splitlines()[0]}"
            ) from error


def _check_column(schema: Any, column: str, source: Source) -> None:
    from pyarrow import types

    if column not in schema.names:
        raise CorpusError(
            f"{source.path} has no column {column}; it has {', '.join(schema.names)}: use --field"
        )
    if schema.names.count(column) > 1:
        raise CorpusError(
            f"{source.path} has several columns {column}: rename them, or use --field"
        )
    kind = schema.field(column).type
    if not (types.is_string(kind) or types.is_large_string(kind)):
        raise CorpusError(f"{source.path}: column {column} is {kind}, not text: use --field")


def _lines(file: BinaryIO, piece: Piece, *, beyond: bool = False) -> Iterator[tuple[int, bytes]]:
    """Lines that begin in the piece, with their offsets; with `beyond`, also all after it."""
    offset = piece.start
    if offset:
        # From one byte before: skips the rest of a line, or just the newline that ended it.
        file.seek(offset - 1)
        offset += len(file.readline()) - 1
    while (beyond or offset < piece.stop) and (line := file.readline()):
        yield offset, line
        offset += len(line)


def _decode(data: bytes, source: Source, offset: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{source.path}: byte {offset + error.start} is not UTF-8; convert the file first "
            f"(iconv -f ENCODING -t utf-8)"
        ) from None
