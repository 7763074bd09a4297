"""Scoring the documents of files with a store, in this process."""

import contextlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.engine.token_scores import TokenScores
from retomaton_dist.evaluation.text import TextPlan, find_text
from retomaton_dist.generation.loaded import RetomatonLM
from retomaton_dist.settings import ScoreSettings
from retomaton_dist.storage.scores import ScoreWriter

# Documents that are scored before their numbers are written.
AT_ONCE = 64


def score_files(lm: RetomatonLM, settings: ScoreSettings) -> Iterator[tuple[str, TokenScores]]:
    """Score every document of the files that has a token; write their tokens' numbers, if asked.

    Yields the documents' names and scores. What is wrong with the text is refused at once.
    """
    source = lm.store.stage("tokenize").config
    split = settings.split or source["split"]
    identified = lm.model, lm.tokenizer
    text = find_text(
        "--text", settings.text, Path(), identified, split, settings.field, source["end"]
    )
    return _scored(lm, text, Path(settings.out) if settings.out else None)


def _scored(lm: RetomatonLM, text: TextPlan, out: Path | None) -> Iterator[tuple[str, TokenScores]]:
    with contextlib.ExitStack() as stack:
        writer = None
        if out is not None:
            facts = {"method": lm.method, "calibration": lm.calibration, "described": str(lm)}
            writer = stack.enter_context(ScoreWriter(out, facts))
        numbered = enumerate(_documents(lm, text))
        while group := list(islice(numbered, AT_ONCE)):
            found = lm.score([tokens for _, (_, tokens) in group])
            for (number, (name, _)), scored in zip(group, found, strict=True):
                if writer is not None:
                    writer.write(_columns(number, scored))
                yield name, scored


def _documents(lm: RetomatonLM, text: TextPlan) -> Iterator[tuple[str, NDArray[np.int32]]]:
    unpredicted = lm.store.corpus().unpredicted
    for _, document in text.documents():
        tokens = lm.encode(document.text)
        if len(tokens) > unpredicted:
            yield document.name, tokens


def _columns(number: int, scored: TokenScores) -> dict[str, NDArray[Any]]:
    rows = len(scored.tokens)
    return {
        "document": np.full(rows, number, np.int32),
        "position": np.arange(rows, dtype=np.int32),
        "token": scored.tokens,
        "log_p": scored.log_p,
        "log_lm": scored.log_lm,
        "searched": scored.searched,
        "states": scored.states,
    }
