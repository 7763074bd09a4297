"""A small store of random keys, as the stages before `compile` leave it, and stages over it."""

import numpy as np

import retomaton_dist as rd
from retomaton_dist.storage import datastore, records, states
from retomaton_dist.storage.canonical import content_hash
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store, writing
from tests.storage import make

DIMENSION = 32
STATES = 37
CHUNK_ENTRIES = make.CHUNK_ENTRIES
CONFIG = {"unit_chunks": 1}


def compile_here(path, **settings):
    """`retomaton compile`, or what is missing of it, in this process."""
    rd.compile(path, workers=0, progress="none", **settings)


def cluster_here(path, **settings):
    """`retomaton cluster`, or what is missing of it, in this process."""
    rd.cluster(path, workers=0, progress="none", **settings)


def suffix_here(path, **settings):
    """`retomaton suffix`, or what is missing of it, in this process."""
    rd.suffix(path, workers=0, progress="none", **settings)


def ngram_here(path, **settings):
    """`retomaton ngram`, or what is missing of it, in this process."""
    rd.ngram(path, workers=0, progress="none", **settings)


def index_here(path, **settings):
    """`retomaton index`, or what is missing of it, in this process."""
    rd.index(path, workers=0, progress="none", **settings)


def make_store(path, entries, dimension=DIMENSION):
    """A store that was extracted: keys lie around a few centres."""
    with writing(path) as writer:
        make.tokenize(writer, make.sample_documents(entries))
        words = Store.open(path).corpus()
        random = np.random.default_rng(2)
        centres = random.normal(size=(8, dimension)) * 3
        keys = centres[random.integers(0, 8, entries)] + random.normal(size=(entries, dimension))
        shape = Shape(entries, dimension, CHUNK_ENTRIES)
        writer.begin("extract", CONFIG, shape.chunks, {})
        for chunk in range(shape.chunks):
            first, last = shape.chunk_range(chunk)
            files = datastore.create(path, shape)
            written = datastore.write_chunk(
                path,
                chunk,
                keys[first:last].astype(np.float16),
                words.values(first, last),
                words.pointers(first, last),
            )
            records.write(path, "extract", Record(chunk, content_hash(CONFIG), written))
        facts = {"entries": entries, "dimension": dimension, "chunk_entries": CHUNK_ENTRIES}
        writer.finish("extract", files, facts)
    return path


def random_states(entries, seed=3):
    """States of all entries; one state has no members."""
    numbers = np.random.default_rng(seed).integers(0, STATES, entries).astype(np.uint32)
    numbers[numbers == 5] = 6
    return numbers


def write_clustering(path, numbers, name="kmeans", datastore_digest=None, sizes_of=None):
    """Leave a clustering as the stage does, without its work; its sizes may be those of another."""
    digest = datastore_digest or Store.open(path).stage("extract").digest
    with writing(path) as writer:
        writer.begin(f"cluster/{name}", {"algorithm": "kmeans", "datastore": digest}, 1, {})
        files = make.write_states(path, name, numbers)
        counted = numbers if sizes_of is None else sizes_of
        sizes = np.bincount(counted, minlength=STATES).astype(np.int64)
        files |= states.write_column(path, name, "sizes", sizes)
        writer.finish(
            f"cluster/{name}", files, {"states": STATES, "entries": len(numbers)}, merges=True
        )
