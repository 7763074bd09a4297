"""Every kind of fault: what it can disturb, how it strikes, and what the system promises then.

A strike is a function of the scene; it returns what it did, for people, or None if there was
nothing to strike any more.
"""

import resource
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import psutil

from tests.chaos.damage import damage_input, damage_part
from tests.chaos.nodes import end
from tests.chaos.scene import Scene

PAUSE_SECONDS = 4.0
LEAST_BYTES = 64
BESIDE = "beside"

STAGES = ("tokenize", "extract", "cluster", "index", "compile", "suffix", "statistics")
COMMANDS = (*STAGES, "eval", "served")
BEHIND = (*STAGES[1:], "eval", "served")  # read a store


class Promise(Enum):
    """What must come of a fault."""

    AT_ONCE = "the run itself ends well"
    RERUN = "the same command again ends well"
    SAID = "it ends well, or with one line that says what is wrong; later the command ends well"
    TOLD = "it ends at once with one line and the signal's exit code; the command again ends well"


@dataclass(frozen=True)
class Kind:
    """A kind of fault. `early` ones strike before the command starts."""

    name: str
    targets: tuple[str, ...]
    promise: Promise
    strike: Callable[[Scene], str | None]
    early: bool = False
    needs_disk: bool = False


def _kill_actor(scene: Scene) -> str | None:
    return _strike_actor(scene, "Host", "killed")


def _stop_actor(scene: Scene) -> str | None:
    return _strike_actor(scene, "Host", "stopped")


def _kill_shard(scene: Scene) -> str | None:
    return _strike_actor(scene, "ShardServer", "killed")


def _stop_shard(scene: Scene) -> str | None:
    found = scene.nodes.actors("ShardServer")
    if not found:
        return None
    scene.hit = 0
    shard = scene.pick(found)
    _pause(shard.send_signal)
    return f"a shard on {scene.nodes.place_of(shard)} stopped for {PAUSE_SECONDS:g} s"


def _strike_actor(scene: Scene, kind: str, done: str) -> str | None:
    found = scene.nodes.actors(kind)
    if not found:
        return None
    scene.hit = 1 if kind == "Host" else 0
    actor = scene.pick(found)
    said = f"{kind} on {scene.nodes.place_of(actor)} {done}"
    if done == "killed":
        actor.kill()
    else:
        actor.suspend()
        scene.stopped.append(actor)
    return said


def _kill_raylet(scene: Scene) -> str | None:
    raylet, place = _pick_node(scene)
    end(raylet)
    return f"raylet of {place} killed"


def _kill_node(scene: Scene) -> str | None:
    raylet, place = _pick_node(scene)
    end(raylet, family=True)
    return f"{place} killed with all that ran on it"


def _stop_raylet(scene: Scene) -> str | None:
    raylet, place = _pick_node(scene)
    raylet.suspend()
    scene.stopped.append(raylet)
    return f"raylet of {place} stopped"


def _pick_node(scene: Scene) -> tuple[psutil.Process, str]:
    raylet = scene.pick(scene.nodes.others())
    place = scene.nodes.place_of(raylet)
    scene.hit = sum(scene.nodes.place_of(actor) == place for actor in scene.nodes.actors())
    return raylet, f"{place} ({scene.hit} actors)"


def _kill_head(scene: Scene) -> str | None:
    head = scene.nodes.head()
    assert head is not None
    end(head)
    return "the head's raylet killed, to which the driver is attached"


def _kill_gcs(scene: Scene) -> str | None:
    gcs = scene.nodes.gcs()
    assert gcs is not None
    end(gcs)
    return "GCS killed"


def _stop_gcs(scene: Scene) -> str | None:
    gcs = scene.nodes.gcs()
    assert gcs is not None
    scene.hit = 0
    _pause(gcs.send_signal)
    return f"GCS stopped for {PAUSE_SECONDS:g} s"


def _pause(send: Callable[[signal.Signals], None]) -> None:
    send(signal.SIGSTOP)
    time.sleep(PAUSE_SECONDS)
    send(signal.SIGCONT)


