"""Search: sharded against unsharded FAISS, the service against one process, training, and memory.

    python -m tests.benchmarks.search [--entries 200000] [--repeats 7] [--only training]

All ratios come from one run whose repeats are interleaved; the fastest of each counts.
"""

import argparse
import contextlib
import itertools
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import ray

import retomaton_dist as rd
from retomaton_dist.runtime.session import Session
from retomaton_dist.search.factory import UNDIVIDED
from retomaton_dist.search.layout import IndexFiles, Layout
from retomaton_dist.search.library import faiss
from retomaton_dist.settings import IndexSettings, WorkerSettings
from retomaton_dist.stages.index import plan_index
from retomaton_dist.stages.runner import Recorder, run_stage, ticket_for
from retomaton_dist.storage.store import Store, writing
from tests.conftest import ROOT
from tests.search.made import make_store, serving

BATCH, K, DIMENSION, PROBES = 256, 1024, 256, 32


def made_keys(entries, seed=0):
    """Keys in clumps of very different sizes that leave the same few directions, as LMs' do."""
    chosen = np.random.default_rng(seed)
    centres = chosen.standard_normal((500, DIMENSION)).astype(np.float32)
    basis = chosen.standard_normal((24, DIMENSION)).astype(np.float32) / 5
    clump = chosen.zipf(1.3, entries) % 500
    rows = centres[clump] + chosen.standard_normal((entries, 24), np.float32) @ basis
    return rows.astype(np.float16)


