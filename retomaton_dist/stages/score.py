"""The stage `score`: what the LM and all walks make of every position of a text.

The text lies in a store of its own, which the stage `tokenize` has made. A unit is a group of
documents and one pass over them, so that what it finds never depends on who else works.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.evaluation.passes import Pass
from retomaton_dist.runtime.cluster import Session
from retomaton_dist.stages.runner import Plan, begin, run_missing
from retomaton_dist.stages.score_worker import STAGE, ScoreJob, ScoreWorker
from storage import records
from storage.canonical import Json, content_hash
from storage.manifest import Stage
from storage.store import Store, StoreWriter

LEAST_UNITS, MOST_POSITIONS, LEAST_POSITIONS = 8, 16_384, 2048

Payload = tuple[int, list[int]]


def choose_documents(lengths: NDArray[np.int64], positions: int | None) -> list[int]:
    """All documents, or some, drawn at random but always the same, that hold `positions`."""
    everything = np.arange(len(lengths))
    if positions is None or int(lengths.sum()) <= positions:
        return everything.tolist()
    order = np.random.default_rng(0).permutation(everything)
    enough = int(np.searchsorted(np.cumsum(lengths[order]), positions)) + 1
    return sorted(order[:enough].tolist())


def group_documents(documents: Sequence[int], lengths: NDArray[np.int64]) -> list[list[int]]:
    """Cut documents into groups of like size: enough of them to share out."""
    total = int(lengths[documents].sum())
    size = min(max(total // LEAST_UNITS, LEAST_POSITIONS), MOST_POSITIONS)
    groups: list[list[int]] = [[]]
    held = 0
    for document in documents:
        if held >= size:
            groups.append([])
            held = 0
        groups[-1].append(document)
        held += int(lengths[document])
    return groups


def score(
    writer: StoreWriter, job: ScoreJob, documents: list[int], inputs: Json, session: Session
) -> Stage:
    """Run the stage over these documents, or what is missing of it; `inputs` is in its config."""
    corpus = job.reader.windows.corpus
    groups = group_documents(documents, corpus.lengths)
    units: list[Payload] = [(which, group) for which in range(len(job.passes)) for group in groups]
    work = [float(corpus.lengths[group].sum()) for _, group in units]
    drawn = {"number": len(documents), "digest": content_hash(documents)}
    config = {"documents": drawn, **inputs, **_config(job), "threads": session.settings.threads}
    plan = Plan(STAGE, config, units, work, "positions", gpu=job.reader.device == "cuda")
    missing = begin(writer, plan, session)
    if missing is not None:
        run_missing(plan, missing, partial(ScoreWorker, job, plan.config_hash), session, _shown)
        writer.finish(STAGE, {}, _facts(writer, plan, job))
    return writer.manifest.stages[STAGE]


def seconds_of(text: Store, name: str) -> Json:
    """Seconds that the workers spent on a pass, by part."""
    found: Json = text.stage(STAGE).facts["seconds"][name]
    return found


def _config(job: ScoreJob) -> Json:
    windows, retrieval = job.reader.windows, job.retrieval
    return {
        "context": windows.context,
        "stride": windows.stride,
        "batch_tokens": windows.batch_tokens,
        "device": job.reader.device,
        "walk": asdict(retrieval.settings),
        "search": retrieval.parameters,
        "temperatures": list(job.temperatures),
        "queries": job.keeps_queries,
        "passes": {item.name: _described(item) for item in job.passes},
    }


def _described(item: Pass) -> Json:
    gate = repr(item.gate) if item.gate else None
    return {"walks": [spec.label for spec in item.specs], "live": item.live, "gate": gate}


def _facts(writer: StoreWriter, plan: Plan[Payload], job: ScoreJob) -> Json:
    found = [
        records.read(writer.path, STAGE, unit, plan.config_hash).facts
        for unit in range(len(plan.units))
    ]
    seconds: Json = {item.name: {} for item in job.passes}
    caps: Counter[str] = Counter()
    for facts in found:
        caps.update(facts["caps"])
        summed = seconds[job.passes[facts["pass"]].name]
        for part, spent in facts["seconds"].items():
            summed[part] = summed.get(part, 0.0) + spent
    positions = sum(facts["positions"] for facts in found) // len(job.passes)
    return {"positions": positions, "seconds": seconds, "caps": dict(caps)}


def _shown(summed: Json, _: float) -> Json:
    parts = ("lm", "search", "walk")
    return {part: f"{summed[part] / max(summed['total'], 1e-9):.0%}" for part in parts}
