"""`retomaton extract`: from text and a model to a datastore."""

import argparse

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.cli.dry_run_argument import add_dry_run, budget_of
from retomaton_dist.cli.store_argument import add_store, store_of
from retomaton_dist.settings.entrances import FLAGGED, with_tables


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the store, and the switch that only estimates."""
    add_store(parser)
    add_dry_run(
        parser,
        "count the tokens, time the model on a few batches, and say what the run would need "
        "against what is free",
    )


def run(call: Invocation) -> int:
    """Build the datastore, or say what building it would take."""
    settings = with_tables([call.group(name) for name in FLAGGED], {})
    store = store_of(call)
    from retomaton_dist.api.build import run_extract
    from retomaton_dist.api.describe import as_text
    from retomaton_dist.dry_run.extraction import estimate_extraction

    if call.get("dry_run"):
        print(estimate_extraction(store, settings, *budget_of(call)).as_text())
    else:
        print(as_text(run_extract(store, settings).describe()))
    return 0


COMMAND = Command(
    name="extract",
    summary="Turn a corpus into a datastore: a key, a value and a pointer for every token.",
    groups=FLAGGED,
    arguments=add_arguments,
    run=run,
    examples="""
        one sentence per line, a hub model, one worker per GPU or CPU:
          retomaton extract law.store --corpus law/train.en --split line --model gpt2

        what would it take?
          retomaton extract law.store --corpus law/train.en --split line --model gpt2 --dry-run

        killed? the same command again does only what is missing.

        articles that begin with ` = Title = `, longer context, four workers on a cluster:
          retomaton extract wiki.store --corpus wiki.train.txt --split 'regex: = [^=]' \\
              --model ./wiki7M --context 512 --stride 256 --workers 4 --address auto

        all settings from a file, one of them from a flag:
          retomaton extract --config build.toml --workers 2
    """,
)