def build(path, entries, shards, cells):
    """A store of made keys with one index."""
    make_store(path, made_keys(entries), [100] * (entries // 100))
    return rd.index(
        path, factory=f"IVF{cells},SQ8", shards=shards, workers=2, sample=40 * cells,
        parameters=f"nprobe={PROBES}", recall_queries=32, progress="none",
    )  # fmt: skip


def unsharded(store):
    """One plain FAISS index with the same codebook, in memory, all keys in it."""
    index = faiss.read_index(str(store.path / "index/default/trained.faiss"))
    datastore = store.store.datastore()
    for chunk in range(datastore.shape.chunks):
        first, last = datastore.shape.chunk_range(chunk)
        index.add(datastore.keys[first:last].astype(np.float32))
    index.nprobe = PROBES
    return index


def interleaved(repeats, **calls):
    """Seconds of each call: the least of repeats that take turns, after one to warm up."""
    best = dict.fromkeys(calls, np.inf)
    for repeat in range(repeats + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if repeat:
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def throughput(store, repeats):
    """Batches of 256 queries: one index, two shards in this process, two actors."""
    faiss.omp_set_num_threads(2)
    queries = made_keys(BATCH, seed=1).astype(np.float32)
    index, local = unsharded(store), store.searcher()
    with serving(IndexFiles.open(store.store, "default")) as service:
        seconds = interleaved(
            repeats,
            unsharded=lambda: index.search(queries, K),
            local=lambda: local.search(queries, K),
            service=lambda: service.search(queries, K),
        )
        status = service.status()
    for name, value in seconds.items():
        print(f"  {name:<10} {value * 1000:8.1f} ms per batch, {BATCH / value:8.0f} queries/s")
    print(f"  in process, 2 shards / unsharded: {seconds['unsharded'] / seconds['local']:.2f}")
    print(f"  service, 2 actors / unsharded:    {seconds['unsharded'] / seconds['service']:.2f}")
    print(f"  service overhead over in process: {seconds['service'] / seconds['local'] - 1:+.1%}")
    return status, seconds["local"]


def transport(tiny, local_seconds, repeats):
    """What the service adds to a batch, measured where next to nothing is searched.

    It depends on the batch, k and the number of shards alone, and takes so little time that
    the fastest of many repeats is not disturbed by other load.
    """
    queries, local = made_keys(BATCH, seed=1).astype(np.float32), tiny.searcher()
    with serving(IndexFiles.open(tiny.store, "default")) as service:
        seconds = interleaved(
            10 * repeats,
            local=lambda: local.search(queries, K),
            service=lambda: service.search(queries, K),
        )
        status = service.status()
    added = seconds["service"] - seconds["local"]
    print(
        f"  the service adds {added * 1000:.1f} ms to a batch over a tiny index, "
        f"{added / local_seconds:+.1%} of a batch in process above"
    )
    return status


def resident(status, tiny_status):
    """What an actor holds beyond one that serves next to nothing."""
    for shard in status:
        more = shard["resident_bytes"] - tiny_status[0]["resident_bytes"]
        print(
            f"  shard {shard['shard']}: file {shard['file_bytes'] / 1e6:.0f} MB, resident "
            f"{shard['resident_bytes'] / 1e6:.0f} MB, {more / 1e6:+.0f} MB over an actor with a "
            f"shard of {tiny_status[0]['file_bytes'] / 1e6:.1f} MB"
        )


@contextlib.contextmanager
def planned_index(path, settings, division=None):
    """An index that is planned but not built, and what makes workers for it."""
    plan = plan_index(Store.open(path), settings, 1)
    if division is not None:
        plan = replace(plan, recipe=replace(plan.recipe, division=division))
    with writing(path) as writer:
        writer.begin(plan.name, plan.config, len(plan.units), {})
        ticket = ticket_for(writer, plan)
        yield plan, partial(Recorder, ticket.keep, plan.worker(), ticket.check)


def train(path, name, factory, session, division=None):
    """Train an index and nothing else; return the seconds that it took."""
    settings = IndexSettings(name=name, factory=factory, recall_queries=8)
    with planned_index(path, settings, division) as (plan, make):
        start = time.perf_counter()
        plan.lead(session)
        with session.pool(make, gpu=False) as pool:
            for group in plan.rounds[:3]:
                units = [(number, plan.units[number]) for number in group]
                list(pool.run(units, list(group)))
        return time.perf_counter() - start


def training(path, entries, factory, repeats):
    """One worker, two workers, and FAISS as a whole; warmed up, taking turns."""
    make_store(path, made_keys(entries), [100] * (entries // 100))
    best = {}
    ways = {"1 worker": (1, None), "2 workers": (2, None), "FAISS, whole": (1, UNDIVIDED)}
    for repeat in range(repeats):
        for way, (workers, division) in ways.items():
            with Session(WorkerSettings(workers=workers, progress="none")) as session:
                for turn in ("warm", "timed"):
                    name = f"{turn}-{repeat}-{workers}{'-whole' * (division is not None)}"
                    seconds = train(path, name, factory, session, division)
            best[way] = min(best.get(way, math.inf), seconds)
    for way, seconds in best.items():
        print(f"  {way:<13} {seconds:7.2f} s")
    print(f"  2 workers / 1 worker: {best['1 worker'] / best['2 workers']:.2f}")


def recall(path, factory):
    """Recall at equal nprobe: trained in parts, and by FAISS as a whole."""
    for name, division in (("parts", None), ("whole", UNDIVIDED)):
        settings = IndexSettings(name=name, factory=factory, target_recall=1.0)
        plan = plan_index(Store.open(path), settings, 1)
        if division is not None:
            plan = replace(plan, recipe=replace(plan.recipe, division=division))
        with (
            Session(WorkerSettings(workers=2, progress="none")) as session,
            writing(path) as writer,
        ):
            run_stage(writer, plan, session)
        tried = Layout.read(path, name).recall["tried"]
        shown = ", ".join(f"{at} {value:.3f}" for at, value in tried.items())
        print(f"  {name}: {shown}", flush=True)


def fill_shard(path, shards):
    """Make shard 0 in this process and print the peaks; the kernel counts mapped keys as well."""
    settings = IndexSettings(name="memory", factory="IVF256,SQ8", shards=shards, sample=10_240)
    with planned_index(path, settings) as (plan, make):
        recorder, before = make(), peak_bytes()
        for number in plan.parts.block_numbers(0):
            recorder.run((number, plan.units[number]))
        filled = peak_bytes()
        recorder.run((0, plan.units[0]))
    size = (Path(path) / "index/memory/shard-00000.faiss").stat().st_size
    print(
        f"  {plan.layout.entries:>9,} entries in {shards} shards: peak {filled / 1e6:.0f} MB after "
        f"filling {len(plan.parts.block_numbers(0))} blocks, {peak_bytes() / 1e6:.0f} MB after "
        f"merging, {before / 1e6:.0f} MB before; shard {size / 1e6:.0f} MB",
        flush=True,
    )


def peak_bytes():
    """Peak of this program alone; ru_maxrss would count the process that started it."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def build_memory(folder, entries):
    """Shards of the same size of stores that differ by four, and one of four times the size."""
    for number, (times, shards) in enumerate(((1, 2), (4, 8), (4, 2))):
        count = entries * times
        keys, lengths = made_keys(count), [100] * (count // 100)
        path = make_store(folder / f"m{number}.store", keys, lengths)
        settings = IndexSettings(name="memory", factory="IVF256,SQ8", shards=shards, sample=10_240)
        with (
            planned_index(path, settings) as (plan, make),
            Session(WorkerSettings(workers=0, progress="none")) as session,
        ):
            plan.lead(session)
            recorder = make()
            for unit in itertools.chain(*plan.rounds[:3]):
                recorder.run((unit, plan.units[unit]))
        script = f"from tests.benchmarks.search import fill_shard as f; f({str(path)!r}, {shards})"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, check=True)


def search(folder, entries, repeats):
    """Throughput, what the service adds, and what its actors hold."""
    store = build(folder / "large.store", entries, 2, 512)
    tiny = build(folder / "tiny.store", 4000, 2, 32)
    print(f"search: {entries:,} x {DIMENSION}, IVF512,SQ8, nprobe {PROBES}, k {K}")
    status, local_seconds = throughput(store, repeats)
    tiny_status = transport(tiny, local_seconds, repeats)
    print("resident memory of search actors")
    resident(status, tiny_status)


def main():
    """Run all measurements, or one kind of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--factory", default="IVF1024,SQ8")
    parser.add_argument("--only", choices=("search", "training", "recall", "memory"))
    chosen = parser.parse_args()
    wanted = [chosen.only] if chosen.only else ["search", "training", "recall", "memory"]
    entries, factory = chosen.entries, chosen.factory
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "trained.store"
        if "search" in wanted:
            search(folder, entries, chosen.repeats)
        if "training" in wanted:
            print(f"training {factory} of {entries:,} x {DIMENSION}")
            training(path, entries, factory, 1 + chosen.repeats // 4)
        if "recall" in wanted:
            print(f"recall of {factory} over {entries:,} x {DIMENSION}")
            if not path.exists():
                make_store(path, made_keys(entries), [100] * (entries // 100))
            recall(path, factory)
        ray.shutdown()
        if "memory" in wanted:
            print("memory of making a shard")
            build_memory(folder, entries // 4)


if __name__ == "__main__":
    main()
