"""Kill a stage at its file operations, and run it again: started by `test_killed_anywhere.py`.

For every `step`-th operation that changes what lies on disk a process of its own runs the stage
(`compile` trains and encodes first) and kills itself instead of that operation; a second one,
undisturbed, goes on.
"""

import itertools
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

from retomaton_dist.clustering import recipe
from retomaton_dist.stages import kmeans_job
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.verify import verify
from tests.conftest import contents
from tests.stages.made import (
    cluster_here,
    compile_here,
    index_here,
    make_store,
    ngram_here,
    random_states,
    suffix_here,
    write_clustering,
)
from tests.storage.kill import arm, in_child

ENTRIES, WIDTH = 2500, 4
INDEX = {
    "factory": "IVF8,PQ2x4np", "sample": 500, "shards": 1, "unit_entries": 1, "recall_queries": 4,
    "recall_k": 4,
}  # fmt: skip


def cluster_in_levels(path):
    """K-means whose cells have cells, in units of a few hundred rows."""
    recipe.PLAIN_WORK = recipe.PLAIN_STATES = 0
    recipe.MANY_STATES, recipe.CELL_STATES = 20, 5
    kmeans_job.UNIT_ROWS, kmeans_job.LEAST_RANGE_STATES = 800, 1
    cluster_here(path, name="levels", states=45, sample=2000, iterations=2)


def count_over_suffixes(path):
    suffix_here(path, longest=3)
    ngram_here(path, unit_entries=300)


STAGES = {
    "cluster": cluster_in_levels,
    "compile": partial(compile_here, unit_entries=900, code_size=2),
    "index": partial(index_here, **INDEX),
    "ngram": count_over_suffixes,
    "suffix": partial(suffix_here, unit_entries=300, longest=4),
}


def killed_run(run, path, fatal):
    arm("changes", fatal)
    run(path)


def second_run(run, path, expected):
    Store.open(path)
    run(path)
    assert contents(path) == expected


def main(run, step, folder):
    begun, complete = folder / "begun.store", folder / "complete.store"
    make_store(begun, ENTRIES, WIDTH)
    write_clustering(begun, random_states(ENTRIES))
    shutil.copytree(begun, complete)
    run(complete)
    checked = verify(Store.open(complete))
    assert (checked.findings, checked.leftovers) == ([], [])
    expected = contents(complete)
    for fatal in itertools.count(1, step):
        path = shutil.copytree(begun, folder / f"killed-{fatal}.store")
        ended = in_child(partial(killed_run, run, path, fatal))
        if ended == 0:
            print(fatal)
            return
        assert ended == -signal.SIGKILL, f"operation {fatal}: exit code {ended}"
        ended = in_child(partial(second_run, run, path, expected))
        assert ended == 0, f"the run after a kill at operation {fatal} failed"
        shutil.rmtree(path)


if __name__ == "__main__":
    main(STAGES[sys.argv[1]], int(sys.argv[2]), Path(sys.argv[3]))
