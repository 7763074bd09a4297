"""GPU against CPU, path by path: first alone, then in the stages that take them.

The authors have no GPU: whoever has one can trust these paths as far as this file passes.
"""

import os

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.checkup.arrays import array_tests
from retomaton_dist.checkup.models import model_tests
from retomaton_dist.checkup.paths import run_self_test
from tests.conftest import contents, run_command
from tests.evaluation.evaluated import by_point, evaluate_here, write_texts
from tests.search.made import serving

pytestmark = pytest.mark.gpu

TESTS = {test.name: test for test in (*array_tests(), *model_tests()) if test.on_gpu is not None}
CHOSEN = {"methods": "lm,knnlm,retomaton", "lambda_": 0.3, "knn_temperature": 2.0}


@pytest.mark.parametrize("name", [name for name in TESTS if not name.startswith("search")])
def test_a_path_computes_what_it_computes_on_the_cpu(name):
    outcome = run_self_test(TESTS[name], "cuda")
    assert outcome.passed, outcome


@pytest.mark.usefixtures("needs_faiss_gpu")
@pytest.mark.parametrize("name", [name for name in TESTS if name.startswith("search")])
def test_a_shard_finds_what_it_finds_on_the_cpu(name):
    outcome = run_self_test(TESTS[name], "cuda")
    assert outcome.passed, outcome


def extracted(small_store, path, **settings):
    chosen = {**small_store.settings, "workers": 0, **settings}
    return rd.extract(path, **chosen)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-3), ("float16", 3e-2)])
def test_keys_that_a_gpu_extracts_are_those_of_the_cpu(small_store, tmp_path, dtype, tolerance):
    store = extracted(small_store, tmp_path / "gpu.store", device="cuda", dtype=dtype)
    here = rd.open(small_store.path)
    found, expected = (np.asarray(each.keys, np.float32) for each in (store, here))
    assert np.array_equal(store.values, here.values)
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


def test_a_gpu_extracts_the_same_bytes_again(small_store, tmp_path):
    made = [tmp_path / name for name in ("one.store", "two.store")]
    for path in made:
        extracted(small_store, path, device="cuda")
    assert contents(made[0]) == contents(made[1])


def test_states_do_not_depend_on_the_device(small_store, tmp_path):
    with_gpu, without = (small_store.copy(tmp_path / name).path for name in ("gpu", "cpu"))
    flags = ("--states", 50, "--iterations", 5, "--workers", 0)
    blind = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    for path, environment in ((with_gpu, os.environ), (without, blind)):
        done = run_command("cluster", path, *flags, env=environment)
        assert done.returncode == 0, done.stderr
    assert contents(with_gpu / "states") == contents(without / "states")


@pytest.mark.usefixtures("needs_faiss_gpu", "ray_local")
def test_an_index_that_gpus_serve_finds_what_this_process_finds(walkable_store):
    from retomaton_dist.runtime.cluster import Crew
    from retomaton_dist.search.layout import IndexFiles
    from retomaton_dist.storage.store import Store

    opened = IndexFiles.open(Store.open(walkable_store.path), "default")
    store = rd.open(walkable_store.path)
    queries = store.rows(range(0, 200, 10)).astype(np.float32)
    with serving(opened, Crew(len(opened.layout.spans), 0.0, 1.0, 1)) as service:
        distances, _ = service.search(queries, 32)
    expected, _ = store.searcher().search(queries, 32)
    assert distances == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_an_evaluation_on_a_gpu_has_the_perplexities_of_the_cpu(walkable_store, tmp_path):
    texts = write_texts(tmp_path)
    made = {
        device: evaluate_here(
            walkable_store.path, tmp_path / device, texts, **CHOSEN, device=device
        )
        for device in ("cuda", "cpu")
    }
    found, expected = (by_point(made[device]) for device in ("cuda", "cpu"))
    assert found.keys() == expected.keys()
    for point, row in expected.items():
        assert found[point]["perplexity"] == pytest.approx(row["perplexity"], rel=2e-2)
