"""However many workers build a store, its bytes are those that one process makes without Ray."""

import pytest

import retomaton_dist as rd
from retomaton_dist.storage.store import Store
from tests.conftest import contents

UNIT = 2048
SETTINGS = {
    "unit_bytes": 2000,
    "cluster": {"states": 30, "iterations": 4},
    "index": {
        "factory": "IVF16,PQ8x4", "shards": 2, "sample": 2000, "unit_entries": UNIT,
        "recall_queries": 16, "recall_k": 8,
    },
    "compile": {"unit_entries": UNIT, "code_size": 8},
    "suffix": {"unit_entries": UNIT, "longest": 4},
    "ngram": {"unit_entries": UNIT},
}  # fmt: skip


def build(small_store, path, workers):
    rd.build(path, **small_store.settings | SETTINGS | {"workers": workers})
    return path


@pytest.fixture(scope="module")
def alone(small_store, tmp_path_factory):
    """Built in this process."""
    path = build(small_store, tmp_path_factory.mktemp("alone") / "a.store", 0)
    assert rd.open(path).entries > 10 * UNIT, "there is something to share out"
    return path


@pytest.mark.parametrize("workers", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_no_byte_of_any_stage_depends_on_the_number_of_workers(
    ray_local, small_store, alone, tmp_path, workers
):
    path = build(small_store, tmp_path / "b.store", workers)
    manifests = [Store.open(store).manifest for store in (path, alone)]
    digests = [{name: one.digest for name, one in found.stages.items()} for found in manifests]
    assert digests[0] == digests[1]
    assert contents(path) == contents(alone)


@pytest.mark.slow
def test_nor_does_that_of_greedy_states(ray_local, small_store, tmp_path):
    made = []
    for workers in (0, 2):
        (tmp_path / str(workers)).mkdir()
        path = small_store.copy(tmp_path / str(workers)).path
        rd.cluster(path, algorithm="greedy", neighbours=5, workers=workers, progress="none")
        made.append(contents(path))
    assert made[0] == made[1]
