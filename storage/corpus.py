"""The tokenised corpus: tokens, and documents with their place in the source.

`corpus/tokens.arrow` holds every token that is read (a document's tokens, then its end token if
there is one) with its byte offset inside the document. `corpus/documents.arrow` holds a row per
document. A document of T tokens has T entries if the model reads a prefix (BOS) first, and T - 1
if it does not: then its first token is only read, never predicted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from retomaton_dist.storage import columns
from retomaton_dist.storage.errors import DamagedStore
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.pickling import PicklesFieldsOnly

FOLDER = "corpus"
TOKENS = f"{FOLDER}/tokens.arrow"
DOCUMENTS = f"{FOLDER}/documents.arrow"
SOURCES = f"{FOLDER}/sources.arrow"
PARTS = f"{FOLDER}/parts"
# Documents that are looked at together.
BLOCK_DOCUMENTS = 1 << 18

TOKEN_COLUMNS = {"token": np.int32, "offset": np.uint32}
DOCUMENT_SCHEMA = pa.schema(
    [
        ("name", pa.large_string()),
        ("first_entry", pa.int64()),
        ("length", pa.int64()),
        ("source", pa.int32()),
        ("offset", pa.int64()),
    ]
)
SOURCE_SCHEMA = pa.schema(
    [
        ("name", pa.large_string()),
        ("path", pa.large_string()),
        ("bytes", pa.int64()),
        ("digest", pa.large_string()),
    ]
)
PART_SCHEMA = pa.schema([field for field in DOCUMENT_SCHEMA if field.name != "first_entry"])


@dataclass(frozen=True)
class Document:
    """One document: its entries, and where its text begins in which source.

    `offset` counts bytes of a text or .jsonl file (there: of the record), or rows of .parquet.
    """

    number: int
    name: str
    first_entry: int
    length: int
    source: str
    offset: int


@dataclass(frozen=True)
class TokenisedDocument:
    """What tokenizing makes of one document; `source` is the number of its source."""

    name: str
    length: int
    source: int
    offset: int
    tokens: NDArray[np.int32]
    offsets: NDArray[np.uint32]


def write_part(
    store: Path, unit: int, documents: Sequence[TokenisedDocument]
) -> dict[str, FileDigest]:
    """Write what one unit of tokenizing found; return the files, relative to the store."""
    paths = part_paths(store, unit)
    tokens = [np.empty(0, np.int32), *(document.tokens for document in documents)]
    offsets = [np.empty(0, np.uint32), *(document.offsets for document in documents)]
    arrays = {"token": np.concatenate(tokens), "offset": np.concatenate(offsets)}
    rows = [{name: getattr(document, name) for name in PART_SCHEMA.names} for document in documents]
    batch = pa.RecordBatch.from_pylist(rows, schema=PART_SCHEMA)
    written = {
        paths[0]: columns.write_columns(paths[0], arrays),
        paths[1]: columns.write_batch(paths[1], batch),
    }
    return {path.relative_to(store).as_posix(): digest for path, digest in written.items()}


def part_paths(store: Path, unit: int) -> tuple[Path, Path]:
    """Where a unit of tokenizing leaves its tokens and its documents."""
    folder = store / PARTS
    return folder / f"unit-{unit:05d}.tokens.arrow", folder / f"unit-{unit:05d}.documents.arrow"


def merge(store: Path, units: int) -> dict[str, FileDigest]:
    """Join the parts of all units, in order, into the corpus; return its files."""
    paths = [part_paths(store, unit) for unit in range(units)]
    tokens = columns.concatenate(store / TOKENS, (part for part, _ in paths), TOKEN_COLUMNS)
    documents = _merge_documents(part for _, part in paths)
    return {TOKENS: tokens, DOCUMENTS: columns.write_batch(store / DOCUMENTS, documents)}


def write_sources(store: Path, sources: Sequence[Mapping[str, Any]]) -> dict[str, FileDigest]:
    """Write the table of sources: name, path, bytes and digest of each."""
    rows = [{name: source[name] for name in SOURCE_SCHEMA.names} for source in sources]
    batch = pa.RecordBatch.from_pylist(rows, schema=SOURCE_SCHEMA)
    return {SOURCES: columns.write_batch(store / SOURCES, batch)}


def _merge_documents(parts: Iterable[Path]) -> pa.RecordBatch:
    table = pa.Table.from_batches([columns.map_batch(part) for part in parts], PART_SCHEMA)
    length = table["length"].to_numpy()
    first = pa.array(np.concatenate([[0], np.cumsum(length)[:-1]]).astype(np.int64))
    named = {name: table[name].combine_chunks() for name in PART_SCHEMA.names}
    arrays = [{**named, "first_entry": first}[name] for name in DOCUMENT_SCHEMA.names]
    return pa.RecordBatch.from_arrays(arrays, schema=DOCUMENT_SCHEMA)


@dataclass(frozen=True)
class Corpus(PicklesFieldsOnly):
    """Read access to a tokenised corpus: memory-mapped, nothing loaded.

    `prefix` is the token that the model reads before a document, or None; `vocabulary` is the
    number of tokens that the tokenizer knows.
    """

    store: Path
    prefix: int | None
    vocabulary: int

    @cached_property
    def tokens(self) -> NDArray[np.int32]:
        """All tokens, in corpus order."""
        return self._token_columns["token"]

    @cached_property
    def token_offsets(self) -> NDArray[np.uint32]:
        """Byte offset of each token inside its document; an end token stands behind the text."""
        return self._token_columns["offset"]

    @cached_property
    def first_entries(self) -> NDArray[np.int64]:
        """First entry of each document."""
        return np.asarray(self._documents.column("first_entry"))

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Number of entries of each document; never 0."""
        return np.asarray(self._documents.column("length"))

    @property
    def entries(self) -> int:
        """N."""
        return int(self.first_entries[-1] + self.lengths[-1])

    @property
    def unpredicted(self) -> int:
        """How many first tokens of a document have no entry: 1 without a prefix, else 0."""
        return 0 if self.prefix is not None else 1

    def __len__(self) -> int:
        return len(self.first_entries)

    def __getitem__(self, number: int) -> Document:
        if not 0 <= number < len(self):
            raise IndexError(f"document {number} is outside 0..{len(self) - 1}")
        row = _row(self.store / DOCUMENTS, self._documents, number)
        source = _row(self.store / SOURCES, self._sources, row.pop("source"))
        return Document(number=number, source=source["path"], **row)

    def document_of(self, entry: int) -> int:
        """Number of the document that an entry belongs to."""
        return int(np.searchsorted(self.first_entries, entry, side="right")) - 1

    def first_token(self, document: int) -> int:
        """Where a document begins in `tokens`."""
        return int(self.first_entries[document]) + self.unpredicted * document

    def inputs(self, document: int, start: int, stop: int) -> NDArray[np.int32]:
        """What the model reads to make the keys of a document's entries start..stop-1."""
        first = self.first_token(document) + start
        if self.prefix is None:
            return self.tokens[first : first + stop - start]
        if start:
            return self.tokens[first - 1 : first - 1 + stop - start]
        prefix = np.array([self.prefix], np.int32)
        return np.concatenate([prefix, self.tokens[first : first + stop - 1]])

    def values(self, first: int, last: int) -> NDArray[np.int32]:
        """Values of the entries first..last-1."""
        return self.values_of(np.arange(first, last))

    def values_of(self, entries: NDArray[Any]) -> NDArray[np.int32]:
        """Values of any entries."""
        if self.unpredicted:
            # Every document has a token more than entries.
            entries = entries + np.searchsorted(self.first_entries, entries, side="right")
        values: NDArray[np.int32] = self.tokens[entries]
        return values

    def before(self, first: int, last: int) -> NDArray[np.int32]:
        """The token before each of the entries first..last-1; negative where a document begins.

        There it is -1 if nothing precedes, or -2 - token if that is a token without an entry.
        """
        entries = np.arange(first, last)
        document = np.searchsorted(self.first_entries, entries, side="right")
        before: NDArray[np.int32] = self.tokens[entries + self.unpredicted * document - 1]
        begins = self.first_entries[document - 1] == entries
        before[begins] = -2 - before[begins] if self.unpredicted else -1
        return before

    def pointers(self, first: int, last: int) -> NDArray[np.int64]:
        """Pointers of the entries first..last-1: the next entry, or -1 at a document's end."""
        pointers = np.arange(first + 1, last + 1, dtype=np.int64)
        documents = slice(self.document_of(first), self.document_of(last - 1) + 1)
        ends = self.first_entries[documents] + self.lengths[documents] - 1
        pointers[ends[(ends >= first) & (ends < last)] - first] = -1
        return pointers

    @cached_property
    def _token_columns(self) -> dict[str, NDArray[Any]]:
        return columns.map_columns(self.store / TOKENS, TOKEN_COLUMNS)

    @cached_property
    def _documents(self) -> pa.RecordBatch:
        """The table, having seen that documents follow each other and have all the tokens."""
        path = self.store / DOCUMENTS
        batch = _table(path, DOCUMENT_SCHEMA)
        lengths = batch.column("length").to_numpy(zero_copy_only=True)
        first = batch.column("first_entry").to_numpy(zero_copy_only=True)
        tokens = len(self.tokens) - self.unpredicted * len(lengths)
        if _end_of(first, lengths) != tokens:
            raise DamagedStore(
                f"{path}: its documents do not follow each other, or have other "
                f"tokens than {self.store / TOKENS}"
            )
        return batch

    @property
    def sources(self) -> list[dict[str, Any]]:
        """The files that the corpus was read from: `name`, `path`, `bytes`, `digest`."""
        rows = range(self._sources.num_rows)
        return [_row(self.store / SOURCES, self._sources, number) for number in rows]

    @cached_property
    def _sources(self) -> pa.RecordBatch:
        return _table(self.store / SOURCES, SOURCE_SCHEMA)


