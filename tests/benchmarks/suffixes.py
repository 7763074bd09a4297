"""Suffix look-ups: their cost and growth with N against other structures; the stage's memory.

    python -m tests.benchmarks.suffixes [--small]

The text is synthetic: it copies itself from anywhere before, some 6 tokens at a time, with a new
token now and then, so that contexts repeat as in natural text. Look-ups are made for 64 positions
at a time of text that follows the corpus, each for up to 1,024 entries, in CPU time of one thread,
the least of several rounds: `warm`, one after the other, and `cold`, each after 96 MiB of other
memory was swept, as a language model does between two of them.

Peers, asked for the same entries or for as many:
    bisect     a plain suffix array, searched by Python's bisect for every length
    dict       a dict of all n-grams up to the same length
    hashed     hash tables of all n-grams, one per length, compiled; entries may be listed twice
"""

import argparse
import bisect
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

import retomaton_dist as rd
from retomaton_dist.automaton.suffixes import Suffixes
from retomaton_dist.compiled import compiled
from retomaton_dist.storage import corpus
from retomaton_dist.storage.corpus import TokenisedDocument
from retomaton_dist.storage.store import Store, writing
from tests.benchmarks.memory import Peak, own_memory

VOCABULARY, LONGEST, K, DOCUMENT = 50_000, 8, 1024, 500
ROWS, QUERIES, SWEPT = 64, 4096, 96 << 20
DICT_ENTRIES, UNIT = 10**6, 1 << 18


@compiled
def copying_text(tokens, seed):
    """Fill an array with text that copies itself."""
    np.random.seed(seed)
    source = 0
    for i in range(tokens.shape[0]):
        drawn = np.random.random()
        if drawn < 0.03 or i < 1000:
            tokens[i] = min(VOCABULARY - 1, int(np.random.pareto(0.5)))
        else:
            if drawn < 0.18:
                source = np.random.randint(0, i)
            tokens[i] = tokens[source]
        source = (source + 1) % i if i else 0


def made(entries):
    """The token before each entry, and recent tokens of positions that follow the corpus."""
    tokens = np.empty(entries + QUERIES + LONGEST, np.int32)
    copying_text(tokens, 1)
    before = np.roll(tokens[:entries], 1)
    before[::DOCUMENT] = -1
    positions = np.arange(entries + LONGEST, len(tokens))
    recent = np.stack([tokens[positions - back] for back in range(1, LONGEST + 1)], axis=1)
    return tokens[:entries], before, recent.astype(np.int32)


