"""Training a small language model, or fine-tuning one."""

from pathlib import Path
from typing import Any

from retomaton_dist.corpus.documents import read_texts
from retomaton_dist.lm.train import TrainResult, train
from retomaton_dist.runtime.progress import showing
from retomaton_dist.settings import CorpusSettings, TrainSettings
from retomaton_dist.settings.parsing import split_keywords


def train_lm(out: str | Path, *, progress: str | None = None, **settings: Any) -> TrainResult:
    """Train a model for some steps or minutes, or go on training it.

    Keywords are the flags of `retomaton train-lm`: `corpus` is needed.
    """
    corpus, chosen = split_keywords((CorpusSettings, TrainSettings), settings)
    with showing(progress, "train-lm", 100, "%") as bar:

        def show(step: int, fraction: float, loss: float) -> None:
            bar.advance(100 * fraction - bar.done, {"step": f"{step:,}", "loss": f"{loss:.3f}"})

        return train(chosen, read_texts(corpus), str(out), show)
