"""`retomaton train-lm`: a small language model from scratch, or fine-tuning of another."""

import argparse

from retomaton_dist.cli.command import Command, Invocation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder for the result and the kind of progress."""
    parser.add_argument("--out", metavar="DIR", required=True, help="folder for the model")
    parser.add_argument(
        "--progress", choices=("bar", "lines", "json", "none"), help="as in the other commands"
    )


def run(call: Invocation) -> int:
    """Train, or go on training, and say how good the model is."""
    corpus, settings = (call.group(name) for name in COMMAND.groups)
    from retomaton_dist.api.train import run_train
    from retomaton_dist.runtime.progress import clock

    result = run_train(call["out"], corpus, settings, call.get("progress"))
    print(
        f"{result.folder}: perplexity {result.perplexity:,.2f} per token on held-out text "
        f"after {result.steps:,} steps, {clock(result.seconds)}"
    )
    return 0


COMMAND = Command(
    name="train-lm",
    summary="Train a small language model from scratch, or fine-tune one.",
    groups=("corpus", "train"),
    arguments=add_arguments,
    run=run,
    examples="""
        a new tokenizer and a small GPT-2-style model:
          retomaton train-lm --corpus 'src/**/*.py' --steps 5000 --out my-lm

        fine-tune an existing model for 2,000 steps:
          retomaton train-lm --corpus law.en --split line --init gpt2 --steps 2000 --out law-lm

        killed? the same command again goes on from the last checkpoint.
    """,
)
