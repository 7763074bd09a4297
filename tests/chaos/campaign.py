"""The campaign: draws faults, tries them one after the other, and adds them up."""

import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.bench import Bench
from tests.chaos.disk import Disk
from tests.chaos.faults import Kind, kinds
from tests.chaos.nodes import Nodes
from tests.chaos.trial import Fault, Outcome, Trial, Verdict

MOST_MISSES = 3
BAD = (Outcome.WRONG, Outcome.HUNG)
SHOWN = (Outcome.SURVIVED, Outcome.REFUSED, Outcome.WRONG, Outcome.HUNG)


@dataclass(frozen=True)
class Order:
    """What is asked for: how many faults, from which seed, of which kinds and targets."""

    faults: int
    seed: int
    only: Sequence[str] = ()
    on: Sequence[str] = ()
    patience: float = 300.0


def drawn(order: Order, known: Sequence[Kind]) -> Iterator[Fault]:
    """Faults without end: every kind once in random order, then again, each on a random target."""
    chosen = random.Random(order.seed)
    allowed = {
        kind.name: [target for target in kind.targets if not order.on or target in order.on]
        for kind in known
    }
    wanted = [
        kind for kind in known
        if allowed[kind.name] and (not order.only or kind.name in order.only)
    ]  # fmt: skip
    assert wanted, "no kind of fault strikes any of these targets"
    while True:
        for kind in chosen.sample(wanted, len(wanted)):
            target = chosen.choice(allowed[kind.name])
            yield Fault(kind, target, chosen.random(), chosen.randrange(1 << 30))


def run_campaign(order: Order) -> int:
    """Try so many faults; print each, and a table; return the exit code."""
    folder = Path(tempfile.mkdtemp(prefix="chaos", dir="/tmp"))
    disk, nodes = Disk.mounted(folder / "disk"), Nodes()
    verdicts: list[Verdict] = []
    try:
        known = list(kinds(real_disk=disk.real).values())
        if not disk.real:
            print("no private mounts here: full and read-only disks are left out")
        print(f"seed {order.seed}: making what is disturbed", flush=True)
        bench = Bench.made(folder)
        trial = Trial(bench, nodes, disk, order.patience)
        verdicts.extend(_tried(order, known, trial))
    finally:
        print(f"\n{table(verdicts)}\n\ncluster started {nodes.starts} times", flush=True)
        nodes.close()
        nodes.folder.rmdir()
        disk.unmount()
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if any(_is_bad(verdict) for verdict in verdicts) else 0


def _tried(order: Order, known: Sequence[Kind], trial: Trial) -> Iterator[Verdict]:
    made = misses = 0
    for fault in drawn(order, known):
        if made == order.faults:
            return
        verdict = trial.try_out(fault)
        print(line_of(made + 1, verdict), flush=True)
        missed = verdict.outcome is Outcome.MISSED
        misses = misses + 1 if missed else 0
        if misses > MOST_MISSES * len(known):
            sys.exit("faults are missed again and again: the commands end before they strike")
        if not missed:
            made += 1
            yield verdict


def line_of(number: int, verdict: Verdict) -> str:
    """One fault for people: what, where, when, what came of it."""
    fault = verdict.fault
    repeated = f", {verdict.repeated} of {verdict.in_flight} units repeated"
    return (
        f"{number:3d} {fault.kind.name} | {fault.target} at step {verdict.step} | "
        f"{verdict.struck} | {verdict.outcome.value.upper()} | {verdict.why}{repeated}, "
        f"{verdict.seconds:.0f} s"
    )


def table(verdicts: Sequence[Verdict]) -> str:
    """Faults by kind, as Markdown."""
    head = ["fault", "tried", *(outcome.value for outcome in SHOWN), "units repeated", "in flight"]
    rows = [head, ["---"] * len(head)]
    names = sorted({verdict.fault.kind.name for verdict in verdicts})
    rows += [_row(name, [v for v in verdicts if v.fault.kind.name == name]) for name in names]
    rows.append(_row("in all", verdicts))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(name: str, verdicts: Sequence[Verdict]) -> list[str]:
    counts = [sum(v.outcome is outcome for v in verdicts) for outcome in SHOWN]
    repeated = sum(v.repeated for v in verdicts)
    allowed = sum(v.in_flight for v in verdicts)
    return [name, *map(str, (len(verdicts), *counts, repeated, allowed))]


def _is_bad(verdict: Verdict) -> bool:
    return verdict.outcome in BAD or verdict.too_much
