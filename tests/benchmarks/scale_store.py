"""Stores of any size with made-up keys, for the benchmark `scale`; by itself it only makes one.

    python -m tests.benchmarks.scale_store STORE --entries 1000000 [--dimension 64] [--workers 2]

No model is run; all else is as `tokenize` and `extract` leave it: their stages are run by the real
runner, in units that resume, and written by the real storage layer. What is made is a function of
the seed and of the place alone, so that the bytes are the same whoever makes them:

    text        phrases of 8 tokens out of a fixed book, drawn by Zipf's law, as are the tokens in
                them; one token in 20 is another one. So contexts repeat, as in text
    documents   cut from that, of 1 to 8,192 tokens, about 400 on average
    keys        around centres on three scales: the document's topic, the token before, its place
                in its phrase; then noise. The first keys of all documents are equal
"""

import argparse
import itertools
import json
import sys
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import WorkerSettings
from retomaton_dist.stages.runner import Done, Plan, chunk_units, chunk_work, run_stage
from retomaton_dist.storage import corpus, datastore
from retomaton_dist.storage.canonical import content_hash
from retomaton_dist.storage.corpus import TokenisedDocument
from retomaton_dist.storage.datastore import Shape, choose_chunk_entries
from retomaton_dist.storage.store import Store, writing

VOCABULARY, PREFIX = 32_000, 0
PHRASE, PHRASES, BOOK_NUMBERS = 8, 1 << 14, 1 << 23
CHANGED = 0.05
TOPICS = 64
TOPIC_SCALE, TOKEN_SCALE, PLACE_SCALE, NOISE = 1.0, 0.8, 0.4, 0.3
MEAN_LENGTH, SPREAD, LONGEST = 5.5, 1.0, 8192
# Entries whose draws begin with a seed of their own; every chunk is made of whole ones.
BLOCK = datastore.PAGE_ENTRIES
TEXT_UNIT, KEY_UNIT = 1 << 20, 1 << 18
BOOK, LENGTHS, TEXT, KEYS = range(4)


