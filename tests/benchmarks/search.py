"""Search: sharded against unsharded FAISS, the service against one process, and memory.

    python -m tests.benchmarks.search [--entries 200000] [--repeats 7]

All ratios come from one run whose repeats are interleaved; the fastest of each counts.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import ray

import retomaton_dist as rd
from retomaton_dist.runtime.search_service import SearchService
from retomaton_dist.search.layout import IndexFiles
from retomaton_dist.search.library import faiss
from retomaton_dist.settings import IndexSettings
from retomaton_dist.stages.index import plan_index
from retomaton_dist.stages.runner import Recorder, Ticket
from storage.store import Store, writing
from tests.conftest import ROOT
from tests.search.made import make_store

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
    with SearchService.start(IndexFiles.open(store.store, "default")) as service:
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
    with SearchService.start(IndexFiles.open(tiny.store, "default")) as service:
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
def planned_index(path, shards):
    """An index that is planned but not built, and what does single units of it without Ray."""
    settings = IndexSettings(name="memory", factory="IVF256,SQ8", shards=shards, sample=10_240)
    plan = plan_index(Store.open(path), settings, 1)
    with writing(path) as writer:
        writer.begin(plan.name, plan.config, len(plan.units), {})
        ticket = Ticket(writer.path.resolve(), writer.token, plan.name, plan.config_hash, 0)
        yield plan, Recorder(ticket, plan.worker())


def fill_shard(path, shards):
    """Fill shard 0 in this process and print its peak; the kernel counts mapped keys as well."""
    with planned_index(path, shards) as (plan, recorder):
        before = peak_bytes()
        recorder.run((0, plan.units[0]))
    size = (Path(path) / "index/memory/shard-00000.faiss").stat().st_size
    print(
        f"  {plan.layout.entries:>9,} entries in {shards} shards: peak {peak_bytes() / 1e6:.0f} "
        f"MB, of which {before / 1e6:.0f} MB before filling; shard {size / 1e6:.0f} MB",
        flush=True,
    )


def peak_bytes():
    """Peak of this program alone; ru_maxrss would count the process that started it."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def build_memory(folder, entries):
    """Twice: shards of the same size, of stores that differ by four."""
    for times, shards in ((1, 2), (4, 8)):
        count = entries * times
        path = make_store(folder / f"m{times}.store", made_keys(count), [100] * (count // 100))
        with planned_index(path, shards) as (plan, recorder):
            [training], _ = plan.rounds
            recorder.run((training, plan.units[training]))
        script = f"from tests.benchmarks.search import fill_shard as f; f({str(path)!r}, {shards})"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, check=True)


def main():
    """Run all four measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=7)
    chosen = parser.parse_args()
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = build(folder / "large.store", chosen.entries, 2, 512)
        tiny = build(folder / "tiny.store", 4000, 2, 32)
        print(f"search: {chosen.entries:,} x {DIMENSION}, IVF512,SQ8, nprobe {PROBES}, k {K}")
        status, local_seconds = throughput(store, chosen.repeats)
        tiny_status = transport(tiny, local_seconds, chosen.repeats)
        print("resident memory of search actors")
        resident(status, tiny_status)
        ray.shutdown()
        print("memory of filling a shard")
        build_memory(folder, chosen.entries // 4)


if __name__ == "__main__":
    main()
