"""Training a small language model, or fine-tuning one."""

from pathlib import Path
from typing import Any

from retomaton_dist.lm.train import train
from retomaton_dist.lm.train_data import read_texts
from retomaton_dist.lm.train_folder import TrainResult
from retomaton_dist.lm.train_loop import TrainProgress
from retomaton_dist.runtime.progress import showing
from retomaton_dist.settings import CorpusSettings, TrainSettings
from retomaton_dist.settings.parsing import split_keywords


def train_lm(out: str | Path, *, progress: str | None = None, **settings: Any) -> TrainResult:
    """Train a model for some minutes or steps, or go on training it.

    Keywords are the flags of `retomaton train-lm`: `corpus` is needed.
    """
    corpus, chosen = split_keywords((CorpusSettings, TrainSettings), settings)
    return run_train(out, corpus, chosen, progress)


def run_train(
    out: str | Path, corpus: CorpusSettings, settings: TrainSettings, mode: str | None
) -> TrainResult:
    """Read the corpus and train on it, showing progress."""
    with showing(mode, "train-lm", 100, "%") as bar:

        def show(now: TrainProgress) -> None:
            shown = {
                "loss": f"{now.loss:.3f}",
                "tokens/s": f"{now.tokens / max(now.elapsed, 1e-9):,.0f}",
            }
            if now.perplexity is not None:
                shown["validation perplexity"] = f"{now.perplexity:,.1f}"
            bar.advance(100 * now.fraction - bar.done, shown)

        return train(settings, read_texts(corpus), str(out), show)
