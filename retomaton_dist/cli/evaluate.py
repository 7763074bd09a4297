"""`retomaton eval`: perplexity against saved searches, for all methods, on a text."""

import dataclasses

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.cli.report import show
from retomaton_dist.cli.store_argument import add_store, readable_store
from retomaton_dist.settings import PRESETS, EvaluateSettings
from retomaton_dist.settings.parsing import GROUPS, walk_settings


def run(call: Invocation) -> int:
    """Evaluate, then print the table and where the report is."""
    settings, workers = call.group("evaluate"), call.group("workers")
    call.group("walk")
    store = readable_store(call, "--text", settings.text)
    readable_store(call, "--calibrate-on", settings.calibrate_on)
    from retomaton_dist.api.evaluate import run_evaluate

    fields = {item.name for item in dataclasses.fields(GROUPS["walk"])}
    flags = {name: value for name, value in call.flags.items() if name in fields}
    walk = walk_settings(settings.preset, call.file.get("walk", {}), flags)
    show(run_evaluate(store, settings, walk, workers))
    return 0


COMMAND = Command(
    name="eval",
    summary="Evaluate a text: perplexity against saved searches for all methods, and a report.",
    groups=("evaluate", "walk", "workers"),
    arguments=add_store,
    run=run,
    defaults={"walk": dataclasses.asdict(PRESETS[EvaluateSettings.preset])},
    examples="""
        everything the store can do, calibrated on other text:
          retomaton eval law.store --text law/test.en --calibrate-on law/dev.en

        two methods at chosen thresholds, lambda and temperature given:
          retomaton eval law.store --text law/test.en --methods knnlm,retomaton \\
              --tau 1,4,16,inf --lambda 0.9 --knn-temperature 10

        half of the searches saved; wall-clock measured:
          retomaton eval law.store --text law/test.en --calibrate-on law/dev.en \\
              --methods lm,knnlm,retomaton --target-foss 0,0.5,0.8 --mode live

        no search at all, in a store that never had a search index:
          retomaton eval law.store --text law/test.en --calibrate-on law/dev.en --no-index

        killed? the same command again does only what is missing.
    """,
)
