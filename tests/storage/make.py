"""A small real store made through the storage layer alone, and the obvious oracle of its contents.

It does what the stages do, without models or Ray: documents of tokens are written as parts by
units of `tokenize` and merged; then units of `extract` write whole chunks of the datastore.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from retomaton_dist.storage import columns, corpus, datastore, records, states
from retomaton_dist.storage.canonical import content_hash
from retomaton_dist.storage.corpus import TokenisedDocument
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store, StoreWriter, writing

VOCABULARY = 97
PREFIX = 96
DIMENSION = 2
CHUNK_ENTRIES = 2048
UNIT_CHUNKS = 2
MADE_WITH = {"tests": "1"}
SOURCES = [
    {"name": "a.txt", "path": "/text/a.txt", "bytes": 10, "digest": "d1"},
    {"name": "b.txt", "path": "/text/b.txt", "bytes": 20, "digest": "d2"},
]

Documents = Sequence[Sequence[int]]


def sample_documents(entries: int = 5000) -> list[list[int]]:
    """Documents of 1 to 400 tokens, as many tokens together as asked for; always the same."""
    random = np.random.default_rng(7)
    documents: list[list[int]] = [[3], [5]]
    while (rest := entries - sum(map(len, documents))) > 0:
        length = min(int(random.integers(1, 400)), rest)
        documents.append(random.integers(0, VOCABULARY - 1, length).tolist())
    return documents


@dataclass(frozen=True)
class Oracle:
    """What a store of some documents must hold: one obvious loop over documents and tokens."""

    inputs: list[list[int]]
    values: list[int]
    pointers: list[int]
    document: list[int]
    first: list[int]

    @classmethod
    def of(cls, documents: Documents, prefix: int | None) -> "Oracle":
        oracle = cls([], [], [], [], [])
        for number, tokens in enumerate(documents):
            read = list(tokens) if prefix is None else [prefix, *tokens]
            oracle.inputs.append(read[:-1])
            oracle.first.append(len(oracle.values))
            for value in read[1:]:
                oracle.values.append(value)
                oracle.pointers.append(len(oracle.values))
                oracle.document.append(number)
            oracle.pointers[-1] = -1
        return oracle


def keys_of(entries: int, dimension: int = DIMENSION) -> np.ndarray:
    """Keys that differ from row to row."""
    return np.random.default_rng(entries).normal(size=(entries, dimension)).astype(np.float16)


def tokenize(
    writer: StoreWriter, documents: Documents, prefix: int | None = PREFIX, units: int = 2
) -> None:
    """Run the stage, or what is missing of it; may be repeated."""
    config = {"corpus": content_hash([list(document) for document in documents]), "prefix": prefix}
    for unit in sorted(writer.begin("tokenize", config, units, MADE_WITH)):
        chosen = np.array_split(np.arange(len(documents)), units)[unit]
        part = [tokenised(number, documents[number], prefix) for number in chosen]
        files = corpus.write_part(writer.path, unit, part)
        records.write(writer.path, "tokenize", Record(unit, content_hash(config), files))
    if not writer.manifest.stages["tokenize"].done:
        files = corpus.merge(writer.path, units) | corpus.write_sources(writer.path, SOURCES)
        writer.finish("tokenize", files, {"prefix": prefix, "vocabulary": VOCABULARY}, merges=True)
    shutil.rmtree(writer.path / corpus.PARTS, ignore_errors=True)


def tokenised(number: int, tokens: Sequence[int], prefix: int | None) -> TokenisedDocument:
    return TokenisedDocument(
        name=f"document {number}",
        length=len(tokens) - (prefix is None),
        source=number % len(SOURCES),
        offset=100 * number,
        tokens=np.array(tokens, np.int32),
        offsets=3 * np.arange(len(tokens), dtype=np.uint32),
    )


def extract(
    writer: StoreWriter,
    pointers: np.ndarray | None = None,
    values: np.ndarray | None = None,
    dimension: int = DIMENSION,
) -> None:
    """Run the stage, or what is missing of it; may be repeated. Wrong contents can be given."""
    words = Store.open(writer.path).corpus()
    shape = Shape(words.entries, dimension, CHUNK_ENTRIES)
    config = {"corpus": writer.manifest.stages["tokenize"].digest, "dimension": dimension}
    units = -(-shape.chunks // UNIT_CHUNKS)
    missing = writer.begin("extract", config, units, MADE_WITH)
    if writer.manifest.stages["extract"].done:
        return
    files = datastore.create(writer.path, shape)
    keys = keys_of(words.entries, dimension)
    values = words.values(0, words.entries) if values is None else values
    pointers = words.pointers(0, words.entries) if pointers is None else pointers
    for unit in sorted(missing):
        written = {}
        for chunk in range(unit * UNIT_CHUNKS, min((unit + 1) * UNIT_CHUNKS, shape.chunks)):
            rows = slice(*shape.chunk_range(chunk))
            written |= datastore.write_chunk(
                writer.path, chunk, keys[rows], values[rows], pointers[rows]
            )
        records.write(writer.path, "extract", Record(unit, content_hash(config), written))
    facts = {"entries": shape.entries, "dimension": dimension, "chunk_entries": CHUNK_ENTRIES}
    writer.finish("extract", files, facts)


def build(path: Path, documents: Documents | None = None, **wrong: np.ndarray) -> Path:
    """Make the whole store, or what is missing of it."""
    with writing(path) as writer:
        tokenize(writer, documents or sample_documents())
        extract(writer, **wrong)
    return path


def write_states(store: Path, name: str, numbers: np.ndarray) -> dict[str, FileDigest]:
    """The state of every entry, written at once instead of by units."""
    path = states.folder_of(store, name) / "state_of_entry.arrow"
    digest = columns.write_columns(path, {"state": numbers})
    return {path.relative_to(store).as_posix(): digest}
