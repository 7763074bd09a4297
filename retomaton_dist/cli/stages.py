"""The commands of the stages, such as `retomaton suffix`: made from the stages' declarations."""

import argparse
from functools import partial

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.cli.dry_run_argument import add_dry_run, budget_of
from retomaton_dist.cli.store_argument import add_store, store_of
from retomaton_dist.settings import BuildSettings
from retomaton_dist.settings.stages import STAGES, DeclaredStage


def command_of(stage: DeclaredStage) -> Command:
    """The command that runs one stage."""
    return Command(
        name=stage.name,
        summary=stage.summary,
        groups=stage.groups,
        arguments=_add_extract_arguments if stage.name == "extract" else add_store,
        run=partial(run, stage),
        examples=stage.examples,
    )


def _add_extract_arguments(parser: argparse.ArgumentParser) -> None:
    add_store(parser)
    add_dry_run(
        parser,
        "count the tokens, time the model on a few batches, and say what the run would need "
        "against what is free",
    )


def run(stage: DeclaredStage, call: Invocation) -> int:
    """Run the stage, or what is missing of it, and say what came of it."""
    groups, store = {name: call.group(name) for name in stage.groups}, store_of(call)
    if call.get("dry_run"):
        from retomaton_dist.dry_run.extraction import estimate_extraction

        settings = BuildSettings(tuple(groups.values()))
        print(estimate_extraction(store, settings, *budget_of(call)).as_text())
        return 0
    from retomaton_dist.api.build import run_one
    from retomaton_dist.api.describe import stage_as_text

    reader = run_one(stage.name, store, *groups.values())
    print(stage_as_text(reader.store, stage.stored(groups.get(stage.name))))
    return 0


COMMANDS = tuple(command_of(stage) for stage in STAGES)
