"""Every stage over a store of N made-up entries: time, bytes, memory, and growth with N.

    python -m tests.benchmarks.scale --entries 1000000 [--dimension 64] [--folder scale-bench]

A store of made-up keys with the structure of real ones is made first (`scale_store.py`); then
`cluster`, `index`, `compile`, `suffix`, `statistics`, `inspect` and `verify` run as a user would
run them, each as a command with a Ray of its own, and a walk (`scale_walk.py`). Every process below
a command is watched (`watching.py`): times hold the start of Python and Ray, 5 to 10 s each.

Results are kept in a file, from which growth against the next smaller N of the same width is
told. Killed? The same command again keeps what was measured, and has stages go on where they were;
such a stage is marked, for its time is not the whole. The store is removed at the end unless
--keep is given.
"""

import argparse
import dataclasses
import json
import os
import platform
import shutil
import sys
from pathlib import Path

from retomaton_dist.settings import (
    ClusterSettings,
    CompileSettings,
    IndexSettings,
    SuffixSettings,
)
from retomaton_dist.storage.manifest import MANIFEST_NAME
from retomaton_dist.storage.store import Store
from tests.benchmarks.scale_rates import rates_of
from tests.benchmarks.watching import run_watched

STAGES = (
    "store", "cluster", "index", "compile", "suffix", "statistics", "inspect", "verify", "walk",
)  # fmt: skip
LEFT_BY = {
    "store": "extract",
    "cluster": "cluster/kmeans",
    "index": "index/default",
    "compile": "compile/kmeans",
    "suffix": "suffix/default",
    "statistics": "statistics",
}
# Stages that count the bytes that they read, maps included, and write.
COUNTED = ("compile", "suffix")
HEAD = (
    "stage", "time", "growth", "CPU", "read", "by calls", "written", "driver", "worker", "ray",
    "growth",
)  # fmt: skip
EXAMPLES = """\
examples:
  python -m tests.benchmarks.scale --entries 1000000
  python -m tests.benchmarks.scale --entries 100000000 --folder /data/scale --iterations 5 --keep
  only some stages, of a store that was kept:
    python -m tests.benchmarks.scale --entries 100000000 --folder /data/scale --stages verify walk
  rates for `retomaton plan`, from what grew between two sizes:
    python -m tests.benchmarks.scale --entries 1e5
    python -m tests.benchmarks.scale --entries 1e6 --rates rates.json
  all tables again, as Markdown:
    python -m tests.benchmarks.scale --table scale-bench/results.json

progress of each stage goes to stderr; the table goes to stdout.
"""


def commands(given, store):
    """What is run for each stage."""
    cli = [sys.executable, "-m", "retomaton_dist.cli"]
    workers = [] if given.workers is None else ["--workers", given.workers]
    timeout = [] if given.unit_timeout is None else ["--unit-timeout", given.unit_timeout]
    shown = ["--progress", "lines"]
    common = [*workers, *shown]
    made = ["--entries", given.entries, "--dimension", given.dimension, "--seed", given.seed]
    chosen = {name: flags(given, name) for name in CHOICES}
    lines = {
        "store": [sys.executable, "-m", "tests.benchmarks.scale_store", store, *made, *common],
        "cluster": [*cli, "cluster", store, *chosen["cluster"], *common, *timeout],
        "index": [*cli, "index", store, *chosen["index"], *common, *timeout],
        "compile": [*cli, "compile", store, *chosen["compile"], *common, *timeout],
        "suffix": [*cli, "suffix", store, *chosen["suffix"], *common, *timeout],
        "statistics": [*cli, "statistics", store, *common, *timeout],
        "inspect": [*cli, "inspect", store],
        "verify": [*cli, "verify", store, *shown],
        "walk": [sys.executable, "-m", "tests.benchmarks.scale_walk", store],
    }
    return {name: list(map(str, line)) for name, line in lines.items()}


CHOICES = {
    "cluster": ("states", "sample", "iterations"),
    "index": ("factory", "shards", "recall_queries"),
    "compile": ("unit_entries",),
    "suffix": ("unit_entries",),
}


def flags(given, stage):
    """The settings of a stage that were given, as its flags."""
    found = []
    for name in CHOICES[stage]:
        if (value := getattr(given, f"{stage}_{name}")) is not None:
            found += [f"--{name.replace('_', '-')}", value]
    return found


