"""One fault, from a fresh store to a verdict."""

import random
import shutil
import signal
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import psutil

from retomaton_dist.storage.store import writing
from tests.chaos.bench import Bench
from tests.chaos.disk import Disk
from tests.chaos.faults import BESIDE, Kind, Promise
from tests.chaos.ledger import Ledger
from tests.chaos.nodes import Nodes
from tests.chaos.running import Ended
from tests.chaos.scene import Scene
from tests.conftest import contents

DELAY_SECONDS = 0.1
IN_FLIGHT = 2  # units that a worker has been given, at most: what its loss may cost


class Outcome(Enum):
    """What came of a fault."""

    SURVIVED = "survived"
    REFUSED = "refused"
    WRONG = "wrong"
    HUNG = "hung"
    MISSED = "missed"  # the command had ended before the fault: nothing was tried


@dataclass(frozen=True)
class Fault:
    """A fault that was drawn: what, where, when, and the seed of what else is left to chance."""

    kind: Kind
    target: str
    moment: float
    seed: int


@dataclass(frozen=True)
class Verdict:
    """The outcome, in which step it struck, what was done, and why it is judged so."""

    fault: Fault
    outcome: Outcome
    struck: str
    step: int
    why: str
    seconds: float
    repeated: int = 0
    in_flight: int = 0

    @property
    def too_much(self) -> bool:
        """Whether more was done twice than was under way."""
        return self.repeated > self.in_flight


@dataclass(frozen=True)
class Trial:
    """Everything a fault needs."""

    bench: Bench
    nodes: Nodes
    disk: Disk
    patience: float

    def try_out(self, fault: Fault) -> Verdict:
        """Disturb a command, let it end, run it again if need be, and judge."""
        began, target = time.monotonic(), self.bench.target(fault.target)
        chosen = random.Random(fault.seed)
        scene = Scene(self.bench, self.nodes, self.disk, target, chosen, self.patience)
        step = 0 if fault.kind.early else int(fault.moment * target.steps)
        self.bench.lay_out(target, scene.store)
        try:
            with Ledger(scene.store) as ledger:
                outcome, struck, why = _judged(scene, fault, step)
        except psutil.NoSuchProcess as error:
            outcome, struck, why = Outcome.MISSED, "", f"it ended by itself: {error}"
        finally:
            scene.end_commands()
        scene.leave()
        seconds, allowed = time.monotonic() - began, IN_FLIGHT * scene.hit
        return Verdict(fault, outcome, struck, step, why, seconds, ledger.repeated, allowed)


def _judged(scene: Scene, fault: Fault, step: int) -> tuple[Outcome, str, str]:
    kept = contents(scene.store)
    struck = fault.kind.strike(scene) if fault.kind.early else None
    scene.start()
    if not fault.kind.early:
        if not scene.reached(step):
            ended = scene.run.ended(scene.patience) if scene.run else None
            return Outcome.MISSED, "", f"the command had ended: {ended}"
        time.sleep(scene.chosen.uniform(0, DELAY_SECONDS))
        struck = fault.kind.strike(scene)
    if struck is None:
        return Outcome.MISSED, "", "there was nothing to strike"
    assert scene.run is not None
    first = scene.run.ended(scene.patience)
    if first.code is None:
        return Outcome.HUNG, struck, f"no end within {scene.patience:g} s: {_last(first)}"
    if scene.second is not None:
        return _both(scene, struck, first, scene.second.ended(scene.patience))
    if first.code == 0:
        return _compared(scene, struck, "at once")
    if problem := _bad_end(fault.kind.promise, first, struck) or _touched(scene, kept):
        again, _, why = _rerun(scene, struck, first)
        ends = "the same bytes" if again in (Outcome.SURVIVED, Outcome.REFUSED) else why
        return Outcome.WRONG, struck, f"{problem}; a rerun: {ends}"
    return _rerun(scene, struck, first)


def _rerun(scene: Scene, struck: str, first: Ended) -> tuple[Outcome, str, str]:
    """The same command again, once what was in its way is gone."""
    scene.heal()
    second = scene.start().ended(scene.patience)
    if second.code == 2 and scene.damaged:
        # Only now it met what was damaged between the two runs.
        if not second.one_line:
            return Outcome.WRONG, struck, f"damage met with {len(second.lines)} lines"
        first = second
        scene.heal()
        second = scene.start().ended(scene.patience)
    if second.code is None:
        return Outcome.HUNG, struck, f"the rerun: no end within {scene.patience:g} s"
    if second.code:
        return Outcome.WRONG, struck, f"the rerun: exit code {second.code}, {_last(second)}"
    before, after = first.iterations(), second.iterations()
    if before and after and after[0] < before[-1]:
        return Outcome.WRONG, struck, f"k-means was at {before[-1]} and went on at {after[0]}"
    outcome, _, why = _compared(scene, struck, f"exit code {first.code}, then the same")
    if outcome is Outcome.SURVIVED and first.code == 2:
        return Outcome.REFUSED, struck, _last(first)
    return outcome, struck, why


def _compared(scene: Scene, struck: str, how: str) -> tuple[Outcome, str, str]:
    different = scene.bench.difference(scene.target, scene.store, scene.damaged)
    if different:
        return Outcome.WRONG, struck, f"{how}, but different: {different}"
    return Outcome.SURVIVED, struck, how


def _bad_end(promise: Promise, ended: Ended, struck: str) -> str | None:
    """What is wrong with how a disturbed run ended, if anything is."""
    if promise is Promise.AT_ONCE:
        return f"gave up with exit code {ended.code}: {_last(ended)}"
    if promise is Promise.SAID and (ended.code != 2 or not ended.one_line):
        return f"exit code {ended.code} and {len(ended.lines)} lines: {_last(ended)}"
    if promise is Promise.TOLD:
        wanted = 128 + signal.Signals[struck.split()[0]]
        if ended.code != wanted or not ended.one_line:
            return f"exit code {ended.code} and {len(ended.lines)} lines instead of {wanted} and 1"
    return None


def _touched(scene: Scene, kept: dict[str, bytes]) -> str | None:
    """Which file that was there before the run is another now; stages are entered in store.json."""
    now = contents(scene.store)
    spared = {"store.json", scene.damaged}
    for name, data in kept.items():
        if name not in spared and now.get(name) != data:
            return f"{name} was changed"
    return None


def _both(scene: Scene, struck: str, first: Ended, second: Ended) -> tuple[Outcome, str, str]:
    """Judge two commands at a time: of two writers one may be refused, readers never are."""
    refused = [ended for ended in (first, second) if ended.code != 0]
    reads = scene.target.begins_after == "statistics"
    if len(refused) > (0 if reads else 1) or not all(map(_is_locked_out, refused)):
        said = "; ".join(f"exit code {each.code}, {_last(each)}" for each in refused)
        return Outcome.WRONG, struck, said
    if reads:
        _undo_beside(scene.store)
    outcome, struck, why = _compared(scene, struck, "at once")
    if outcome is Outcome.SURVIVED and refused:
        return Outcome.REFUSED, struck, _last(refused[0])
    return outcome, struck, why


def _is_locked_out(ended: Ended) -> bool:
    return ended.code == 2 and ended.one_line and "is being written by" in ended.said


def _undo_beside(store: Path) -> None:
    """Take out again what the other writer made, so that stores compare."""
    with writing(store) as writer:
        writer.abandon(f"suffix/{BESIDE}")
    shutil.rmtree(store / "suffixes" / BESIDE)


def _last(ended: Ended) -> str:
    return ended.lines[-1][:300] if ended.lines else "nothing said"
