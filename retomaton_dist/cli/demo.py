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
    parser.add_argument("--model", metavar="TEXT", help="model instead of training one")
    parser.add_argument(
        "--minutes", metavar="X", type=float, help="minutes to train for (default: 1.25)"
    )


def run(call: Invocation) -> int:
    """Run the demo; what an earlier run finished is kept."""
    from retomaton_dist.demo.run import DemoSettings, run_demo
    from retomaton_dist.settings import CorpusSettings

    corpus = call.get("corpus")
    if call.get("split") and not corpus:
        raise BadInput("--split needs --corpus")
    settings = DemoSettings(
        out=Path(call.get("out", "retomaton-demo")),
        corpus=CorpusSettings(corpus=tuple(corpus), split=call.get("split")) if corpus else None,
        model=call.get("model"),
        minutes=call.get("minutes", 1.25),
        workers=call.group("workers"),
    )
    run_demo(settings, lambda line: print(line, flush=True))
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
        retomaton demo --corpus law/train.en --split line --model gpt2 --out law-demo
    """,
)
