"""How far the codec's distances are from those of the keys themselves, on a store's real keys.

    python -m tests.benchmarks.codec_error wiki.store [--code-size 64] [--cells 1024 4096]
    python -m tests.benchmarks.codec_error --small

The store is only read; `--small` makes one, only to show that all of this works. Codebooks are
trained on a sample of its keys, as the stage `codec` does; then `--pool` other keys are encoded,
and `--queries` further ones ask for their distances to all of the pool. Reported are errors
relative to the exact distance, over the whole pool and over each query's `--near` nearest, which is
what a walk or a search weighs; correlations are within a query, on average. Pairs of equal keys
(the first entries of documents) have no relative error and do not count. `recall` is how many of
the near ones the codec also ranks among its as many nearest.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from retomaton_dist.codec.codec import CodecSizes
from retomaton_dist.codec.pq import SAMPLE, PqCodec, choose_cells, choose_code_size
from retomaton_dist.storage.store import Store
from tests.benchmarks.small_store import build_small


def distances(queries, keys):
    """Squared distances [queries, keys], exact enough in float64."""
    norms = (keys * keys).sum(axis=1) + (queries * queries).sum(axis=1)[:, None]
    return norms - 2 * queries @ keys.T


def correlation(left, right):
    """Of rows with rows, on average; rows of equal numbers have none."""
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if np.ptp(a) and np.ptp(b)]
    return np.mean([np.corrcoef(a, b)[0, 1] for a, b in pairs])


def report(name, exact, found):
    apart = exact > 1e-6 * np.median(exact)
    error = found[apart] / exact[apart] - 1
    print(
        f"  {name:<8} relative error: median {np.median(np.abs(error)):.4f}, 90 % below "
        f"{np.quantile(np.abs(error), 0.9):.4f}, on average {np.mean(error):+.4f}; "
        f"correlation {correlation(exact, found):.4f}"
    )


def measure(keys, drawn, given, code_size, cells):
    sample, pool, queries = (keys[np.sort(part)] for part in drawn)
    codec, sizes = PqCodec(), CodecSizes(keys.shape[1], code_size, cells)
    start = time.perf_counter()
    books = codec.train(sample, sizes, seed=1)
    trained = time.perf_counter()
    coded = codec.decode(codec.encode(pool, sizes, books), sizes, books).astype(np.float64)
    encoded = time.perf_counter()
    print(
        f"pq{code_size}, {cells:,} cells: trained in {trained - start:.0f} s, "
        f"{(encoded - trained) / len(pool) * 1e6:.0f} us per key to encode"
    )
    exact = distances(queries.astype(np.float64), pool.astype(np.float64))
    found = distances(queries.astype(np.float64), coded)
    report("all", exact, found)
    near = np.argsort(exact, axis=1)[:, : given.near]
    report("nearest", *(np.take_along_axis(rows, near, axis=1) for rows in (exact, found)))
    ranked = np.argsort(found, axis=1)[:, : given.near]
    pairs = zip(near, ranked, strict=True)
    print(f"  recall {np.mean([np.isin(a, b).mean() for a, b in pairs]):.3f} at {given.near}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", nargs="?")
    parser.add_argument("--code-size", type=int, nargs="+", default=[None])
    parser.add_argument("--cells", type=int, nargs="+", default=[None])
    parser.add_argument("--sample", type=int, default=SAMPLE)
    parser.add_argument("--pool", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--near", type=int, default=1024)
    parser.add_argument("--small", action="store_true", help="a store made on the spot, no figures")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.small:
            given.store = build_small(Path(folder)).path
        if given.store:
            measure_all(given)
        else:
            print("no store given: `python -m tests.benchmarks.codec_error STORE`")


def measure_all(given):
    keys = Store.open(given.store).datastore().keys
    entries, dimension = keys.shape
    sizes = min(given.sample, entries // 2), min(given.pool, entries // 3), given.queries
    order = np.random.default_rng(0).choice(entries, sum(sizes), replace=False)
    drawn = np.split(order, np.cumsum(sizes)[:-1])
    print(f"{given.store}: {entries:,} keys of {dimension}; sample, pool, queries: {sizes}")
    for code_size in given.code_size:
        for cells in given.cells:
            chosen = choose_code_size(dimension, code_size), cells or choose_cells(entries)
            measure(keys, drawn, given, *chosen)


if __name__ == "__main__":
    main()
