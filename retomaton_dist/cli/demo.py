"""`retomaton demo`: everything, end to end, in a few minutes."""

import argparse
from pathlib import Path

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.errors import BadInput


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what may stand in for the demo's own text and model."""
    parser.add_argument("--out", metavar="DIR", help="folder of the demo (default: retomaton-demo)")
    parser.add_argument(
        "--corpus", metavar="PATH", nargs="+", help="text instead of Python's standard library"
    )
    parser.add_argument("--split", metavar="TEXT", help="what a document is, as in `extract`")
    parser.add_argument("--text", metavar="PATH", nargs="+", help="text of yours to evaluate")
    parser.add_argument(
        "--calibrate-on", metavar="PATH", nargs="+", help="other text of yours to calibrate on"
    )
    parser.add_argument("--model", metavar="TEXT", help="model instead of training one")
    parser.add_argument(
        "--steps", metavar="N", type=int, help="steps to train the model for (default: 1800)"
    )


def run(call: Invocation) -> int:
    """Run the demo; what an earlier run finished is kept."""
    corpus, text, held = (call.get(name) for name in ("corpus", "text", "calibrate_on"))
    for flag in ("split", "text", "calibrate_on"):
        if call.get(flag) and not corpus:
            raise BadInput(f"--{flag.replace('_', '-')} needs --corpus")
    if bool(text) != bool(held):
        raise BadInput("--text and --calibrate-on go together: two held-out texts")
    from retomaton_dist.jobs.demo import STEPS, Demo

    split = {"split": call["split"]} if call.get("split") else {}
    Demo(
        out=Path(call.get("out", "retomaton-demo")),
        workers=call.group("workers"),
        say=lambda line: print(line, flush=True),
        corpus={"corpus": tuple(corpus), **split} if corpus else None,
        text=tuple(text or ()),
        calibrate_on=tuple(held or ()),
        model=call.get("model"),
        steps=call.get("steps", STEPS),
    ).run()
    return 0


COMMAND = Command(
    name="demo",
    summary="Run everything end to end: on Python's own library, or on your text and model.",
    groups=("workers",),
    arguments=add_arguments,
    run=run,
    examples="""
        retomaton demo
        retomaton demo --corpus notes/*.txt --out notes-demo
        retomaton demo --corpus law/train.en --split line --model gpt2 --out law-demo \\
            --text law/test.en --calibrate-on law/dev.en
    """,
)
