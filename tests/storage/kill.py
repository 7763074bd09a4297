"""Kill a stage at every single file operation, and run it again: started by `test_kill.py`.

For k = 1, 2, ... a process of its own runs the stage and kills itself with SIGKILL instead of its
k-th file operation. A run of writes counts as one operation, of which a part is done first. Then
the store must open, and a second process, undisturbed, must end with the very bytes of a store
that nobody disturbed.

`changes` counts only operations that change what lies on disk; between two of them SIGKILL always
finds the same files. `all` counts opening for reading and flushing as well.
"""

import contextlib
import itertools
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from retomaton_dist.storage import records, states
from retomaton_dist.storage.canonical import content_hash
from retomaton_dist.storage.errors import BadInput
from retomaton_dist.storage.prune import NamedPart, prune_part
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store, StoreWriter, writing
from retomaton_dist.storage.verify import verify
from tests.conftest import contents
from tests.storage import make

CHANGES = ("write", "pwrite", "ftruncate", "replace", "unlink", "mkdir", "rmdir")
CONFIG = {"algorithm": "kmeans"}
DOCUMENTS = make.sample_documents(make.CHUNK_ENTRIES + 1)


def run(stage: str, path: Path) -> None:
    """Make the store as far as `stage`."""
    with writing(path) as writer:
        if stage == "prune":
            prune(writer)
            return
        make.tokenize(writer, DOCUMENTS)
        if stage == "extract":
            make.extract(writer)


def cluster(path: Path) -> None:
    """Leave a clustering with records of its units, as a stage does that does not merge them."""
    with writing(path) as writer:
        writer.begin("cluster/kmeans", CONFIG, 2, {})
        for unit in range(2):
            written = states.write_column(path, "kmeans", f"part{unit}", np.arange(9))
            records.write(path, "cluster/kmeans", Record(unit, content_hash(CONFIG), written))
        writer.finish("cluster/kmeans", {}, {"states": 9, "entries": 9})


def prune(writer: StoreWriter) -> None:
    """Delete the clustering, unless nothing of it is left."""
    with contextlib.suppress(BadInput):
        prune_part(writer, NamedPart("states", "cluster", "states"), "kmeans")


def counts(operations: str, name: str, arguments: tuple) -> bool:
    """Whether a call is one of the operations to be counted."""
    creates = name == "open" and bool(arguments[1] & os.O_CREAT)
    return operations == "all" or name in CHANGES or creates


def arm(operations: str, fatal: int) -> None:
    """Have this process die at its `fatal`-th file operation."""
    count, last = 0, ""

    def guarded(name: str, original: Callable) -> Callable:
        def operation(*arguments, **options):
            nonlocal count, last
            if counts(operations, name, arguments):
                count += not name == last == "write"
                last = name
                if count == fatal:
                    die(name, original, arguments)
            return original(*arguments, **options)

        return operation

    for name in (*CHANGES, "open", "fsync"):
        setattr(os, name, guarded(name, getattr(os, name)))


def die(name: str, original: Callable, arguments: tuple) -> None:
    """Kill this process, if in a write then half-way through it."""
    if name == "write":
        descriptor, data = arguments
        original(descriptor, data[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


def killed_run(stage: str, path: Path, operations: str, fatal: int) -> None:
    arm(operations, fatal)
    run(stage, path)


def second_run(stage: str, path: Path, expected: dict[str, bytes]) -> None:
    if (path / "store.json").exists():
        Store.open(path)
    run(stage, path)
    assert contents(path) == expected


def in_child(action: Callable[[], None]) -> int:
    """Do something in a process of its own; return how that ended, 0 if well."""
    child = os.fork()
    if not child:
        code = 1
        try:
            action()
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_everywhere(
    stage: str, operations: str, begun: Path, expected: dict[str, bytes], folder: Path
) -> int:
    """Kill runs of a stage over copies of `begun` at every operation; return how many there are."""
    for fatal in itertools.count(1):
        path = folder / f"killed-{fatal}.store"
        if begun.exists():
            shutil.copytree(begun, path)
        ended = in_child(partial(killed_run, stage, path, operations, fatal))
        if ended == 0:
            return fatal - 1
        assert ended == -signal.SIGKILL, f"operation {fatal}: exit code {ended}"
        ended = in_child(partial(second_run, stage, path, expected))
        assert ended == 0, f"the run after a kill at operation {fatal} failed"
        shutil.rmtree(path)
    raise AssertionError("unreachable")


def main(stage: str, operations: str, folder: Path) -> None:
    begun, complete = folder / "begun.store", folder / "complete.store"
    if stage == "extract":
        run("tokenize", begun)
        shutil.copytree(begun, complete)
    if stage == "prune":
        run("tokenize", begun)
        cluster(begun)
        shutil.copytree(begun, complete)
    run(stage, complete)
    checked = verify(Store.open(complete))
    assert not checked.findings
    assert not checked.leftovers
    print(kill_everywhere(stage, operations, begun, contents(complete), folder))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
