"""A store that is calibrated, its evaluation, and the documents of the evaluated text."""

from dataclasses import dataclass
from pathlib import Path

import retomaton_dist as rd
from retomaton_dist.evaluation.results import Evaluation
from tests.evaluation.evaluated import measure_here, write_texts

WALK = {"k": 32, "max_knns": 32}
QUIET = {"workers": 0, "progress": "none"}


@dataclass(frozen=True)
class CalibratedStore:
    """Where it is, what was evaluated in it, and the texts of that, in order."""

    path: Path
    evaluation: Evaluation
    documents: list[str]


def make_calibrated(store, folder):
    """Calibrate a store for all methods, and evaluate a text with that."""
    texts = write_texts(folder)
    rd.calibrate(store, on=texts["calibrate_on"], target_foss="0.4,0.1", **WALK, **QUIET)
    text = {"text": texts["text"]}
    evaluation = measure_here(store, folder / "evaluation", text, calibration="default", **WALK)
    lines = Path(texts["text"]).read_text().splitlines()
    return CalibratedStore(store, evaluation, [line for line in lines if line.strip()])