def settings_of(given):
    """What can change a measurement, besides N and d: everything that is no default."""
    chosen = {
        f"{stage} --{name.replace('_', '-')}": getattr(given, f"{stage}_{name}")
        for stage, names in CHOICES.items()
        for name in names
    }
    chosen |= {"--workers": given.workers, "--unit-timeout": given.unit_timeout}
    return {name: value for name, value in chosen.items() if value is not None}


class Results:
    """All that was ever measured into one file; a run is known by its sizes and settings."""

    def __init__(self, path):
        self.path = path
        self.runs = json.loads(path.read_text()) if path.exists() else []

    def run(self, given):
        """The run of these sizes and settings, new or known."""
        key = {
            "entries": given.entries, "dimension": given.dimension, "seed": given.seed,
            "settings": settings_of(given),
        }  # fmt: skip
        for run in self.runs:
            if all(run[name] == value for name, value in key.items()):
                return run
        self.runs.append({**key, "machine": machine(), "stages": {}})
        return self.runs[-1]

    def save(self):
        """Keep everything; a kill leaves the file as it was."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(self.runs, indent=1) + "\n")
        fresh.replace(self.path)

    def smaller(self, run):
        """The next smaller run of the same width that has any stage of this one."""
        found = [
            other
            for other in self.runs
            if other["dimension"] == run["dimension"] and other["entries"] < run["entries"]
        ]
        return max(found, key=lambda other: other["entries"], default=None)


def machine():
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cores": os.cpu_count(), "memory": memory, "python": platform.python_version()}


def measure(name, line, store, run):
    """Run one stage and keep what it used; a failure ends the benchmark, and says so."""
    begun = has_begun(store, name)
    load = os.getloadavg()[0]
    print(f"# {' '.join(line[1:])}", file=sys.stderr, flush=True)
    usage = run_watched(line)
    if usage.code:
        sys.exit(f"{name} ended with exit code {usage.code}; the same command again goes on there")
    measured = usage.as_json() | {"resumed": begun, "load_before": round(load, 1)}
    if name == "walk":
        measured["walk"] = json.loads(usage.output.splitlines()[-1])
    if name in LEFT_BY:
        measured |= left_by(store, name)
    run["stages"][name] = measured


def left_by(store, name):
    """Bytes that a stage left, by the stages of the store, and how far k-means went."""
    stages = Store.open(store).manifest.stages
    made = {"store": ("tokenize", "extract"), "compile": ("codec", "compile")}.get(name, (name,))
    sizes = {stage: done.bytes for stage, done in stages.items() if stage.split("/")[0] in made}
    left = {"left": sizes}
    if name == "cluster":
        left["iterations"] = len(stages[LEFT_BY[name]].facts["iterations"])
    if name in COUNTED:
        done = stages[LEFT_BY[name]]
        left["moved"] = {
            "read": done.facts["bytes_read"],
            "written": done.facts["bytes_written"],
            "made": done.bytes,
        }
    return left


def has_begun(store, name):
    """Whether a killed run has done some of a stage already."""
    if not (store / MANIFEST_NAME).exists():
        return False
    stages = Store.open(store).manifest.stages
    first = {"store": "tokenize", "compile": "codec"}.get(name, LEFT_BY.get(name))
    return first is not None and any(stage.split("/")[0] == first or stage == first
                                     for stage in stages)  # fmt: skip


def is_done(store, name):
    """Whether a store has what a stage leaves; what leaves nothing is never done."""
    if name not in LEFT_BY or not (store / MANIFEST_NAME).exists():
        return False
    stage = Store.open(store).manifest.stages.get(LEFT_BY[name])
    return stage is not None and stage.done


def table(run, smaller):
    """One run as Markdown."""
    lines = [f"| {' | '.join(HEAD)} |", "|" + " --- |" * len(HEAD)]
    for name in STAGES:
        if name in run["stages"]:
            before = smaller and smaller["stages"].get(name)
            lines.append(f"| {' | '.join(row(name, run['stages'][name], before))} |")
    if "cluster" in run["stages"]:
        lines += ["", f"k-means took {run['stages']['cluster']['iterations']} iterations."]
    for name in COUNTED:
        if moved := run["stages"].get(name, {}).get("moved"):
            lines += ["", f"`{name}` {described_moved(**moved)}"]
    if "walk" in run["stages"]:
        lines += ["", described_walk(run["stages"]["walk"]["walk"])]
    return "\n".join([*heading(run, smaller), "", *lines])


def heading(run, smaller):
    millions = f"{run['entries']:,} entries of {run['dimension']} numbers"
    against = f", growth against {smaller['entries']:,}" if smaller else ""
    chosen = ", ".join(f"`{name} {value}`" for name, value in run["settings"].items())
    loads = [stage["load_before"] for stage in run["stages"].values()]
    busy = f"load before the stages: {min(loads):g} to {max(loads):g}" if loads else ""
    return [
        f"**{millions}**{against}; settings that are no defaults: {chosen or 'none'}; "
        f"{run['machine']['cores']} cores; {busy}"
    ]


def row(name, stage, before):
    peaks = stage["peaks"]
    shown = [size(peaks[role]) if role in peaks else "" for role in ("driver", "worker", "ray")]
    counted = stage["bytes"]
    mark = " (resumed)" if stage["resumed"] else ""
    return [
        name + mark,
        f"{stage['seconds']:,.1f} s",
        grown(stage["seconds"], before and before["seconds"]),
        f"{stage['cpu_seconds']:,.0f} s",
        size(counted["read_bytes"]),
        size(counted["rchar"]),
        size(counted["write_bytes"]),
        *shown,
        grown(max(peaks.values()), before and max(before["peaks"].values())),
    ]


def grown(now, before):
    return f"{now / before:.2f}x" if before else ""


def size(count):
    return f"{count / 1e9:,.2f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"


def described_moved(read, written, made):
    times = (read + written) / made
    return f"itself read {size(read)} and wrote {size(written)}: {times:.2f}x what it made."


def described_walk(walked):
    return (
        f"Walk, per lane: restart {walked['restart_us']:,.0f} us, step {walked['step_us']:,.0f} us "
        f"({walked['searched']:.1%} of the steps searched), search {walked['search_us']:,.0f} us."
    )


def parsed():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--entries", type=whole, metavar="N", help="such as 1000000 or 1e8")
    parser.add_argument("--dimension", type=whole, default=64, metavar="d", help="(default: 64)")
    parser.add_argument("--seed", type=int, default=1, help="of the store (default: 1)")
    parser.add_argument("--folder", type=Path, default=Path("scale-bench"),
                        help="of the store and the results (default: scale-bench)")  # fmt: skip
    parser.add_argument("--results", type=Path, help="(default: results.json in the folder)")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--rates", type=Path, metavar="FILE",
                        help="write rates for `retomaton plan --rates`, from the growth against "
                        "the next smaller run")  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="do not remove the store at the end")
    parser.add_argument("--workers", type=int, help="as in the commands (default: theirs)")
    parser.add_argument("--unit-timeout", type=float, help="as in the commands (default: theirs)")
    groups = {
        "cluster": ClusterSettings, "index": IndexSettings,
        "compile": CompileSettings, "suffix": SuffixSettings,
    }  # fmt: skip
    for stage, names in CHOICES.items():
        fields = {item.name: item for item in dataclasses.fields(groups[stage])}
        for name in names:
            # k-means is what is usually cut short, so its settings have the short names.
            short = name if stage == "cluster" else f"{stage}-{name}"
            parser.add_argument(
                f"--{short.replace('_', '-')}",
                dest=f"{stage}_{name}",
                type=str if name == "factory" else whole,
                help=f"of `{stage}`: {fields[name].metadata['help']}".replace("%", "%%"),
            )
    parser.add_argument("--table", type=Path, metavar="FILE", help="only print what it holds")
    given = parser.parse_args()
    if given.table is None and given.entries is None:
        parser.error("--entries is needed")
    return given


def whole(text):
    """A whole number above 0, also as 1e8."""
    number = float(text)
    if number < 1 or number != int(number):
        raise argparse.ArgumentTypeError(f"{text}: a whole number above 0 is needed")
    return int(number)


def main():
    given = parsed()
    results = Results(given.table or given.results or given.folder / "results.json")
    if given.table:
        for run in sorted(results.runs, key=lambda run: (run["dimension"], run["entries"])):
            print(table(run, results.smaller(run)), end="\n\n")
        return
    store = given.folder / f"{given.entries}x{given.dimension}.store"
    run = results.run(given)
    lines = commands(given, store)
    for name in STAGES:
        if name in given.stages and not (name in run["stages"] and is_done(store, name)):
            measure(name, lines[name], store, run)
            results.save()
    smaller = results.smaller(run)
    print(table(run, smaller))
    if given.rates and smaller:
        given.rates.write_text(json.dumps(rates_of(smaller, run), indent=1) + "\n")
    if not given.keep:
        shutil.rmtree(store)


if __name__ == "__main__":
    main()
