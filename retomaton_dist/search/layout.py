"""What `index/NAME/index.json` says: how the index is laid out, searched, and how good it is."""

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from retomaton_dist.errors import DamagedStore
from retomaton_dist.storage import canonical, files
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.json_rules import (
    Rule,
    check_keys,
    is_number,
    is_object,
    is_positive,
    is_text,
    is_whole,
)
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.verified_files import problems_of

FOLDER = "index"
FORMAT = "retomaton-index"
VERSION = 2
# Before it said how an index was trained, one worker trained every one.
UNTOLD = {1: {"trained": "whole"}, VERSION: {}}
_LAYOUT: dict[str, Rule] = {
    **dict.fromkeys(("name", "factory", "why", "datastore", "faiss", "trained"), is_text),
    **dict.fromkeys(("entries", "dimension"), is_positive),
    "cells": is_whole,
    "takes_entries": lambda value: isinstance(value, bool),
    "spans": lambda value: isinstance(value, list) and bool(value),
    "parameters": lambda value: is_object(value) and all(map(is_number, value.values())),
    "recall": is_object,
}
_SPAN: dict[str, Rule] = {
    "chunks": lambda value: (
        isinstance(value, list) and len(value) == 2 and all(map(is_whole, value))
    ),
    "first": is_whole,
    "last": is_positive,
}
_REMEDY = "`retomaton verify STORE --repair`, then `retomaton index STORE ...` again"


@dataclass(frozen=True)
class ShardSpan:
    """A shard: the chunks it was made of, and its entries first..last-1."""

    chunks: tuple[int, int]
    first: int
    last: int


@dataclass(frozen=True)
class Layout:
    """An index on disk. `datastore` is the digest of the keys that it was made from.

    `takes_entries`: the shards hold entry numbers; otherwise their rows count from `first`.
    `trained`: `in parts` by all workers, `whole` by one, or `not` at all (`factory.py`).
    """

    name: str
    factory: str
    why: str
    datastore: str
    entries: int
    dimension: int
    cells: int
    takes_entries: bool
    spans: tuple[ShardSpan, ...]
    parameters: Mapping[str, float] = field(default_factory=dict)
    recall: Json = field(default_factory=dict)
    faiss: str = ""
    trained: str = "whole"

    def write(self, store: Path) -> dict[str, FileDigest]:
        """Write index.json; return the file, relative to the store."""
        path = f"{FOLDER}/{self.name}/index.json"
        data = canonical.serialise({"format": FORMAT, "version": VERSION, **asdict(self)})
        return {path: files.write(store / path, data)}

    @classmethod
    def read(cls, store: Path, name: str) -> "Layout":
        """Read and check index.json."""
        path = store / FOLDER / name / "index.json"
        try:
            value = canonical.read(path, _REMEDY)
        except OSError as error:
            raise DamagedStore(f"{path} cannot be read: {error.strerror}; {_REMEDY}") from error
        form, version = value.pop("format", None), value.pop("version", None)
        if form != FORMAT or version not in list(UNTOLD):
            raise DamagedStore(f"{path} was written by another or newer program; upgrade")
        value = {**UNTOLD[version], **value}
        check_keys(str(path), value, _LAYOUT)
        for item in value["spans"]:
            check_keys(f"{path}: a span", item, _SPAN)
        spans = tuple(
            ShardSpan((item["chunks"][0], item["chunks"][1]), item["first"], item["last"])
            for item in value.pop("spans")
        )
        return cls(spans=spans, **value)


@dataclass(frozen=True)
class IndexFiles:
    """A finished index of a store: its layout and where its shards lie."""

    store: Path
    layout: Layout
    digests: tuple[FileDigest, ...]

    @classmethod
    def open(cls, store: Store, name: str) -> "IndexFiles":
        """Open an index; one of another datastore, or with a truncated shard, is refused."""
        stage = store.stage(f"{FOLDER}/{name}")
        layout = Layout.read(store.path, name)
        current = store.stage("extract").digest
        if {layout.datastore, stage.config["datastore"]} != {current}:
            raise DamagedStore(
                f"{store.path / FOLDER / name} was built from another datastore than the one in "
                f"this store; build it anew under another --name"
            )
        digests = tuple(
            _digest_of(store.record(f"{FOLDER}/{name}", number), shard_path(name, number))
            for number in range(len(layout.spans))
        )
        shape = store.shape()
        covered = [0, *(span.last for span in layout.spans)]
        whole = [span.first for span in layout.spans] == covered[:-1]
        sizes = (layout.name, layout.entries, layout.dimension, covered[-1])
        if not whole or sizes != (name, shape.entries, shape.dimension, shape.entries):
            raise DamagedStore(
                f"{store.path / FOLDER / name / 'index.json'} does not fit the datastore; {_REMEDY}"
            )
        opened = cls(store.path.resolve(), layout, digests)
        for number, digest in enumerate(digests):
            files.check_size(opened.shard(number), digest.bytes, _REMEDY)
        return opened

    def shard(self, number: int) -> Path:
        """Where a shard lies."""
        return self.store / shard_path(self.layout.name, number)

    def verify(self, number: int) -> None:
        """Read a shard whole, unless it is known to be sound; altered contents are damage."""
        path = self.shard(number)
        if problem := problems_of(str(path), {path: self.digests[number]}):
            raise DamagedStore(f"{path}: {problem[path]}; {_REMEDY}")


def _digest_of(record: Record, path: str) -> FileDigest:
    if path not in record.files:
        raise DamagedStore(f"the record of unit {record.unit} does not name {path}; {_REMEDY}")
    return record.files[path]


def shard_path(name: str, number: int) -> str:
    """A shard's file, relative to the store."""
    return f"{FOLDER}/{name}/shard-{number:05d}.faiss"


def trained_path(name: str) -> str:
    """The trained, empty index that all shards begin with, relative to the store."""
    return f"{FOLDER}/{name}/trained.faiss"


def spans_of(shape: Shape, shards: int) -> tuple[ShardSpan, ...]:
    """Cut the datastore into `shards` nearly equal runs of whole chunks."""
    bounds = [shape.chunks * number // shards for number in range(shards + 1)]
    return tuple(
        ShardSpan((low, high), shape.chunk_range(low)[0], shape.chunk_range(high - 1)[1])
        for low, high in itertools.pairwise(bounds)
    )


def described(facts: Mapping[str, Any]) -> str:
    """One line about an index, from its stage's facts, for `inspect`."""
    recall = facts["recall"]
    reached = "" if recall["reached"] else f", below the target {recall['target']:g}"
    at = f" at {facts['searched_with']}" if facts["searched_with"] else ""
    shards = f"{facts['shards']} shard{'' if facts['shards'] == 1 else 's'}"
    alone = ", trained by one worker" if facts.get("trained") == "whole" else ""
    measured = f"recall@{recall['k']} {recall['recall']:.3f}{at}{reached}"
    return f"{facts['factory']}, {shards}, {measured}{alone} ({facts['why']})"
