"""Evaluated text that is in the corpus or in the calibration text: found before it is scored.

Digests of files see only what was copied whole; this looks at every document. Nothing is refused:
texts repeat themselves, and how much of a result comes from that is for the report to say.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from retomaton_dist.analysis.duplicates import (
    NEAR_GRAM,
    NEAR_SHARE,
    duplicates_of,
    find_duplicates,
)
from retomaton_dist.evaluation.overlap import ChosenText, CorpusOverlap
from retomaton_dist.runtime.progress import say
from retomaton_dist.storage import canonical
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.store import Store

DUPLICATES = "duplicates.json"
_REMEDY = "delete it and run the same evaluation again: its scores are kept"
# Which text is looked for in which, what they are called, and what duplicates do to results.
PAIRS = {
    ("text", "corpus"): (
        "the evaluated text",
        "the corpus",
        "retrieval finds them as they are; the report has the gains without them",
    ),
    ("text", "calibration"): (
        "the evaluated text",
        "the calibration text",
        "constants were fitted on them; the report has the gains without them",
    ),
    ("calibration", "corpus"): (
        "the calibration text",
        "the corpus",
        "constants may trust the corpus too much",
    ),
}


def look_for_duplicates(out: Path, chosen: Mapping[str, ChosenText], store: Store) -> Json:
    """Find what texts share, warn of it, and keep it; an earlier run's finding is read.

    `chosen` has the evaluated `text` and, if there is any, the `calibration` text; what each
    shares with the corpus was found out before (`overlap`).
    """
    inputs: Json = {name: text.digest for name, text in chosen.items()}
    inputs["corpus"] = store.stage("tokenize").digest
    found = read_duplicates(out)
    if found.get("inputs") != inputs:
        found = {"inputs": inputs, "pairs": _find(chosen)}
        canonical.write(out / DUPLICATES, found)
    for pair in found["pairs"]:
        if pair["same"] or pair["near"]:
            say(f"warning: {warning(pair)}")
    return found


def read_duplicates(out: Path) -> Json:
    """What was found before; empty if nothing was looked for."""
    path = out / DUPLICATES
    return canonical.read(path, _REMEDY) if path.exists() else {}


def duplicate_documents(found: Json) -> frozenset[int]:
    """Numbers of evaluated documents that the corpus or the calibration text has, or almost."""
    pairs = [pair for pair in found.get("pairs", ()) if pair["text"] == "text"]
    return frozenset(number for pair in pairs for number in (*pair["same"], *pair["near"]))


def _find(chosen: Mapping[str, ChosenText]) -> list[Json]:
    whole = {name: text.tokens for name, text in chosen.items()}
    pairs = []
    for name, other in PAIRS:
        if name in whole and (other == "corpus" or other in whole):
            text = whole[name]
            if other == "corpus":
                kept = CorpusOverlap.of(Store.open(chosen[name].store.path))
                found = duplicates_of(text, kept.same, kept.matched)
            else:
                found = find_duplicates(text, whole[other])
            numbers = np.asarray(chosen[name].documents)
            facts = found.describe(np.diff(text.bounds), numbers)
            pairs.append({"text": name, "in": other, **facts})
    return pairs


def warning(pair: Json) -> str:
    """What one pair of texts shares, in one line."""
    text, other, consequence = PAIRS[pair["text"], pair["in"]]
    return (
        f"of {text}, {_share(pair, 'same')} are in {other} word for word, and "
        f"{_share(pair, 'near')} almost (stretches of {NEAR_GRAM} tokens or more that it has, too, "
        f"cover {NEAR_SHARE:.0%} of them): {consequence}"
    )


def _share(pair: Json, kind: str) -> str:
    tokens = pair[f"{kind}_tokens"] / max(1, pair["tokens"])
    return f"{len(pair[kind]):,} of {pair['documents']:,} documents ({tokens:.1%} of its tokens)"
