"""The cost model beside what the benchmark `scale` measured; by itself it measures nothing.

CPU seconds are compared, not those of the clock: they depend little on what else runs. What it
takes to start Python, Ray and the workers is left out by comparing two runs: the growth from the
smaller to the larger is what the model must explain.
"""

from collections import defaultdict

from retomaton_dist.dry_run.rates import MEASURED, widened
from retomaton_dist.settings.parsing import with_tables
from retomaton_dist.stages.build import estimate_stages
from retomaton_dist.stages.cost import Work
from retomaton_dist.stages.extract import choose_shape
from tests.benchmarks.scale_store import VOCABULARY

# What a stage's time mostly depends on.
RATE_OF = {
    "cluster": "products",
    "index": "searched",
    "compile": "encoded",
    "suffix": "ordered",
}
LEAST_SECONDS = 5.0


def estimated(run):
    """What the model says of every measured stage of a run: CPU seconds and bytes left."""
    tables = defaultdict(dict)
    for name, value in run["settings"].items():
        table, _, flag = name.partition(" --")
        if flag:
            tables[table][flag] = value
    # It may stop before the iterations that it has at most.
    tables["cluster"]["iterations"] = run["stages"]["cluster"]["iterations"]
    shape = choose_shape(run["entries"], run["dimension"], None)
    work = Work(shape, 1, widened(MEASURED, run["dimension"]), VOCABULARY)
    seconds, disk = defaultdict(float), defaultdict(float)
    for stage in estimate_stages(with_tables((), tables), work)[2:]:
        if stage.stage in run["stages"]:
            seconds[stage.stage] += stage.core_seconds + stage.alone
            disk[stage.stage] += stage.disk
    return dict(seconds), dict(disk)


def compared(smaller, larger):
    """(measured, estimated) growth of CPU seconds, by stage; none where there is next to none."""
    before, now = estimated(smaller)[0], estimated(larger)[0]
    found = {}
    for stage in RATE_OF:
        if stage in smaller["stages"] and stage in larger["stages"]:
            spent = [run["stages"][stage]["cpu_seconds"] for run in (larger, smaller)]
            if spent[0] - spent[1] >= LEAST_SECONDS:
                found[stage] = spent[0] - spent[1], now[stage] - before[stage]
    return found


def rates_of(smaller, larger):
    """Rates with which the model says what was measured, for `retomaton plan --rates`."""
    return {
        RATE_OF[stage]: getattr(MEASURED, RATE_OF[stage]) * said / spent
        for stage, (spent, said) in compared(smaller, larger).items()
    }
