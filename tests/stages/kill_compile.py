"""Kill `compile` at its file operations, and run it again: started by `test_compile_killed.py`.

For every `step`-th operation that changes what lies on disk a process of its own compiles, trains
and encodes and kills itself instead of that operation; a second one, undisturbed, goes on.
"""

import itertools
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

from storage.store import Store
from storage.verify import verify
from tests.conftest import contents
from tests.stages.made import compile_here, make_store, random_states, write_clustering
from tests.storage.kill import arm, in_child

ENTRIES, WIDTH = 2500, 4
SETTINGS = {"unit_entries": 900, "code_size": 2}


def killed_run(path, fatal):
    arm("changes", fatal)
    compile_here(path, **SETTINGS)


def second_run(path, expected):
    Store.open(path)
    compile_here(path, **SETTINGS)
    assert contents(path) == expected


def main(step, folder):
    begun, complete = folder / "begun.store", folder / "complete.store"
    make_store(begun, ENTRIES, WIDTH)
    write_clustering(begun, random_states(ENTRIES))
    shutil.copytree(begun, complete)
    compile_here(complete, **SETTINGS)
    checked = verify(Store.open(complete))
    assert (checked.findings, checked.leftovers) == ([], [])
    expected = contents(complete)
    for fatal in itertools.count(1, step):
        path = shutil.copytree(begun, folder / f"killed-{fatal}.store")
        ended = in_child(partial(killed_run, path, fatal))
        if ended == 0:
            print(fatal)
            return
        assert ended == -signal.SIGKILL, f"operation {fatal}: exit code {ended}"
        ended = in_child(partial(second_run, path, expected))
        assert ended == 0, f"the run after a kill at operation {fatal} failed"
        shutil.rmtree(path)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
