"""Compiling a clustering, against the authors' way: dict of sets, sparse matrix, pickle.

    python -m tests.benchmarks.compiling [--entries 1000000] [--workers 2]

Both start from the state of every entry. The peer does what the authors' kmeans.py does after the
assignment, and nothing else: it makes the members of each state and pickles them, without flushing
them to the disk. Where scipy is not installed, its csr_matrix is stood in for by the same steps in
numpy, which are faster than scipy's own. We check our sources' digests, make all columns, codes
among them, durably, and take their digests. Codes are there already: training and encoding are not
counted. `layout` is what the two have in common and more: the order of all entries with their
values, states, slots and next slots, as `arrange` makes it in memory, without codes, files and
digests. Each contestant runs in a process of its own; ours without Ray: one worker is the stage as
`--workers 0` runs it; for more of them the same units, recorded as the stage records them, are done
by threads, one per core as in the stage's default, and the stage finds them done and finishes.
Memory is the growth of the process's own memory (anonymous pages: no file's) at its peak.
"""

import argparse
import collections
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from retomaton_dist.codec.codec import CodecSizes
from retomaton_dist.codec.pq import PqCodec
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import CompileSettings, WorkerSettings
from retomaton_dist.stages.compile import CompilePlan
from retomaton_dist.stages.runner import Recorder, made_with, run_stage, ticket_for
from retomaton_dist.storage import codec, columns, datastore, records, states
from retomaton_dist.storage.automaton import AutomatonShape
from retomaton_dist.storage.canonical import content_hash
from retomaton_dist.storage.codec import CodecFiles
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store, writing
from tests.automaton.make import arrange
from tests.benchmarks.memory import Peak, own_memory
from tests.storage import make

try:
    from scipy.sparse import csr_matrix
except ImportError:
    csr_matrix = None

MEMBERS, CODE_SIZE, CELLS, WIDTH, DOCUMENT = 100, 64, 256, 64, 500
CONFIG = {"unit_chunks": 1}


def build(path, entries):
    """A store with a datastore of narrow keys, a clustering and codes, all of it random."""
    random = np.random.default_rng(0)
    shape = Shape(entries, 1, datastore.choose_chunk_entries(entries, 64))
    with writing(path) as writer:
        writer.begin("extract", CONFIG, shape.chunks, {})
        files = datastore.create(path, shape)
        for chunk in range(shape.chunks):
            first, last = shape.chunk_range(chunk)
            pointers = np.arange(first + 1, last + 1)
            pointers[(pointers % DOCUMENT == 0) | (pointers == entries)] = -1
            keys = np.zeros((last - first, 1), np.float16)
            values = random.zipf(1.3, last - first).clip(0, 30_000).astype(np.int32)
            written = datastore.write_chunk(path, chunk, keys, values, pointers)
            records.write(path, "extract", Record(chunk, content_hash(CONFIG), written))
        facts = {"entries": entries, "dimension": 1, "chunk_entries": shape.chunk_entries}
        writer.finish("extract", files, facts)
        count = entries // MEMBERS
        numbers = random.integers(0, count, entries).astype(np.uint32)
        writer.begin("cluster/kmeans", {"algorithm": "kmeans"}, 1, {})
        files = make.write_states(path, "kmeans", numbers)
        sizes = np.bincount(numbers, minlength=count).astype(np.int64)
        files |= states.write_column(path, "kmeans", "sizes", sizes)
        writer.finish("cluster/kmeans", files, {"states": count}, merges=True)
        writer.begin("codec/pq", {}, 1, {})
        writer.finish("codec/pq", write_codes(path, entries, random), {}, merges=True)


def write_codes(path, entries, random):
    folder = path / codec.FOLDER / "pq"
    listed = codes_of(path, entries)
    zeros = {name: np.zeros(length, kind) for name, (kind, length) in listed.books.items()}
    written = listed.write_books(zeros)
    files = {f"codecs/pq/{name}.arrow": digest for name, digest in written.items()}
    for name, (kind, width) in listed.rows.items():
        rows = random.integers(0, 255, entries * width, np.uint8).astype(kind)
        files[f"codecs/pq/{name}.arrow"] = columns.write_columns(
            folder / f"{name}.arrow", {name: rows}
        )
    return files


def codes_of(path, entries):
    sizes = CodecSizes(WIDTH, CODE_SIZE, CELLS)
    rows, books = PqCodec().rows(sizes), PqCodec().books(sizes)
    return CodecFiles(path / codec.FOLDER / "pq", entries, rows, books)


def planned(path, unit_entries):
    """The stage, before it runs; codes are of wider keys than the store's."""
    store = Store.open(path)
    clustering = store.states("kmeans")
    entries = clustering.datastore.shape.entries
    shape = AutomatonShape(entries, clustering.count, WIDTH, "pq", CODE_SIZE, CELLS)
    settings = CompileSettings(states="kmeans", unit_entries=unit_entries)
    return CompilePlan(store, settings, clustering, shape, codes_of(path, entries))


