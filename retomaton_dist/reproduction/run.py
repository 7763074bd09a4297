"""Running the experiments that are asked for, and reporting all that are there."""

import time
from pathlib import Path
from typing import Any

from retomaton_dist.reproduction.bench import Bench
from retomaton_dist.reproduction.experiments import EXPERIMENTS, check_inputs
from retomaton_dist.reproduction.write import write_comparison
from retomaton_dist.runtime.progress import clock, say
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import ReproduceSettings, WorkerSettings
from retomaton_dist.settings.parsing import GROUPS, checked_table, split_keywords
from retomaton_dist.settings.reproduce import STEP_TABLES, check_free


def reproduce(**settings: Any) -> Path:
    """Run the paper's experiments, or what is missing of them; return the page of the report.

    Keywords are the flags of `retomaton reproduce`; `data` and `out` are needed. Settings of the
    steps are tables, as in a TOML file: `walk={"k": 64}`, `train={...}`, `cluster={...}`, ...
    """
    given = {name: value for name, value in settings.items() if name not in STEP_TABLES}
    groups = (ReproduceSettings, WorkerSettings)
    chosen, workers = split_keywords(groups, given, tuple(STEP_TABLES))
    tables = {
        name: checked_table(settings[name], GROUPS[name], f"[{name}]")
        for name in STEP_TABLES
        if name in settings
    }
    check_free(tables)
    return run_reproduce(Bench(chosen, tables, workers, say))


def run_reproduce(bench: Bench) -> Path:
    """Run the experiments, or what is missing of them; return the page of the report.

    The report is written anew after each of them, of whatever the folder then holds.
    """
    check_inputs(bench)
    start = time.monotonic()
    with Session(bench.workers) as session:
        if not session.here:
            # One Ray for all steps, which join it.
            session.join()
        for name in bench.settings.chosen:
            bench.say(f"\n# experiment {name}")
            EXPERIMENTS[name].run(bench)
            page = write_comparison(bench.out)
            bench.say(f"# {name} is done, {clock(time.monotonic() - start)} so far: {page}")
    return page
