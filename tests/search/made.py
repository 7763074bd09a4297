"""Stores with keys of our choice, made without a model."""

import contextlib

import numpy as np

from retomaton_dist.storage import corpus, datastore, records
from retomaton_dist.storage.corpus import TokenisedDocument
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import writing

CHUNK = 2048


def make_store(path, keys, lengths, chunk_entries=CHUNK):
    """Make a store of finished extraction whose documents have these lengths."""
    assert sum(lengths) == len(keys)
    with writing(path) as writer:
        _tokenize(writer, lengths)
        _extract(writer, np.asarray(keys, np.float16), chunk_entries)
    return path


def _tokenize(writer, lengths):
    documents = [
        TokenisedDocument(
            f"d{number}", length, 0, 0, np.arange(length, dtype=np.int32) % 50,
            np.zeros(length, np.uint32),
        )
        for number, length in enumerate(lengths)
    ]  # fmt: skip
    writer.begin("tokenize", {}, 1, {})
    corpus.write_part(writer.path, 0, documents)
    files = corpus.merge(writer.path, 1)
    source = {"name": "s", "path": "s.txt", "bytes": 1, "digest": "0"}
    files |= corpus.write_sources(writer.path, [source])
    facts = {
        "prefix": 0, "vocabulary": 50, "entries": sum(lengths), "documents": len(lengths),
        "tokens": sum(lengths), "skipped": 0, "sources": 1, "source_bytes": 1,
        "first_source": "s.txt", "tokenizer": "made",
    }  # fmt: skip
    writer.finish("tokenize", files, facts, merges=True)


def _extract(writer, keys, chunk_entries):
    shape = Shape(*keys.shape, chunk_entries)
    config = {"unit_chunks": 1}
    writer.begin("extract", config, shape.chunks, {})
    files = datastore.create(writer.path, shape)
    words = corpus.Corpus(writer.path, 0, 50)
    stage = writer.manifest.stages["extract"]
    for chunk in range(shape.chunks):
        first, last = shape.chunk_range(chunk)
        written = datastore.write_chunk(
            writer.path, chunk, keys[first:last], words.values(first, last),
            words.pointers(first, last),
        )  # fmt: skip
        records.write(writer.path, "extract", Record(chunk, stage.config_hash, written))
    facts = {
        "entries": shape.entries, "dimension": shape.dimension, "chunk_entries": chunk_entries,
        "documents": len(words), "model": "made", "architecture": "none",
    }  # fmt: skip
    writer.finish("extract", files, facts)


def many_ties(entries, dimension, seed=0):
    """Keys of small whole numbers: most are repeated, and float32 distances are exact."""
    return np.random.default_rng(seed).integers(0, 3, (entries, dimension)).astype(np.float16)


def distances_between(queries, keys):
    """Squared distances, the slow and obvious way."""
    wide = queries.astype(np.float64)[:, None, :] - keys.astype(np.float64)[None, :, :]
    return (wide**2).sum(axis=2)


@contextlib.contextmanager
def serving(files, crew=None):
    """A service of an index, stopped when the block ends."""
    from retomaton_dist.runtime.search_service import SearchService

    service = SearchService.serve(files, crew=crew)
    try:
        yield service
    finally:
        service.stop()
