"""`retomaton calibrate`: lambda, temperature, networks and thresholds, kept in the store."""

import dataclasses

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.cli.store_argument import add_store, readable_store
from retomaton_dist.settings import PRESETS, CalibrateSettings
from retomaton_dist.settings.parsing import GROUPS, walk_settings


def run(call: Invocation) -> int:
    """Calibrate, then say what for."""
    settings, workers = call.group("calibrate"), call.group("workers")
    call.group("walk")
    store = readable_store(call, "--on", settings.on)
    from retomaton_dist.api.calibrate import run_calibrate

    fields = {item.name for item in dataclasses.fields(GROUPS["walk"])}
    flags = {name: value for name, value in call.flags.items() if name in fields}
    walk = walk_settings(settings.preset, call.file.get("walk", {}), flags)
    reader = run_calibrate(store, settings, walk, workers)
    facts = reader.describe()["stages"][f"calibrate/{settings.name}"]["facts"]
    print(
        f"calibrate/{settings.name}: {', '.join(facts['methods'])} on {facts['positions']:,} "
        f"positions"
    )
    for automaton, taus in facts["taus"].items():
        found = ", ".join(f"FoSS {foss} by tau {float(tau):g}" for foss, tau in taus.items())
        print(f"  {automaton}: {found}")
    return 0


COMMAND = Command(
    name="calibrate",
    summary="Fit what methods need on held-out text, and keep it in the store.",
    groups=("calibrate", "walk", "workers"),
    arguments=add_store,
    run=run,
    defaults={"walk": dataclasses.asdict(PRESETS[CalibrateSettings.preset])},
    examples="""
        all methods that the store can do, on text that nobody evaluates:
          retomaton calibrate law.store --on law/dev.en

        for generation alone, four of five searches saved:
          retomaton calibrate law.store --on law/dev.en --name fast \\
              --methods retomaton+lambda --target-foss 0.8

        used by scoring and generation (the newest by default), and by eval:
          retomaton score law.store --text law/test.en --calibration fast
          retomaton eval law.store --text law/test.en --calibration fast

        killed? the same command again does only what is missing.
    """,
)
