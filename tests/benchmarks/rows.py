"""Random rows of keys from a store's chunks, against np.memmap of one flat file.

    python -m tests.benchmarks.rows [--entries 1000000 --dimension 256 --rows 1024]

Both hold the same keys, all of them in the system's page cache, and are read in turns with the
same random entries: right after mapping, when every page is a fault, and again when it is mapped.
Best of the repeats. A store must stay within twice the flat file.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from retomaton_dist.storage import datastore
from retomaton_dist.storage.datastore import Datastore, Shape, choose_chunk_entries

TARGET = 2.0


def build(folder, shape):
    """A datastore and a flat file of the same keys, a chunk at a time."""
    random = np.random.default_rng(0)
    datastore.create(folder, shape)
    with (folder / "flat").open("wb") as flat:
        for chunk in range(shape.chunks):
            first, last = shape.chunk_range(chunk)
            keys = random.standard_normal((last - first, shape.dimension), np.float32)
            keys = keys.astype(np.float16)
            values = np.zeros(last - first, np.int32)
            datastore.write_chunk(folder, chunk, keys, values, np.arange(first, last))
            keys.tofile(flat)


def seconds(keys, entries):
    """Time to copy the chosen rows out."""
    start = time.perf_counter()
    keys[entries]
    return time.perf_counter() - start


def in_turns(ours, theirs, draws):
    """Seconds for every draw of entries, ours and the peer's."""
    return np.array([(seconds(ours, drawn), seconds(theirs, drawn)) for drawn in draws])


def show(title, spent, rows):
    ours, theirs = spent / rows * 1e6
    verdict = "within" if ours <= TARGET * theirs else "BEYOND"
    print(
        f"{title}: store {ours:.3f} us per row, np.memmap {theirs:.3f} us, "
        f"ratio {ours / theirs:.2f} ({verdict} the target of {TARGET:g})"
    )


def flat(folder, shape):
    return np.memmap(folder / "flat", np.float16, "r", shape=(shape.entries, shape.dimension))


def report(folder, shape, draws):
    """Time both on the same draws and print the ratios."""
    start = time.perf_counter()
    keys = Datastore.open(folder, shape).keys
    print(f"{shape.entries:,} x {shape.dimension} float16 in {shape.chunks} chunks, ", end="")
    print(f"opened and mapped in {(time.perf_counter() - start) * 1e3:.1f} ms")
    np.testing.assert_array_equal(keys[draws[0]], flat(folder, shape)[draws[0]])

    def peers():
        return Datastore.open(folder, shape).keys, flat(folder, shape)

    first = np.concatenate([in_turns(*peers(), [drawn]) for drawn in draws])
    show("first touch", first.min(axis=0), len(draws[0]))
    show("mapped", in_turns(*peers(), draws * 4)[len(draws) :].min(axis=0), len(draws[0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=30)
    given = parser.parse_args()
    chunk_entries = choose_chunk_entries(given.entries, given.dimension)
    shape = Shape(given.entries, given.dimension, chunk_entries)
    random = np.random.default_rng(1)
    draws = [random.integers(0, given.entries, given.rows) for _ in range(given.repeats)]
    with tempfile.TemporaryDirectory() as name:
        build(Path(name), shape)
        report(Path(name), shape, draws)


if __name__ == "__main__":
    main()