def _signal(number: signal.Signals) -> Callable[[Scene], str | None]:
    def strike(scene: Scene) -> str | None:
        assert scene.run is not None
        scene.run.send(number)
        return f"{number.name} to the driver"

    return strike


def _pause_driver(scene: Scene) -> str | None:
    assert scene.run is not None
    scene.hit = 0
    _pause(scene.run.send)
    return f"the driver stopped for {PAUSE_SECONDS:g} s"


def _stop_job(scene: Scene) -> str | None:
    assert scene.run is not None
    scene.run.send(signal.SIGTERM)
    return "job stopped"


def _fill_disk(scene: Scene) -> str | None:
    scene.disk.fill()
    return "disk full"


def _fill_in_actors(scene: Scene) -> str | None:
    """No file of an actor may grow: what a full disk is to it, while the driver can write."""
    found = scene.nodes.actors()
    if not found:
        return None
    for actor in found:
        actor.rlimit(resource.RLIMIT_FSIZE, (LEAST_BYTES, LEAST_BYTES))
    return f"{len(found)} actors may write no file"


def _read_only(scene: Scene) -> str | None:
    scene.disk.set_writable(False)
    return "the file system is read-only"


def _second_writer(scene: Scene) -> str | None:
    """Start the same command twice: who comes first is left to chance."""
    scene.nodes.ready()
    scene.hit, scene.second = 0, scene.begin()
    return "the same command at the same time"


def _writer_beside(scene: Scene) -> str | None:
    """Another stage of the store that an evaluation reads."""
    line = ("suffix", str(scene.store), "--name", BESIDE, *scene.workers())
    scene.hit, scene.second = 0, scene.command(*line)
    return "another stage of the store begun"


def kinds(*, real_disk: bool) -> dict[str, Kind]:
    """All kinds that can be tried here, by name."""
    at_once, rerun, said = Promise.AT_ONCE, Promise.RERUN, Promise.SAID
    listed = [
        Kind("actor killed", COMMANDS, at_once, _kill_actor),
        Kind("actor stopped", COMMANDS, at_once, _stop_actor),
        Kind("shard killed", ("served",), at_once, _kill_shard),
        Kind("shard paused", ("served",), at_once, _stop_shard),
        Kind("raylet killed", COMMANDS, at_once, _kill_raylet),
        Kind("node killed", COMMANDS, at_once, _kill_node),
        Kind("raylet stopped", COMMANDS, at_once, _stop_raylet),
        Kind("head's raylet killed", COMMANDS, rerun, _kill_head),
        Kind("GCS killed", COMMANDS, rerun, _kill_gcs),
        Kind("GCS paused", COMMANDS, at_once, _stop_gcs),
        Kind("driver killed", COMMANDS, rerun, _signal(signal.SIGKILL)),
        Kind("driver terminated", COMMANDS, Promise.TOLD, _signal(signal.SIGTERM)),
        Kind("driver interrupted", COMMANDS, Promise.TOLD, _signal(signal.SIGINT)),
        Kind("driver paused", COMMANDS, at_once, _pause_driver),
        Kind("job stopped", ("job",), rerun, _stop_job),
        Kind("disk full", COMMANDS, said, _fill_disk, needs_disk=True),
        Kind("disk full for actors", STAGES, said, _fill_in_actors),
        Kind("disk read-only", COMMANDS, said, _read_only, early=True, needs_disk=True),
        Kind("file flipped", BEHIND, said, damage_input("flipped"), early=True),
        Kind("file truncated", BEHIND, said, damage_input("truncated"), early=True),
        Kind("file missing", BEHIND, said, damage_input("missing"), early=True),
        Kind("part damaged after a kill", STAGES, rerun, damage_part),
        Kind("two writers", STAGES, said, _second_writer, early=True),
        Kind("writer beside a reader", ("eval", "served"), at_once, _writer_beside),
    ]
    return {kind.name: kind for kind in listed if real_disk or not kind.needs_disk}