def timed(look_up, recent, *, cold=False, rounds=4):
    """Microseconds of CPU time per look-up."""
    swept, best = np.zeros(SWEPT // 64 if cold else 1, (np.uint8, 64)), np.inf
    for _ in range(rounds):
        total = 0.0
        for first in range(0, len(recent), ROWS):
            swept[:, 0] += 1
            start = time.thread_time()
            look_up(recent[first : first + ROWS])
            total += time.thread_time() - start
        best = min(best, total / len(recent))
    return best * 1e6


class Contexts:
    """A sequence of contexts in context order, cut to so many tokens, for Python's bisect."""

    def __init__(self, suffixes, length):
        self.columns, self.length = suffixes.columns, length

    def __len__(self):
        return len(self.columns.order)

    def __getitem__(self, place):
        entry = int(self.columns.order[place])
        context = self.columns.before[max(0, entry - self.length + 1) : entry + 1][::-1].tolist()
        return context[: context.index(-1)] if -1 in context else context


def by_bisect(suffixes, recent):
    """The ranges of every length, and as many entries as ours lists."""
    found = []
    for row in recent.tolist():
        listed, low, high = [], 0, suffixes.entries
        for length in range(1, LONGEST + 1):
            contexts, wanted = Contexts(suffixes, length), row[:length]
            low = bisect.bisect_left(contexts, wanted, low, high)
            high = bisect.bisect_right(contexts, wanted, low, high)
            if low == high:
                break
            listed = [(low, high), *listed]
        chosen = [suffixes.columns.order[low:high][:K] for low, high in listed]
        found.append(np.concatenate([np.empty(0, np.int64), *chosen])[:K])
    return found


class Dict:
    """All n-grams in a dict."""

    def __init__(self, before):
        self.entries = defaultdict(list)
        tokens = before.tolist()
        for entry in range(len(tokens)):
            context = []
            for token in tokens[entry : max(-1, entry - LONGEST) : -1]:
                if token < 0:
                    break
                context.append(token)
                self.entries[tuple(context)].append(entry)

    def look_up(self, recent):
        found = []
        for row in recent.tolist():
            listed = {}
            for length in range(LONGEST, 0, -1):
                listed |= dict.fromkeys(self.entries.get(tuple(row[:length]), ())[:K])
                if len(listed) >= K:
                    break
            found.append(list(listed)[:K])
        return found


class Hashed:
    """A hash table per length: n-grams to their entries, which lie together. Compiled, as ours is.

    Hashes stand for n-grams: what collides is not told apart.
    """

    def __init__(self, before):
        self.columns, rolling = [], np.zeros(len(before), np.uint64)
        whole = np.ones(len(before), np.bool_)
        for length in range(LONGEST):
            tokens = np.roll(before, length)
            whole &= tokens >= 0
            rolling = mixed(rolling, tokens)
            entries = np.flatnonzero(whole).astype(np.uint32)
            order = np.argsort(rolling[entries])
            hashes, firsts = np.unique(rolling[entries][order], return_index=True)
            ends = np.append(firsts[1:], len(entries))
            size = 1 << int(1.5 * len(hashes)).bit_length()
            table, ranges = np.zeros(size, np.uint64), np.zeros((size, 2), np.uint32)
            insert(hashes, np.stack([firsts, ends], axis=1).astype(np.uint32), table, ranges)
            self.columns.append((table, ranges, entries[order]))

    def look_up(self, recent):
        rolling = np.zeros(len(recent), np.uint64)
        lists = np.empty((LONGEST, len(recent), 2), np.int64)
        for length, (table, ranges, _) in enumerate(self.columns):
            rolling = mixed(rolling, recent[:, length])
            find(rolling, table, ranges, lists[length])
        found, counts = np.full((len(recent), K), -1), np.zeros(len(recent), np.int64)
        for length in range(LONGEST - 1, -1, -1):
            gather(lists[length], self.columns[length][2], found, counts)
        return found

    def bytes_per_entry(self, entries):
        return sum(array.nbytes for each in self.columns for array in each) / entries


@compiled
def insert(hashes, found, table, ranges):
    for i in range(hashes.shape[0]):
        place = hashes[i] & np.uint64(table.shape[0] - 1)
        while table[place] != 0:
            place = (place + np.uint64(1)) & np.uint64(table.shape[0] - 1)
        table[place] = hashes[i]
        ranges[place] = found[i]


@compiled
def find(hashes, table, ranges, found):
    for i in range(hashes.shape[0]):
        place = hashes[i] & np.uint64(table.shape[0] - 1)
        while table[place] != 0 and table[place] != hashes[i]:
            place = (place + np.uint64(1)) & np.uint64(table.shape[0] - 1)
        found[i, 0], found[i, 1] = ranges[place, 0], ranges[place, 1]


@compiled
def gather(lists, entries, found, counts):
    for row in range(lists.shape[0]):
        for place in range(lists[row, 0], lists[row, 1]):
            if counts[row] == found.shape[1]:
                break
            found[row, counts[row]] = entries[place]
            counts[row] += 1


def mixed(rolling, tokens):
    word = (rolling ^ tokens.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    return word ^ (word >> np.uint64(29))


def peers(suffixes, before, recent):
    """Print what the other structures take."""
    some = recent[: 4 * ROWS]
    ours = timed(lambda rows: suffixes.look_up(rows, K), recent)
    took = {"bisect": timed(lambda rows: by_bisect(suffixes, rows), some[:ROWS], rounds=1)}
    hashed = Hashed(before)
    hashed.look_up(some)
    took["hashed"] = timed(hashed.look_up, recent)
    note = {"hashed": f", {hashed.bytes_per_entry(len(before)):.0f} bytes per entry"}
    if len(before) <= DICT_ENTRIES:
        start = own_memory()
        table = Dict(before)
        took["dict"] = timed(table.look_up, some, rounds=2)
        note["dict"] = f", {(own_memory() - start) / len(before):,.0f} bytes per entry"
    for name, each in took.items():
        print(f"{len(before):>10,} entries  {name:<8} {each:9.1f} us: {each / ours:,.1f}x ours"
              + note.get(name, ""))  # fmt: skip


def write_corpus(path, tokens):
    """Leave a tokenised corpus of such documents, as the stage does."""
    documents = [
        TokenisedDocument(str(i), len(part), 0, 0, part, np.zeros(len(part), np.uint32))
        for i, part in enumerate(np.split(tokens, range(DOCUMENT, len(tokens), DOCUMENT)))
    ]
    source = {"name": "made", "path": "made", "bytes": 1, "digest": "0"}
    with writing(path) as writer:
        writer.begin("tokenize", {}, 1, {})
        corpus.write_part(path, 0, documents)
        files = corpus.merge(path, 1) | corpus.write_sources(path, [source])
        writer.finish("tokenize", files, {"prefix": 0, "vocabulary": VOCABULARY}, merges=True)


def stage(entries):
    """Say how fast the stage is, what it needs at its peak, and what it leaves."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.store"
        write_corpus(path, made(entries)[0])
        start, memory = time.perf_counter(), own_memory()
        with Peak() as peak:
            rd.suffix(path, unit_entries=UNIT, workers=0, progress="none")
        rate = entries / (time.perf_counter() - start)
        size = Store.open(path).stage("suffix/default").facts["bytes_per_entry"]
    return (
        f"{rate:,.0f} entries/s by one worker; units of {UNIT:,}: "
        f"{(peak.bytes - memory) / 1e6:.0f} MB at its peak; {size:.2f} bytes per entry (at most 12)"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="10^6 entries at most")
    sizes = [10**5, 10**6] if parser.parse_args().small else [10**5, 10**6, 10**7]
    # Before anything else, while this process holds no memory that it could use again.
    for entries in (1000, *sizes):
        measured = stage(entries)
        if entries in sizes:  # the first one compiles
            print(f"{entries:>10,} entries  stage    {measured}")
    took = {}
    for entries in sizes:
        before, recent = made(entries)[1:]
        suffixes = Suffixes.of(before, VOCABULARY, LONGEST)
        found = suffixes.look_up(recent, K)
        for name in ("warm", "cold"):
            took[name, entries] = timed(
                lambda rows, one=suffixes: one.look_up(rows, K), recent, cold=name == "cold"
            )
        print(
            f"{entries:>10,} entries  look-up  {took['warm', entries]:9.1f} us warm, "
            f"{took['cold', entries]:.1f} us cold (at most 30); {found.lengths.mean():.1f} tokens "
            f"matched, {found.counts.mean():.0f} entries listed"
        )
        peers(suffixes, before, recent)
    for name in ("warm", "cold"):
        growth = took[name, sizes[-1]] / took[name, sizes[0]]
        print(f"growth, {name}, from {sizes[0]:,} to {sizes[-1]:,}: {growth:.2f}x (at most 1.5x)")


if __name__ == "__main__":
    main()
