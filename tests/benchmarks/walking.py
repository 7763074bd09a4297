"""Walking: throughput against the authors' way, the cost of a step, and its growth with N.

    python -m tests.benchmarks.walking [--small]

The peer does what the authors' code does at every position of one sequence: follow the pointers of
the last candidates, expand by the rows of a sparse matrix, decode the codes of one entry at a time,
measure, and scatter into a vector of the vocabulary's size. All data are synthetic: entries of a
state share a cell, every state has 100 members, and a search finds entries of 64 cells. Times of
single steps are CPU times of one thread, the least of several rounds; throughput is by the clock.
"""

import argparse
import time

import numpy as np

from retomaton_dist.automaton.automaton import Automaton
from retomaton_dist.automaton.lanes import Lanes
from retomaton_dist.codec.pq import PqCodes, pq_codec
from retomaton_dist.codec.threads import Threads
from retomaton_dist.settings import WalkSettings
from tests.automaton.make import arrange

DIMENSION, CODE_SIZE, CELLS, MEMBERS, VOCABULARY = 768, 64, 1024, 100, 50_000
LANES, K, TEMPERATURE = 64, 1024, 10.0
BRANCH, SCATTERED, PROBED = 32, 768, 64


def synthetic(entries, vocabulary=VOCABULARY):
    """An automaton of states with 100 members each, whose pointers lead anywhere."""
    random = np.random.default_rng(0)
    states = random.permutation(np.arange(entries) // MEMBERS).astype(np.uint32)
    count = entries // MEMBERS
    # A state has four values, so that a walk from one state reaches about 25 others.
    values = ((states * 7 + random.integers(0, 4, entries)) % vocabulary).astype(np.int32)
    pointers = np.arange(1, entries + 1)
    pointers[199::200] = -1
    pointers[-1] = -1
    columns = arrange(states, values, pointers, count)
    codes = PqCodes(
        random.normal(size=(CELLS, DIMENSION)).astype(np.float32),
        random.normal(size=(CODE_SIZE, DIMENSION // CODE_SIZE, 256)).astype(np.float32),
        (columns.states * np.uint32(7919) % CELLS).astype(np.uint16),
        random.integers(0, 256, (entries, CODE_SIZE), np.uint8),
        random.normal(size=entries).astype(np.float32),
    )
    return Automaton(columns, pq_codec(codes)), random


def place(lanes, automaton, random, states):
    """Put every lane into so many states, and choose a token that these states know."""
    arrays, tokens = lanes.arrays, np.empty(len(lanes), np.int32)
    for lane in range(len(lanes)):
        chosen = random.choice(automaton.states, states, replace=False)
        arrays.states[lane, :states] = chosen
        tokens[lane] = automaton.columns.values[automaton.columns.offsets[chosen[0]]]
    arrays.state_counts[:] = states
    arrays.counts[:] = 0
    arrays.steps[:] = 1
    lanes._advanced[:] = False
    return tokens


def step_time(automaton, random, states, tau, rounds=15):
    """Microseconds of one lane's whole step: query made ready, walk, distances, probability."""
    settings = WalkSettings()
    lanes = Lanes(automaton, settings, np.full(LANES, tau))
    best, sizes = np.inf, (0, 0)
    for _ in range(rounds):
        tokens = place(lanes, automaton, random, states)
        queries = random.normal(size=(LANES, DIMENSION)).astype(np.float32)
        found = scattered(automaton, random) if tau > 1 else None
        start = time.thread_time()
        ready = automaton.ready(queries)
        searching = lanes.advance(tokens)
        near = automaton.neighbours(ready, found) if searching.any() else None
        lanes.join(ready, near)
        lanes.log_sums(tokens, [TEMPERATURE])
        best = min(best, time.thread_time() - start)
        sizes = int(lanes.arrays.counts.mean()), int(lanes.arrays.reached_counts.mean())
    return best / LANES * 1e6, *sizes


def scattered(automaton, random):
    """What searches might find: entries of as many states as can be, in PROBED cells per lane."""
    columns, cells = automaton.columns, automaton.codec.codes.cells
    cell_of_state = cells[columns.offsets[:-1]]
    found = np.empty((LANES, K), np.int64)
    for row in found:
        probed = np.isin(cell_of_state, random.choice(CELLS, PROBED, replace=False))
        states = random.choice(np.flatnonzero(probed), K)
        slots = columns.offsets[states] + random.integers(0, MEMBERS, K).astype(np.uint32)
        row[:] = columns.entries[slots]
    return found


class Peer:
    """The authors' way, one sequence at a time."""

    def __init__(self, automaton):
        columns = automaton.columns
        self.codes = automaton.codec.codes
        self.slots = columns.slots
        entries = automaton.entries
        self.cluster = np.empty(entries, np.int64)
        self.cluster[columns.entries] = columns.states
        self.values = np.empty(entries, np.int64)
        self.values[columns.entries] = columns.values
        # A sparse matrix of states and members, by rows.
        self.starts = columns.offsets.astype(np.int64)
        self.members = np.argsort(self.cluster, kind="stable")
        self.words = self.codes.codebooks.transpose(0, 2, 1)

    def reconstruct(self, entry):
        slot = self.slots[entry]
        parts = [self.words[m, code] for m, code in enumerate(self.codes.codes[slot])]
        return self.codes.centroids[self.codes.cells[slot]] + np.concatenate(parts)

    def step(self, query, knns, distances, token):
        order = np.argsort(distances)[::-1]
        pointers = (knns[order] + 1)[:K]
        if len(pointers) < K:
            clusters, counts = np.unique(self.cluster[pointers], return_counts=True)
            clusters = clusters[np.argsort(-counts)]
            rows = [self.members[self.starts[c] : self.starts[c + 1]] for c in clusters]
            pointers = np.concatenate([pointers, *rows])[:K]
        keys = np.stack([self.reconstruct(entry) for entry in pointers])
        scores = -((keys - query) ** 2).sum(axis=1)
        weights = np.exp((scores - scores.max()) / TEMPERATURE)
        dense = np.zeros(VOCABULARY)
        np.add.at(dense, self.values[pointers], weights / weights.sum())
        keep = self.values[pointers] == token
        return pointers[keep], scores[keep], dense[token]


def throughput(automaton, random, threads, positions=8):
    """Positions per second of all lanes together, in steady walks that never search."""
    lanes, team = Lanes(automaton, WalkSettings(), np.ones(LANES), threads), Threads(threads)
    queries = random.normal(size=(positions, LANES, DIMENSION)).astype(np.float32)
    best = np.inf
    for position in range(positions):
        tokens = place(lanes, automaton, random, 1)
        start = time.perf_counter()
        ready = automaton.ready(queries[position], team)
        lanes.advance(tokens)
        lanes.join(ready)
        lanes.log_sums(tokens, [TEMPERATURE])
        best = min(best, time.perf_counter() - start)
    lanes.close()
    team.close()
    return LANES / best


def peer_throughput(automaton, random, positions=6):
    peer = Peer(automaton)
    best = np.inf
    for _ in range(positions):
        state = int(random.integers(0, automaton.states))
        knns = np.concatenate([automaton.members(s)[:1] for s in range(state, state + BRANCH)])
        knns = np.minimum(knns, automaton.entries - 2)
        start = time.perf_counter()
        peer.step(random.normal(size=DIMENSION), knns, -random.random(len(knns)), 3)
        best = min(best, time.perf_counter() - start)
    return 1 / best


def bytes_per_entry(automaton):
    arrays = [*automaton.columns, *automaton.codec.codes[2:]]
    return sum(array.nbytes for array in arrays) / automaton.entries


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="10^6 entries at most")
    sizes = [10**5, 10**6] if parser.parse_args().small else [10**5, 10**6, 10**7]
    walked = {}
    for entries in sizes:
        automaton, random = synthetic(entries)
        steps = {
            "walking step, <= 32 states": step_time(automaton, random, 1, 1.0),
            "restart step, scattered": step_time(automaton, random, SCATTERED, np.inf),
        }
        for name, (microseconds, candidates, states) in steps.items():
            walked[name, entries] = microseconds
            print(
                f"{entries:>10,} entries  {name:<28} {microseconds:7.0f} us  "
                f"({candidates} candidates, {states} states reached)"
            )
        if entries == 10**6:
            ours, theirs = throughput(automaton, random, 2), peer_throughput(automaton, random)
            print(f"throughput, 64 lanes, 2 threads: {ours:,.0f} positions/s; authors' way "
                  f"{theirs:,.0f}: {ours / theirs:.0f}x (at least 100x)")  # fmt: skip
            print(f"bytes per entry: {bytes_per_entry(automaton):.1f} (at most 96)")
    for name in steps:
        growth = walked[name, sizes[-1]] / walked[name, sizes[0]]
        print(f"growth of {name} from {sizes[0]:,} to {sizes[-1]:,}: {growth:.2f}x (at most 2x)")


if __name__ == "__main__":
    main()
