"""The stage `score`: what the LM and all walks make of every position of a text.

The text lies in a store of its own, which the stage `tokenize` has made. A unit is a group of
documents and one pass over them, so that what it finds never depends on who else works.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.engine.block_scores import Pass
from retomaton_dist.engine.walks import KEPT_COLUMNS
from retomaton_dist.evaluation.score_worker import ScoreJob, ScoreUnit, ScoreWorker
from retomaton_dist.lm.identity import ModelSpec
from retomaton_dist.stages.runner import Done, Plan
from retomaton_dist.storage.canonical import Json, content_hash
from retomaton_dist.storage.checked import check_stage
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store

STAGE = "score"
LEAST_UNITS, MOST_POSITIONS, LEAST_POSITIONS = 8, 16_384, 2048


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


@dataclass(frozen=True)
class ScorePlan(Plan[ScoreUnit]):
    """Documents of a text that are scored, and how; `inputs` are digests of what else counts."""

    job: ScoreJob
    documents: list[int]
    inputs: Json
    threads: int

    work_name = "positions"

    @property
    def name(self) -> str:
        """There is one per text."""
        return STAGE

    @property
    def gpu(self) -> bool:  # type: ignore[override]
        """As the model."""
        return self.job.reader.device == "cuda"

    @property
    def loads(self) -> ModelSpec:  # type: ignore[override]
        """The model that reads the text."""
        return self.job.reader.model

    @property
    def reads(self) -> list[Path]:  # type: ignore[override]
        """The store whose automata are walked."""
        return [self.job.retrieval.store.resolve()]

    @cached_property
    def config(self) -> Json:
        """The documents, what they are scored with, and how they are read."""
        windows, retrieval = self.job.reader.windows, self.job.retrieval
        drawn = {"number": len(self.documents), "digest": content_hash(self.documents)}
        return {
            "documents": drawn,
            **self.inputs,
            "context": windows.context,
            "stride": windows.stride,
            "batch_tokens": windows.batch_tokens,
            "device": self.job.reader.device,
            "walk": asdict(retrieval.settings),
            "search": retrieval.parameters,
            "temperatures": list(self.job.temperatures),
            "queries": self.job.keeps_queries,
            "columns": list(KEPT_COLUMNS),
            "passes": {item.name: _described(item) for item in self.job.passes},
            "threads": self.threads,
        }

    @cached_property
    def units(self) -> list[ScoreUnit]:
        """Groups of documents, once for every pass."""
        groups = group_documents(self.documents, self.job.reader.corpus.lengths)
        return [(which, group) for which in range(len(self.job.passes)) for group in groups]

    @cached_property
    def work(self) -> list[float]:
        """Positions of each unit."""
        lengths = self.job.reader.corpus.lengths
        return [float(lengths[group].sum()) for _, group in self.units]

    def worker(self) -> Callable[[], ScoreWorker]:
        """Reads, searches and walks; a text that was altered is refused."""
        check_stage(Store.open(self.job.reader.corpus.store), "tokenize")
        return partial(ScoreWorker, self.job)

    def finish(self, units: Sequence[Record]) -> Done:
        """Nothing is joined; seconds and caps are added up."""
        seconds: Json = {item.name: {} for item in self.job.passes}
        caps: Counter[str] = Counter()
        for unit in units:
            caps.update(unit.facts["caps"])
            summed = seconds[self.job.passes[unit.facts["pass"]].name]
            for part, spent in unit.facts["seconds"].items():
                summed[part] = summed.get(part, 0.0) + spent
        positions = sum(unit.facts["positions"] for unit in units) // len(self.job.passes)
        return Done(facts={"positions": positions, "seconds": seconds, "caps": dict(caps)})

    def shown(self, summed: Mapping[str, float], seconds: float) -> Json:  # noqa: ARG002
        """Where the time goes."""
        parts = ("lm", "search", "walk")
        return {part: f"{summed[part] / max(summed['total'], 1e-9):.0%}" for part in parts}


def _described(item: Pass) -> Json:
    gate = repr(item.gate) if item.gate else None
    return {"walks": [spec.label for spec in item.specs], "live": item.live, "gate": gate}


def seconds_of(text: Store, name: str) -> Json:
    """Seconds that the workers spent on a pass, by part."""
    found: Json = text.stage(STAGE).facts["seconds"][name]
    return found
