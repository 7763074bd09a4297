"""Files flipped, truncated or missing: of finished stages, or of one that was killed."""

import signal
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from retomaton_dist.storage.lock import LOCK_NAME
from tests.chaos.nodes import wait_until_gone
from tests.chaos.scene import Scene
from tests.conftest import contents

WAYS = ("flipped", "truncated", "missing")
ACTORS_END_SECONDS = 30.0


def damage_input(way: str) -> Callable[[Scene], str | None]:
    """A strike at one file of the store that a command is about to read."""

    def strike(scene: Scene) -> str | None:
        return _damage(scene, _drawn(scene, sorted(contents(scene.store))), way)

    return strike


def damage_part(scene: Scene) -> str | None:
    """SIGKILL the driver; when nobody writes any more, damage a file that the run has left."""
    assert scene.run is not None
    actors = scene.nodes.actors()
    scene.run.send(signal.SIGKILL)
    scene.run.ended(ACTORS_END_SECONDS)
    if not wait_until_gone(actors, ACTORS_END_SECONDS):
        return None
    before = scene.target.begins_after
    known = contents(scene.bench.after(before)) if before else {}
    new = sorted(name for name in contents(scene.store) if name not in {*known, LOCK_NAME})
    if not new:
        return None
    scene.unmet = True
    return f"driver killed, then {_damage(scene, _drawn(scene, new), scene.chosen.choice(WAYS))}"


def _drawn(scene: Scene, names: list[str]) -> str:
    """A file, every folder being as likely as the next: chunks are many, manifests are one."""
    by_folder = defaultdict(list)
    for name in names:
        by_folder[str(Path(name).parent)].append(name)
    return scene.chosen.choice(by_folder[scene.chosen.choice(sorted(by_folder))])


def _damage(scene: Scene, name: str, way: str) -> str:
    path = scene.store / name
    data = path.read_bytes()
    scene.damaged, scene.sound = name, data
    if way == "missing":
        path.unlink()
        return f"{name} removed"
    place = scene.chosen.randrange(len(data)) if data else 0
    if way == "truncated":
        path.write_bytes(data[:place])
        return f"{name} cut to {place:,} of {len(data):,} bytes"
    flipped = bytes([data[place] ^ (1 << scene.chosen.randrange(8))])
    path.write_bytes(data[:place] + flipped + data[place + 1 :])
    return f"a bit of {name} flipped at {place:,}"
