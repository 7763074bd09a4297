"""Scores of made-up walks, written and read as those of a text are."""

import numpy as np

from retomaton_dist.engine.scores import Scores
from retomaton_dist.engine.text_models import TextOutput
from retomaton_dist.engine.walks import WalkResult
from retomaton_dist.storage.scores import ScoreWriter

TEMPERATURES = (0.5, 1.0, 2.0, 4.0, 8.0)


def random_walked(random, rows, searched=0.5, empty=0.1):
    """A walk of random log-sums; about this share of rows has no candidate."""
    shape = rows, len(TEMPERATURES), 2
    targets = np.log(random.random(shape))
    everything = np.logaddexp(targets, np.log(random.random(shape)))
    walked = WalkResult(
        TEMPERATURES,
        sums=np.stack([targets, everything], axis=2).astype(np.float32),
        favoured=(everything + np.log(random.random(shape))).astype(np.float32),
        searched=random.random(rows) < searched,
        matched=random.integers(0, 4, rows).astype(np.int32),
        states=random.integers(0, 50, rows).astype(np.int32),
        candidates=random.integers(1, 50, rows).astype(np.int32),
        pointed=np.zeros(rows, np.int32),
        nearest=random.random(rows).astype(np.float32),
        since=np.zeros(rows, np.int64),
    )
    nothing = WalkResult.empty((rows,), TEMPERATURES)
    chosen = random.random(rows) < empty
    for name, column in walked.columns().items():
        if name != "searched":
            column[chosen] = getattr(nothing, name)[chosen]
    return walked


def random_text(random, rows):
    """What models of text alone might say."""
    votes, favoured, escape = random.dirichlet(np.ones(3), rows).astype(np.float32).T
    return TextOutput(
        log_ngram=np.log(random.random(rows)).astype(np.float32),
        ngram_matched=random.integers(0, 5, rows).astype(np.int32),
        votes=votes,
        escape=escape,
        cache_matched=random.integers(0, 5, rows).astype(np.int32),
        favoured_log_ngram=np.log(random.random(rows)).astype(np.float32),
        favoured_votes=favoured,
    )


def scores_of(folder, documents, walks, random, queries=None):
    """Scores of a text whose rows belong to these documents, in order."""
    documents = np.asarray(documents, np.int32)
    starts = np.concatenate([[True], documents[1:] != documents[:-1]])
    places = np.arange(len(documents))
    columns = {
        "document": documents,
        "position": (places - np.maximum.accumulate(np.where(starts, places, 0))).astype(np.int32),
        "token": random.integers(0, 9, len(documents)).astype(np.int32),
        "log_lm": np.log(random.random(len(documents))).astype(np.float32),
        "entropy": random.random(len(documents)).astype(np.float32),
        "confidence": np.log(random.random(len(documents))).astype(np.float32),
        "favourite": random.integers(0, 9, len(documents)).astype(np.int32),
    }
    columns |= random_text(random, len(documents)).columns()
    for label, walked in walks.items():
        columns |= {f"{label}.{name}": item for name, item in walked.columns().items()}
    if queries is not None:
        columns["query"] = queries
    path = folder / "unit-00000.parquet"
    with ScoreWriter(path, {"temperatures": list(TEMPERATURES), "walks": list(walks)}) as writer:
        writer.write(columns)
    return Scores((path,))
