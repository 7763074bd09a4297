"""Compiling a clustering, against the authors' way: dict of sets, sparse matrix, pickle.

    python -m tests.benchmarks.compiling [--entries 1000000]

Both start from the state of every entry. The peer builds what its walks need, the members of each
state; we build all columns, durably and with digests. Each runs in a process of its own, ours as
one worker without Ray. Codes are there already: training and encoding are not counted, taking them
along into slot order is. Memory is the peak's growth (anonymous pages: no file's).
"""

import argparse
import collections
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from retomaton_dist.stages.compile import _finish, state_ranges
from retomaton_dist.stages.compile_worker import ROUNDS, Blueprint, CompileWorker, Share
from retomaton_dist.stages.runner import Plan
from storage import codec, columns, datastore, preallocated, records, states
from storage.automaton import AutomatonShape
from storage.canonical import content_hash
from storage.codec import CodecFiles
from storage.datastore import Shape
from storage.records import Record
from storage.store import Store, writing

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
        files = states.write_states(path, "kmeans", numbers)
        sizes = np.bincount(numbers, minlength=count).astype(np.int64)
        files |= states.write_column(path, "kmeans", "sizes", sizes)
        writer.finish_merged("cluster/kmeans", files, {"states": count})
    folder = codec.folder_of(path, "pq")
    zeros = np.zeros((CELLS, WIDTH), np.float32), np.zeros((CODE_SIZE, 1, 256), np.float32)
    codec.write_books(path, "pq", *zeros)
    for name, kind in codec.CODES.items():
        width = CODE_SIZE if name == "codes" else 1
        rows = random.integers(0, 255, entries * width, np.uint8).astype(kind)
        columns.write_columns(folder / f"{name}.arrow", {name: rows})


def ours(path, unit_entries):
    """Run all units in this process, as one worker would."""
    store = Store.open(path)
    clustering = store.states("kmeans")
    entries = store.datastore().shape.entries
    shape = AutomatonShape(entries, clustering.count, WIDTH, "pq", CODE_SIZE, CELLS)
    files = CodecFiles(codec.folder_of(path, "pq"), entries, WIDTH, CODE_SIZE, CELLS)
    blueprint = Blueprint(store, "kmeans", clustering, shape, files)
    shares = [Share("order", *pair) for pair in state_ranges(blueprint.offsets, unit_entries)]
    for kind in ROUNDS[1:]:
        starts = range(0, entries, unit_entries)
        shares += [Share(kind, start, min(start + unit_entries, entries)) for start in starts]
    plan = Plan("compile/kmeans", {"bench": 1}, shares, [1] * len(shares), "entries")
    with writing(path) as writer:
        writer.begin(plan.name, plan.config, len(shares), {})
        for name in blueprint.filled():
            preallocated.preallocate(blueprint.part(name), name, *shape.columns()[name])
        worker = CompileWorker(blueprint, plan.config_hash)
        for unit in enumerate(shares):
            worker.run(unit)
        _finish(writer, plan, blueprint)


def theirs(path, _):
    """A dict of sets over every entry, lists of rows and columns, a sparse matrix, a pickle."""
    numbers = np.array(Store.open(path).states("kmeans").state_of_entry)
    members = collections.defaultdict(set)
    for entry, state in enumerate(numbers):
        members[state].add(entry)
    rows, entries = [], []
    for state, found in members.items():
        rows.extend([state] * len(found))
        entries.extend(found)
    data, rows, entries = np.array([1] * len(rows)), np.array(rows), np.array(entries)
    order = np.lexsort((entries, rows))
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows))])
    with (path / "members.pickle").open("wb") as file:
        pickle.dump((data[order], entries[order], starts), file)


CONTESTANTS = {"ours": ours, "theirs": theirs}


def own_memory():
    """Bytes of this process that are no file's."""
    text = Path("/proc/self/status").read_text()
    fields = dict(line.split(":", 1) for line in text.splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024


def child(kind, path, unit_entries):
    """Run one contestant; print seconds and the peak of its own memory."""
    with tempfile.TemporaryDirectory() as folder:
        # What is imported on first use does not count.
        build(Path(folder) / "s.store", 5000)
        CONTESTANTS[kind](Path(folder) / "s.store", unit_entries)
    before, peak, done = own_memory(), 0, threading.Event()

    def watch():
        nonlocal peak
        while not done.wait(0.005):
            peak = max(peak, own_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start, cpu = time.perf_counter(), time.process_time()
    CONTESTANTS[kind](Path(path), unit_entries)
    print(time.perf_counter() - start, time.process_time() - cpu, max(peak - before, 1))
    done.set()
    watcher.join()


def run(kind, path, unit_entries):
    line = [sys.executable, "-m", "tests.benchmarks.compiling", "--child", kind, str(path)]
    line += ["--unit-entries", str(unit_entries)]
    result = subprocess.run(line, capture_output=True, text=True, check=True)
    return tuple(map(float, result.stdout.split()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--unit-entries", type=int, default=1 << 17)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(*given.child, given.unit_entries)
        return
    for entries in (given.entries // 4, given.entries):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "s.store"
            build(path, entries)
            peer, mine = run("theirs", path, 0), run("ours", path, given.unit_entries)
        print(
            f"{entries:,} entries: ours {mine[0]:.2f} s ({mine[1]:.2f} s CPU), peak "
            f"{mine[2] / 1e6:.0f} MB; peer {peer[0]:.2f} s ({peer[1]:.2f} s CPU), peak "
            f"{peer[2] / 1e6:.0f} MB: {peer[0] / mine[0]:.1f}x faster ({peer[1] / mine[1]:.1f}x "
            f"CPU), {peer[2] / mine[2]:.1f}x less memory"
        )


if __name__ == "__main__":
    main()
