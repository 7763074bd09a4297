"""`retomaton train-lm`: a small language model from scratch, or fine-tuning of another."""

import argparse
from typing import TYPE_CHECKING

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.runtime.progress import clock, showing
from retomaton_dist.settings import CorpusSettings

if TYPE_CHECKING:
    from retomaton_dist.lm.train_folder import TrainResult
    from retomaton_dist.lm.train_loop import TrainProgress
    from retomaton_dist.lm.train_settings import TrainSettings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder for the result and the kind of progress."""
    parser.add_argument("--out", metavar="DIR", required=True, help="folder for the model")
    parser.add_argument(
        "--progress", choices=("bar", "lines", "json", "none"), help="as in the other commands"
    )


def run(call: Invocation) -> int:
    """Train, or go on training, and say how good the model is."""
    corpus, settings = (call.group(name) for name in COMMAND.groups)
    result = train_on(corpus, settings, call["out"], call.get("progress"))
    print(
        f"{result.folder}: perplexity {result.perplexity:,.2f} per token on held-out text "
        f"({result.bits_per_byte:.3f} bits per byte) after {result.steps:,} steps, "
        f"{result.tokens:,} tokens, {clock(result.seconds)}"
    )
    return 0


def train_on(
    corpus: CorpusSettings, settings: "TrainSettings", out: str, mode: str | None
) -> "TrainResult":
    """Read the corpus and train on it, showing progress."""
    from retomaton_dist.lm.train import train
    from retomaton_dist.lm.train_data import read_texts

    with showing(mode, "train-lm", 100, "%") as bar:

        def show(now: "TrainProgress") -> None:
            shown = {
                "loss": f"{now.loss:.3f}",
                "tokens/s": f"{now.tokens / max(now.elapsed, 1e-9):,.0f}",
            }
            if now.perplexity is not None:
                shown["validation perplexity"] = f"{now.perplexity:,.1f}"
            bar.advance(100 * now.fraction - bar.done, shown)

        return train(settings, read_texts(corpus), out, show)


COMMAND = Command(
    name="train-lm",
    summary="Train a small language model from scratch, or fine-tune one, for some minutes.",
    groups=("corpus", "train"),
    arguments=add_arguments,
    run=run,
    examples="""
        a new tokenizer and a small GPT-2-style model, ten minutes:
          retomaton train-lm --corpus 'src/**/*.py' --minutes 10 --out my-lm

        fine-tune an existing model for 2,000 steps:
          retomaton train-lm --corpus law.en --split line --init gpt2 --steps 2000 --out law-lm

        killed? the same command again goes on from the last checkpoint.
    """,
)
