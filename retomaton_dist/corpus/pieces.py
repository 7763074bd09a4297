"""Cutting sources into pieces and units, so that many workers can read one corpus.

A piece is a range of a source: bytes of a text or .jsonl file, row groups of .parquet. A document
belongs to the piece in which it begins, even if it ends beyond it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retomaton_dist.corpus.sources import Source
from retomaton_dist.errors import BadInput, CorpusError

REGEX = "regex:"
# Tokens know their byte in the document by 32 bits; an end token stands one behind the last.
LONGEST_DOCUMENT = (1 << 32) - 1


@dataclass(frozen=True)
class Piece:
    """Range start..stop-1 of the source with number `source`."""

    source: int
    start: int
    stop: int


@dataclass(frozen=True)
class Split:
    """How a source falls into documents: `kind` is file, line, record or regex."""

    kind: str
    pattern: str = ""
    field: str = "text"

    def begins(self, line: str) -> bool:
        """Whether a line begins a document under the kind `regex`."""
        return re.match(self.pattern, line) is not None

    def __str__(self) -> str:
        return f"{REGEX}{self.pattern}" if self.kind == "regex" else self.kind


def choose_split(split: str | None, field: str, sources: Sequence[Source]) -> Split:
    """Check what was asked for against the kinds of the sources; auto: file or record."""
    texts = [source for source in sources if source.kind == "text"]
    records = [source for source in sources if source.kind != "text"]
    if texts and records:
        raise CorpusError(
            f"the corpus mixes text ({texts[0].name}) with records ({records[0].name}); "
            f"build one store from each kind, or name the files with a glob"
        )
    if split is None:
        return Split("record" if records else "file", field=field)
    if split.startswith(REGEX):
        chosen = Split("regex", split.removeprefix(REGEX), field)
        try:
            re.compile(chosen.pattern)
        except re.error as error:
            raise BadInput(f"--split {split}: no regular expression: {error}") from error
    elif split in ("file", "line", "record"):
        chosen = Split(split, field=field)
    else:
        raise BadInput(f"--split {split}: use file, line, record or regex:PATTERN")
    if (chosen.kind == "record") != bool(records):
        what = records[0] if records else texts[0]
        right = "record" if records else "file, line or regex:PATTERN"
        raise CorpusError(f"--split {split} does not suit {what.name}; use {right}")
    return chosen


def plan_units(sources: Sequence[Source], split: Split, unit_bytes: int) -> list[list[Piece]]:
    """Group consecutive pieces into units of about `unit_bytes`, at least one."""
    if unit_bytes < 1:
        raise BadInput(f"--unit-bytes {unit_bytes}: must be above 0")
    units: list[list[Piece]] = []
    room = 0
    for piece, size in _pieces(sources, split, unit_bytes):
        if not units or room < size:
            units.append([])
            room = unit_bytes
        units[-1].append(piece)
        room -= size
    return units


def _pieces(
    sources: Sequence[Source], split: Split, unit_bytes: int
) -> Iterator[tuple[Piece, int]]:
    for number, source in enumerate(sources):
        if source.kind == "parquet":
            yield from _row_groups(number, source)
        elif split.kind == "file":
            check_length(source.name, source.bytes)
            yield Piece(number, 0, source.bytes), source.bytes
        else:
            for start in range(0, source.bytes, unit_bytes):
                stop = min(start + unit_bytes, source.bytes)
                yield Piece(number, start, stop), stop - start


def _row_groups(number: int, source: Source) -> Iterator[tuple[Piece, int]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with source.open() as file:
            metadata = parquet.read_metadata(file)
    except (OSError, pa.ArrowException) as error:
        said = " ".join(str(error).split())
        raise CorpusError(f"{source.path} is no whole Parquet file: {said}") from error
    for group in range(metadata.num_row_groups):
        yield Piece(number, group, group + 1), metadata.row_group(group).total_byte_size


def check_length(name: str, length: int) -> None:
    """Refuse a document whose tokens' places do not fit their 32 bits."""
    if length > LONGEST_DOCUMENT:
        raise CorpusError(
            f"document {name} has {length:,} bytes, and {LONGEST_DOCUMENT:,} are the most; cut it "
            f"into several with --split line or --split regex:PATTERN"
        )
