"""Runs the commands that make something: stores, plans, models, the demo, the paper's experiments.

Each calls the function of `rd.` with the same settings, and prints what came of it.
"""

from retomaton_dist.cli.command import Invocation
from retomaton_dist.settings.parsing import FLAGGED
from retomaton_dist.settings.stages import STAGES


def build_store(call: Invocation) -> int:
    """Run every stage, or what is missing of it, and show the store; or say what it would take."""
    from retomaton_dist.api.build import build, estimate
    from retomaton_dist.api.describe import as_text

    keywords, dry = call.keywords(*FLAGGED), call.settings["dry_run"]
    if dry.dry_run:
        print(estimate(call.store, seconds=dry.dry_run_seconds, **keywords).as_text())
    else:
        print(as_text(build(call.store, **keywords).describe()))
    return 0


def run_stage(call: Invocation) -> int:
    """Run one stage, or what is missing of it, and say what came of it."""
    from retomaton_dist.api.build import stage_function
    from retomaton_dist.api.describe import stage_as_text

    stage = next(stage for stage in STAGES if stage.name == call.command.name)
    reader = stage_function(stage)(call.store, **call.keywords())
    print(stage_as_text(reader.store, stage.stored(call.settings.get(stage.name))))
    return 0


def plan_build(call: Invocation) -> int:
    """Say what every stage would take; nothing is read but the model's config."""
    from retomaton_dist.dry_run.plan import plan

    print(plan(**call.keywords()).as_text())
    return 0


def train_model(call: Invocation) -> int:
    """Train, or go on training, and say how good the model is."""
    from retomaton_dist.api.train import train_lm
    from retomaton_dist.runtime.progress import clock

    result = train_lm(call.get("out"), progress=call.get("progress"), **call.keywords())
    print(
        f"{result.folder}: perplexity {result.perplexity:,.2f} per token on held-out text "
        f"after {result.steps:,} steps, {clock(result.seconds)}"
    )
    return 0


def demo(call: Invocation) -> int:
    """Run the demo; what an earlier run finished is kept."""
    from retomaton_dist.jobs.demo import Demo

    settings, workers = call.settings.values()
    Demo(settings, workers, lambda line: print(line, flush=True)).run()
    return 0


def reproduce_paper(call: Invocation) -> int:
    """Run the experiments, or what is missing of them, and say where the report is."""
    from retomaton_dist.jobs.reproduce_paper import reproduce

    page = reproduce(**call.keywords())
    print(f"report: {page} (and report.md, results.json beside it)")
    return 0
