"""The worker of the stage `score`: writes the scores of groups of documents."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from retomaton_dist.engine.block_scores import BlockScorer, Pass, SlabScores
from retomaton_dist.engine.retrieval import Retrieval
from retomaton_dist.engine.text_reader import TextReader, blocks
from retomaton_dist.stages.runner import Done
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.scores import ScoreWriter

CAPS = ("states", "candidates", "empty")

ScoreUnit = tuple[int, list[int]]
"""Which pass, and the documents to score by it."""


@dataclass(frozen=True)
class ScoreJob:
    """What a worker needs: the text, what is walked, and what is written down."""

    reader: TextReader
    retrieval: Retrieval
    passes: tuple[Pass, ...]
    temperatures: tuple[float, ...]
    keeps_queries: bool


class ScoreWorker:
    """Writes the scores of units: pairs of a pass and the documents to score by it."""

    def __init__(self, job: ScoreJob) -> None:
        self._job = job
        # Loaded now, so that no unit's seconds count it.
        _ = job.reader.lm, job.retrieval.opened
        if job.reader.key_reader is not None:
            _ = job.reader.key_reader.lm

    def run(self, number: int, payload: ScoreUnit) -> Done:
        """Score the unit's documents; count, and say where the time went."""
        job, (which, documents) = self._job, payload
        chosen, corpus = job.passes[which], job.reader.corpus
        path = f"scores/{chosen.name}/unit-{number:05d}.parquet"
        scorer = BlockScorer(job.reader, job.retrieval, chosen, job.temperatures)
        caps: Counter[str] = Counter()
        positions = 0
        with ScoreWriter(corpus.store / path, self._facts(chosen)) as writer:
            for block in blocks(documents, corpus.lengths):
                for scores in scorer.score(block):
                    writer.write(self._columns(scores))
                    positions += len(scores.lm)
                for label, row in scorer.capped.items():
                    caps.update({f"{label}.{name}": n for name, n in zip(CAPS, row, strict=True)})
        seconds = scorer.watch.stop()
        facts = {"pass": which, "positions": positions, "seconds": seconds, "caps": dict(caps)}
        return Done({path: writer.result}, facts, seconds)

    def _facts(self, chosen: Pass) -> Json:
        walks = [spec.label for spec in chosen.specs]
        return {"temperatures": list(self._job.temperatures), "walks": walks}

    def _columns(self, scores: SlabScores) -> dict[str, NDArray[Any]]:
        (documents, positions), lm = scores.places, scores.lm
        columns: dict[str, NDArray[Any]] = {
            "document": documents,
            "position": positions,
            "token": lm.tokens,
            "log_lm": lm.log_lm,
            "entropy": lm.entropy,
            "confidence": lm.confidence,
            "favourite": lm.favourites,
        }
        if self._job.keeps_queries:
            columns["query"] = lm.queries
        if lm.text is not None:
            columns |= lm.text.columns()
        for spec, walked in scores.walks.items():
            columns |= {f"{spec.label}.{name}": item for name, item in walked.columns().items()}
        return columns
