"""Walking over a store of the benchmark `scale`: microseconds per lane of restarts and of steps.

    python -m tests.benchmarks.scale_walk STORE

Lanes read documents of the store, from places drawn at random; queries are their keys with some
noise. At the first position all lanes search and restart; afterwards a lane searches only when its
walk has come to an end. Times are by the clock, of one thread, the median over rounds; `search` is
the index alone, `restart` and `step` are all else: query, walk, distances, sums.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from retomaton_dist.artifacts import open_automaton, open_index
from retomaton_dist.automaton.lanes import Lanes
from retomaton_dist.search.library import limit_threads
from retomaton_dist.search.searcher import open_searcher
from retomaton_dist.settings import WalkSettings
from retomaton_dist.storage.store import Store

LANES, POSITIONS, ROUNDS, NOISE, TAU = 64, 16, 12, 0.1, 1.0


def walk(store):
    """Microseconds by what they were spent on, and the share of steps that searched."""
    opened = Store.open(store)
    automaton = open_automaton(opened, "kmeans", verify=False)
    files, datastore = open_index(opened, "default", verify=False), opened.datastore()
    limit_threads(1, files.layout.factory)
    random = np.random.default_rng(0)
    settings = WalkSettings()
    lanes = Lanes(automaton, settings, np.full(LANES, TAU))
    k = min(settings.k, automaton.entries)
    spent = {"restart": [], "step": [], "search": []}
    searched = 0
    with open_searcher(files) as searcher:
        for number in range(ROUNDS + 1):
            begin = random.integers(1, automaton.entries - POSITIONS, LANES)
            lanes.reset(np.arange(LANES))
            for position in range(POSITIONS):
                entries = begin + position
                noise = NOISE * random.standard_normal((LANES, automaton.dimension), np.float32)
                queries = datastore.keys[entries].astype(np.float32) + noise
                tokens = datastore.values[entries - 1]
                # The first round compiles, and maps what all of them need.
                times = timed(lanes, automaton, searcher, queries, tokens, k)
                if number:
                    spent["step" if position else "restart"].append(times[0] / LANES)
                    spent["search"] += [times[1] / times[2]] if times[2] else []
                    searched += times[2] if position else 0
    medians = {name: 1e6 * float(np.median(found)) for name, found in spent.items() if found}
    share = searched / (ROUNDS * (POSITIONS - 1) * LANES)
    return {f"{name}_us": round(value, 1) for name, value in medians.items()} | {"searched": share}


def timed(lanes, automaton, searcher, queries, tokens, k):
    """Seconds of walking and of searching, and how many lanes searched, at one position."""
    start, found, spent = time.perf_counter(), None, 0.0
    ready = automaton.ready(queries)
    searching = lanes.advance(tokens)
    if searching.any():
        begun = time.perf_counter()
        found = np.full((len(tokens), k), -1)
        found[searching] = searcher.search(queries[searching], k)[1]
        spent = time.perf_counter() - begun
    near = None if found is None else automaton.neighbours(ready, found)
    lanes.join(ready, near)
    lanes.log_sums(tokens, [10.0])
    return time.perf_counter() - start - spent, spent, int(searching.sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", type=Path)
    print(json.dumps(walk(parser.parse_args().store)))


if __name__ == "__main__":
    main()