@dataclass(frozen=True, eq=False)
class CorpusInMemory(Corpus):
    """Tokenised texts that lie nowhere: they have neither names nor sources nor offsets."""

    documents: tuple[NDArray[np.int32], ...]

    @classmethod
    def of(
        cls, documents: Sequence[NDArray[np.int32]], prefix: int | None, vocabulary: int
    ) -> "CorpusInMemory":
        """The corpus of these documents, each of which has an entry at least."""
        return cls(Path("/dev/null"), prefix, vocabulary, tuple(documents))

    @cached_property
    def tokens(self) -> NDArray[np.int32]:
        """All tokens, in corpus order."""
        return np.concatenate(self.documents)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Number of entries of each document; never 0."""
        return np.array([len(tokens) - self.unpredicted for tokens in self.documents], np.int64)

    @cached_property
    def first_entries(self) -> NDArray[np.int64]:
        """First entry of each document."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]]).astype(np.int64)


def _end_of(first: NDArray[np.int64], lengths: NDArray[np.int64]) -> int | None:
    """Where documents end that follow each other from 0 on; None if they do not."""
    end = 0
    for start in range(0, len(first), BLOCK_DOCUMENTS):
        block = lengths[start : start + BLOCK_DOCUMENTS]
        ends = end + np.cumsum(block)
        if (block < 1).any() or (first[start : start + len(block)] != ends - block).any():
            return None
        end = int(ends[-1])
    return end


def _table(path: Path, schema: pa.Schema) -> pa.RecordBatch:
    batch = columns.map_batch(path)
    if batch.schema != schema or not batch.num_rows:
        raise DamagedStore(f"{path} is empty or has other columns than {schema.names}")
    if any(column.null_count for column in batch.columns):
        raise DamagedStore(f"{path} has rows without a value")
    return batch


def _row(path: Path, batch: pa.RecordBatch, number: int) -> dict[str, Any]:
    try:
        one = batch.slice(number, 1)
        # Damaged offsets of a text column would lead out of the file.
        one.validate(full=True)
        row: dict[str, Any] = one.to_pylist()[0]
    except (IndexError, pa.ArrowInvalid) as error:
        raise DamagedStore(f"{path} is damaged at row {number}: {error}") from error
    return row
