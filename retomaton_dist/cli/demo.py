"""`retomaton demo`: everything, end to end, in a few minutes."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.errors import BadInput

if TYPE_CHECKING:
    from retomaton_dist.demo.run import DemoTexts


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
        "--minutes", metavar="X", type=float, help="minutes to train for (default: 1)"
    )


def run(call: Invocation) -> int:
    """Run the demo; what an earlier run finished is kept."""
    from retomaton_dist.demo.run import DemoSettings, run_demo

    settings = DemoSettings(
        out=Path(call.get("out", "retomaton-demo")),
        texts=_texts(call),
        model=call.get("model"),
        minutes=call.get("minutes", 1.0),
        workers=call.group("workers"),
    )
    run_demo(settings, lambda line: print(line, flush=True))
    return 0


def _texts(call: Invocation) -> "DemoTexts | None":
    from retomaton_dist.demo.run import DemoTexts
    from retomaton_dist.settings import CorpusSettings

    corpus, text, held = (call.get(name) for name in ("corpus", "text", "calibrate_on"))
    for flag in ("split", "text", "calibrate_on"):
        if call.get(flag) and not corpus:
            raise BadInput(f"--{flag.replace('_', '-')} needs --corpus")
    if bool(text) != bool(held):
        raise BadInput("--text and --calibrate-on go together: two held-out texts")
    if not corpus:
        return None
    chosen = CorpusSettings(corpus=tuple(corpus), split=call.get("split"))
    return DemoTexts(chosen, tuple(text or ()), tuple(held or ()))


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