def ours(path, unit_entries, workers):
    """Run the stage in this process, as so many workers would."""
    plan = planned(path.resolve(), unit_entries)
    with writing(path) as writer, Session(WorkerSettings(workers=0, progress="none")) as session:
        if workers > 1:
            do_units(writer, plan, workers)
        run_stage(writer, plan, session)


def do_units(writer, plan, workers):
    """Have threads do all units, round after round; the stage is not finished then."""
    writer.begin(plan.name, plan.config, len(plan.units), made_with(plan.gpu))
    plan.prepare()
    ticket, make, own = ticket_for(writer, plan), plan.worker(), threading.local()

    def begin():
        own.recorder = Recorder(ticket.keep, make, ticket.check)

    with ThreadPoolExecutor(workers, initializer=begin) as pool:
        for numbers in plan.rounds:
            units = [(number, plan.units[number]) for number in numbers]
            list(pool.map(lambda unit: own.recorder.run(unit), units))


def theirs(path, *_):
    """A dict of sets over every entry, lists of rows and columns, a sparse matrix, a pickle."""
    numbers = np.array(Store.open(path).states("kmeans").state_of_entry, np.int64)
    members = collections.defaultdict(set)
    for entry, state in enumerate(numbers):
        members[state.item()].add(entry)
    rows = [state for state, found in members.items() for _ in range(len(found))]
    entries = [entry for found in members.values() for entry in found]
    matrix = (csr_matrix or stand_in)(([1] * len(rows), (rows, entries)))
    with (path / "members.pickle").open("wb") as file:
        pickle.dump(matrix, file)


def stand_in(lists):
    """What scipy makes of three lists: arrays, then entries and data by row, sorted in each."""
    data, (rows, entries) = np.array(lists[0]), map(np.array, lists[1])
    rows, entries = rows.astype(np.int32), entries.astype(np.int32)
    order = np.lexsort((entries, rows))
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows))])
    return data[order], entries[order], starts


def layout(path, *_):
    """All columns but codes, in memory."""
    clustering = Store.open(path).states("kmeans")
    datastore = clustering.datastore
    arrange(clustering.state_of_entry, datastore.values, datastore.pointers, clustering.count)


CONTESTANTS = {"ours": ours, "theirs": theirs, "layout": layout}


def child(kind, path, *settings):
    """Run one contestant; print seconds and the peak of its own memory."""
    with tempfile.TemporaryDirectory() as folder:
        # What is imported on first use does not count.
        build(Path(folder) / "s.store", 5000)
        CONTESTANTS[kind](Path(folder) / "s.store", *settings)
    before, start, cpu = own_memory(), time.perf_counter(), time.process_time()
    with Peak() as peak:
        CONTESTANTS[kind](Path(path), *settings)
    spent = time.perf_counter() - start, time.process_time() - cpu
    print(*spent, max(peak.bytes - before, 1))


def run(kind, path, unit_entries, workers):
    line = [sys.executable, "-m", "tests.benchmarks.compiling", "--child", kind, str(path)]
    line += ["--unit-entries", str(unit_entries), "--workers", str(workers)]
    result = subprocess.run(line, capture_output=True, text=True, check=True)
    return tuple(map(float, result.stdout.split()))


def best(kind, entries, unit_entries, workers, repeats):
    """Seconds, CPU seconds and peak: each the least of several runs, every one on a new store."""
    results = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "s.store"
            build(path, entries)
            results.append(run(kind, path, unit_entries, workers))
    return tuple(min(column) for column in zip(*results, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--unit-entries", type=int, default=1 << 17)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(*given.child, given.unit_entries, given.workers)
        return
    print(f"peer's sparse matrix: {'scipy' if csr_matrix else 'stand-in for scipy, faster'}")
    for entries in (given.entries // 4, given.entries):
        peer = best("theirs", entries, 0, 1, given.repeats)
        print(f"{entries:,} entries: peer {described(peer)}")
        lean = best("layout", entries, 0, 1, given.repeats)
        print(f"{entries:,} entries: layout {described(lean)}: {peer[0] / lean[0]:.1f}x faster")
        for workers in sorted({1, given.workers}):
            mine = best("ours", entries, given.unit_entries, workers, given.repeats)
            print(
                f"{entries:,} entries: ours, {workers} workers, {described(mine)}: "
                f"{peer[0] / mine[0]:.1f}x faster, {peer[2] / mine[2]:.1f}x less memory"
            )


def described(result):
    seconds, cpu, peak = result
    return f"{seconds:.2f} s ({cpu:.2f} s CPU), peak {peak / 1e6:.0f} MB"


if __name__ == "__main__":
    main()
