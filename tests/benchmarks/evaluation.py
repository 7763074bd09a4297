"""Evaluating a text: a whole figure against one kNN-LM pass, and live searches saved.

    python -m tests.benchmarks.evaluation law.store --text law/test.en [--positions 4000]
    python -m tests.benchmarks.evaluation --small

The stage's worker with one thread, without Ray; the store needs an index and the automaton
`kmeans`. The peer is a kNN-LM pass over the same documents in the same blocks: the LM, a search at
every position, its candidates measured and summed. Live passes run in lock-step over the same
lanes.
Without a store it says so and ends; `--small` makes one, only to show that all of this works.
"""

import argparse
import math
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import faiss

import retomaton_dist as rd
from retomaton_dist.engine.scores import Scores
from retomaton_dist.engine.walks import WalkSpec, stateless_walk
from retomaton_dist.evaluation.prepare import prepare
from retomaton_dist.evaluation.score import choose_documents
from retomaton_dist.evaluation.score_worker import Pass, ScoreJob, ScoreWorker
from retomaton_dist.evaluation.text import plan_text
from retomaton_dist.runtime.session import Session
from retomaton_dist.runtime.threads import limit_torch
from retomaton_dist.settings import PRESETS, EvaluateSettings, WorkerSettings
from retomaton_dist.storage.store import writing
from tests.benchmarks.memory import Peak
from tests.benchmarks.small_store import build_small

TAUS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, math.inf)
LIVE_TAUS = (1.0, 16.0, 64.0)
TEMPERATURES = (4.0, 8.0, 16.0)
ALONE = WorkerSettings(workers=0, progress="none")


def make_job(given, folder, session):
    """Tokenise the text; return a job without passes, and the documents to score."""
    settings = EvaluateSettings(text=(given.text,), split=given.split, model=given.model)
    settings = replace(
        settings, lambda_=0.5, knn_temperature=8.0, automata="kmeans", index=given.index
    )
    prepared = prepare(given.store, settings, PRESETS[given.preset], session)
    planned = plan_text("--text", settings.text, folder, prepared)
    with writing(folder) as writer:
        corpus = planned.tokenize(writer, session)
    job = ScoreJob(prepared.reader(corpus), prepared.retrieval, (), TEMPERATURES, False)
    return job, corpus


def run(job, documents, passes):
    """Score the documents by each pass in turn; return the seconds of each, by part."""
    worker = ScoreWorker(replace(job, passes=tuple(passes)))
    worker.run(0, (0, documents[:1]))
    found = [worker.run(1, (which, documents)).facts for which in range(len(passes))]
    return [{**facts["seconds"], "positions": facts["positions"]} for facts in found]


def foss_of(job, chosen):
    path = job.reader.windows.corpus.store / "scores" / chosen.name / "unit-00001.parquet"
    return 1 - float(Scores((path,)).searched(chosen.specs[0].label).mean())


def compare_figure(job, documents):
    knn = Pass("knn", (stateless_walk("kmeans"),))
    figure = Pass("figure", (stateless_walk("kmeans"), *(WalkSpec("kmeans", tau) for tau in TAUS)))
    one, all_of_it, again = run(job, documents, [knn, figure, knn])
    peer = min(one["total"], again["total"])
    print(f"{one['positions']:,} positions; kNN-LM pass {peer:.1f} s ({parts(one)})")
    print(
        f"figure of lm, knnlm and {len(TAUS)} taus: {all_of_it['total']:.1f} s "
        f"({parts(all_of_it)}): {all_of_it['total'] / peer:.2f} times the kNN-LM pass"
    )


def compare_live(job, documents):
    knn = Pass("live-knn", (stateless_walk("kmeans"),), live=True)
    walks = [Pass(f"live-{tau:g}", (WalkSpec("kmeans", tau),), live=True) for tau in LIVE_TAUS]
    peer, *found = run(job, documents, [knn, *walks])
    beyond = peer["total"] - peer["lm"]
    print(f"live kNN-LM {peer['total']:.1f} s ({parts(peer)})")
    for chosen, spent in zip(walks, found, strict=True):
        saved, foss = 1 - (spent["total"] - spent["lm"]) / beyond, foss_of(job, chosen)
        print(
            f"live tau {chosen.specs[0].tau:g}: FoSS {foss:.3f}, retrieval time saved {saved:.3f} "
            f"(FoSS {saved - foss:+.3f}), in all {1 - spent['total'] / peer['total']:.3f} "
            f"({parts(spent)})"
        )


def compare_memory(job, corpus, least):
    chosen = Pass("memory", tuple(WalkSpec("kmeans", tau) for tau in (1.0, math.inf)))
    for limit in (least, 3 * least, 9 * least):
        documents = choose_documents(corpus.lengths, limit)
        with Peak() as peak:
            run(job, documents, [chosen])
        positions = int(corpus.lengths[documents].sum())
        print(f"memory over {positions:,} positions: peak {peak.bytes / 1e6:.0f} MB")


def parts(spent):
    return ", ".join(f"{name} {spent[name]:.1f}" for name in ("lm", "search", "walk", "rest"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", nargs="?")
    parser.add_argument("--text")
    parser.add_argument("--split")
    parser.add_argument("--model")
    parser.add_argument("--index", default="default")
    parser.add_argument("--preset", default="reference")
    parser.add_argument("--positions", type=int, default=4000)
    parser.add_argument("--small", action="store_true", help="a store made on the spot, no figures")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.small:
            made = build_small(Path(folder))
            given.store, given.text, given.positions = made.path, str(made.text), 300
        if given.store and given.text:
            measure(given, Path(folder))
        else:
            print("no store and --text were named: nothing is measured")


def measure(given, folder):
    print(f"{given.store}: {rd.open(given.store).entries:,} entries, preset {given.preset}")
    start = time.perf_counter()
    limit_torch(1)
    faiss.omp_set_num_threads(1)
    with Session(ALONE) as session:
        job, corpus = make_job(given, folder / "text", session)
        documents = choose_documents(corpus.lengths, given.positions)
        compare_figure(job, documents)
        compare_live(job, documents)
        compare_memory(job, corpus, given.positions // 3)
    print(f"{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
