"""Running the experiments that are asked for, and reporting all that are there."""

import time
from pathlib import Path

from retomaton_dist.reproduce.bench import Bench
from retomaton_dist.reproduce.experiments import EXPERIMENTS, check_inputs
from retomaton_dist.reproduce.write import write_comparison
from retomaton_dist.runtime.progress import clock
from retomaton_dist.runtime.session import Session


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
