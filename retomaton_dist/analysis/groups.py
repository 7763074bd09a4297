"""Tokens of a text in groups: by how common, how new and how far into a document they are, ..."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.analysis import ngrams
from retomaton_dist.engine.scores import Scores
from retomaton_dist.engine.walks import WalkResult
from retomaton_dist.storage.canonical import Json

Mask = NDArray[np.bool_]
Numbers = NDArray[np.integer]

FREQUENCIES = (0, 1, 10, 100, 1000, 10_000)
POSITIONS = (0, 1, 4, 16, 64, 256, 1024)
MATCHES = (0, 1, 2, 3, 4, 5, ngrams.LONGEST)
# What a document must share with the corpus to be no longer new to it.
SHARED_GRAM = 5


@dataclass(frozen=True)
class Grouping:
    """Named groups of rows. They may overlap, and need not hold every row."""

    title: str
    groups: Mapping[str, Mask]


def text_groupings(
    scores: Scores, frequency: Numbers, matched: Numbers, duplicates: Json
) -> list[Grouping]:
    """The groupings that do not depend on a method.

    `frequency` is how often the corpus has each row's token, `matched` the longest match with the
    corpus that ends with it, `duplicates` what was found of documents.
    """
    before = np.where(scores.position > 0, np.roll(matched, 1), 0)
    return [
        in_steps("how often the corpus has the token", frequency, FREQUENCIES),
        in_steps("longest match before the token", before, MATCHES),
        in_steps("longest match with the token", matched, MATCHES),
        in_steps("position in the document", scores.position, POSITIONS),
        by_document(scores.document, matched, duplicates),
    ]


def in_steps(title: str, values: Numbers, steps: Sequence[int]) -> Grouping:
    """Groups of values: from each step to the next, and from the last one on."""
    groups: dict[str, Mask] = {}
    for first, after in pairwise(steps):
        name = f"{first:,}" if after == first + 1 else f"{first:,} to {after - 1:,}"
        groups[name] = (values >= first) & (values < after)
    groups[f"{steps[-1]:,} or more"] = values >= steps[-1]
    return Grouping(title, groups)


def by_document(document: Numbers, matched: Numbers, duplicates: Json) -> Grouping:
    """What a row's whole document shares with the corpus and with the calibration text."""
    _, inverse = np.unique(document, return_inverse=True)
    longest = np.zeros(int(inverse.max()) + 1, np.int64)
    np.maximum.at(longest, inverse, matched)
    best = longest[inverse]
    same, near = (_listed(document, duplicates, "corpus", kind) for kind in ("same", "near"))
    fitted = np.logical_or(
        *(_listed(document, duplicates, "calibration", kind) for kind in ("same", "near"))
    )
    new, long = ~(same | near), ngrams.LONGEST
    groups = {
        f"no {SHARED_GRAM}-gram with the corpus": new & (best < SHARED_GRAM),
        f"{SHARED_GRAM} to {long - 1} tokens in a row": new & (best >= SHARED_GRAM) & (best < long),
        f"{long} or more in a row": new & (best >= long),
        "almost in the corpus": near,
        "word for word in the corpus": same,
        "in the calibration text, or almost": fitted,
        "all but duplicates": new & ~fitted,
    }
    return Grouping("what its document shares", groups)


def by_restart(walked: WalkResult) -> Grouping:
    """How a row's candidates were found."""
    suffixed, found = walked.matched > 0, walked.candidates > 0
    walks = ~walked.searched & ~suffixed
    groups = {
        "searched": walked.searched,
        "restarted by a suffix": suffixed,
        "walked": walks & found,
        "no candidates": walks & ~found,
    }
    return Grouping("how candidates were found", groups)


def _listed(document: Numbers, duplicates: Json, other: str, kind: str) -> Mask:
    pairs = [pair for pair in duplicates.get("pairs", ()) if pair["text"] == "text"]
    numbers = [number for pair in pairs if pair["in"] == other for number in pair[kind]]
    return np.isin(document, numbers)