@dataclass(frozen=True)
class Synthetic:
    """Which store: everything else follows."""

    entries: int
    dimension: int
    seed: int = 1

    def random(self, *place):
        """Draws that belong to a place."""
        return np.random.default_rng([self.seed, *place])

    @property
    def phrases(self):
        """Fewer for wide keys: a worker holds their centres."""
        return min(PHRASES, max(64, BOOK_NUMBERS // (PHRASE * self.dimension)))


def zipf(random, count, most):
    """Whole numbers below `most`, the n-th about n times as rare as the first."""
    return (np.exp(random.random(count) * np.log(most)) - 1).astype(np.int32)


def lengths_of(made):
    """Tokens of every document; they add up to the number of entries."""
    random, found, total = made.random(LENGTHS), [], 0
    while total < made.entries:
        drawn = random.lognormal(MEAN_LENGTH, SPREAD, 1 << 16).astype(np.int64)
        found.append(np.clip(drawn, 1, LONGEST))
        total += int(found[-1].sum())
    lengths = np.concatenate(found)
    ends = np.cumsum(lengths)
    last = int(np.searchsorted(ends, made.entries))
    lengths = lengths[: last + 1]
    lengths[last] -= ends[last] - made.entries
    return lengths


class Book:
    """The phrases, and the centres that keys lie around."""

    def __init__(self, made):
        self.made, random = made, made.random(BOOK)
        self.tokens = zipf(random, made.phrases * PHRASE, VOCABULARY)
        self.topics = self._drawn(random, TOPICS, TOPIC_SCALE)
        self.first = self._drawn(random, 1, TOPIC_SCALE)[0]
        by_token = self._drawn(random, VOCABULARY, TOKEN_SCALE)
        self.places = self._drawn(random, made.phrases * PHRASE, PLACE_SCALE)
        self.places += by_token[self.tokens]

    def _drawn(self, random, rows, scale):
        return scale * random.standard_normal((rows, self.made.dimension), np.float32)

    def block(self, number):
        """Places in the book and tokens of one block of entries."""
        random = self.made.random(TEXT, number)
        phrases = zipf(random, BLOCK // PHRASE, self.made.phrases)
        places = (phrases[:, None] * PHRASE + np.arange(PHRASE)).reshape(-1)
        tokens = self.tokens[places]
        changed = random.random(BLOCK) < CHANGED
        tokens[changed] = zipf(random, int(changed.sum()), VOCABULARY)
        return places, tokens

    def text(self, first, last):
        """Places and tokens of the entries first..last-1."""
        blocks = range(first // BLOCK, -(-last // BLOCK))
        found = [self.block(number) for number in blocks]
        cut = slice(first - blocks[0] * BLOCK, last - blocks[0] * BLOCK)
        return tuple(np.concatenate(columns)[cut] for columns in zip(*found, strict=True))

    def keys(self, first, last, document, begins):
        """Keys of the entries first..last-1, whose documents are given, and which begin one."""
        before = self.text(max(first - 1, 0), last - 1)[0] if last > 1 else np.zeros(0, np.int64)
        if first == 0:
            before = np.concatenate([[0], before])
        keys = np.empty((last - first, self.made.dimension), np.float16)
        for start in range(0, last - first, BLOCK):
            rows = slice(start, min(start + BLOCK, last - first))
            random = self.made.random(KEYS, (first + start) // BLOCK)
            block = random.standard_normal((BLOCK, self.made.dimension), np.float32)
            block = block[: rows.stop - rows.start]
            block *= NOISE
            block += self.places[before[rows]]
            block += self.topics[document[rows] * 40_503 % 65_521 % TOPICS]
            block[begins[rows]] = self.first
            keys[rows] = block
        return keys


@dataclass(frozen=True)
class TextPlan(Plan):
    """`tokenize`, but that the text is made up."""

    store: Path
    made: Synthetic

    name, work_name, merges = "tokenize", "tokens", True

    @cached_property
    def config(self):
        return {"made": asdict(self.made)}

    @cached_property
    def units(self):
        """Ranges of documents, each with its first entry."""
        first = np.concatenate([[0], np.cumsum(lengths_of(self.made))])
        cuts = np.searchsorted(first, np.arange(0, self.made.entries, TEXT_UNIT))
        cuts = np.unique(np.append(cuts, len(first) - 1)).tolist()
        return list(itertools.pairwise(cuts))

    @cached_property
    def work(self):
        ends = np.concatenate([[0], np.cumsum(lengths_of(self.made))])
        return [float(ends[high] - ends[low]) for low, high in self.units]

    def worker(self):
        return partial(TextWorker, self.store, self.made)

    def finish(self, units):
        size = 4 * self.made.entries
        source = {"name": "made", "path": "made-up.txt", "bytes": size, "digest": self.config_hash}
        files = corpus.merge(self.store, len(units)) | corpus.write_sources(self.store, [source])
        documents = sum(high - low for low, high in self.units)
        facts = {
            "documents": documents, "tokens": self.made.entries, "entries": self.made.entries,
            "skipped": 0, "sources": 1, "source_bytes": size, "first_source": "made-up.txt",
            "tokenizer": "made up", "prefix": PREFIX, "vocabulary": VOCABULARY,
        }  # fmt: skip
        return Done(files, facts)

    def scratch(self):
        return (self.store / corpus.PARTS,)


class TextWorker:
    def __init__(self, store, made):
        self._store, self._made = store, made

    @cached_property
    def _book(self):
        return Book(self._made)

    @cached_property
    def _ends(self):
        return np.concatenate([[0], np.cumsum(lengths_of(self._made))])

    def run(self, number, payload):
        low, high = payload
        bounds = self._ends[low : high + 1]
        tokens = self._book.text(int(bounds[0]), int(bounds[-1]))[1]
        documents = []
        for document in range(low, high):
            first, last = (int(end) for end in self._ends[document : document + 2])
            part = tokens[first - bounds[0] : last - bounds[0]]
            offsets = 4 * np.arange(last - first, dtype=np.uint32)
            place = f"document {document}", last - first, 0, 4 * first
            documents.append(TokenisedDocument(*place, part, offsets))
        return Done(corpus.write_part(self._store, number, documents))


@dataclass(frozen=True)
class KeyPlan(Plan):
    """`extract`, but that the keys are made up."""

    store: Store
    made: Synthetic

    name = "extract"

    @cached_property
    def shape(self):
        entries, dimension = self.made.entries, self.made.dimension
        return Shape(entries, dimension, choose_chunk_entries(entries, dimension))

    @cached_property
    def config(self):
        unit_chunks = max(1, KEY_UNIT // self.shape.chunk_entries)
        digest = self.store.stage("tokenize").digest
        return {"made": asdict(self.made), "corpus": digest, "unit_chunks": unit_chunks}

    @cached_property
    def units(self):
        return chunk_units(self.shape, self.config["unit_chunks"] * self.shape.chunk_entries)

    @cached_property
    def work(self):
        return chunk_work(self.shape, self.units)

    def worker(self):
        return partial(KeyWorker, self.store, self.made, self.shape)

    def prepare(self):
        datastore.create(self.store.path, self.shape)

    def finish(self, _):
        facts = {
            **{name: getattr(self.shape, name) for name in ("entries", "dimension")},
            "chunk_entries": self.shape.chunk_entries, "documents": len(self.store.corpus()),
            "model": "made up", "architecture": "none",
        }  # fmt: skip
        return Done(datastore.create(self.store.path, self.shape), facts)


class KeyWorker:
    def __init__(self, store, made, shape):
        self._store, self._made, self._shape = store, made, shape

    @cached_property
    def _book(self):
        return Book(self._made)

    @cached_property
    def _words(self):
        return self._store.corpus()

    def run(self, _, payload):
        written = {}
        for chunk in payload:
            first, last = self._shape.chunk_range(chunk)
            starts = self._words.first_entries
            document = np.searchsorted(starts, np.arange(first, last), side="right") - 1
            begins = starts[document] == np.arange(first, last)
            keys = self._book.keys(first, last, document, begins)
            values, pointers = self._book.text(first, last)[1], self._words.pointers(first, last)
            written |= datastore.write_chunk(self._store.path, chunk, keys, values, pointers)
        return Done(written)


def make(path, made, workers=None, progress=None):
    """Make the store, or what is missing of it."""
    chosen = WorkerSettings(workers=workers, progress=progress)
    with Session(chosen) as session, writing(path) as writer:
        run_stage(writer, TextPlan(writer.path.resolve(), made), session)
        run_stage(writer, KeyPlan(Store.open(writer.path.resolve()), made), session)
    return path


def digest(path):
    """One digest of corpus and datastore, to compare two makings."""
    return content_hash([Store.open(path).stage(name).digest for name in ("tokenize", "extract")])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("--entries", type=int, required=True)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--progress")
    given = parser.parse_args()
    made = Synthetic(given.entries, given.dimension, given.seed)
    make(given.store, made, given.workers, given.progress)
    json.dump({"digest": digest(given.store)}, sys.stdout)


if __name__ == "__main__":
    # Actors import what they run by the name of its module, which is not `__main__` there.
    from tests.benchmarks.scale_store import main as main_of_module

    main_of_module()
