"""Self-tests: those of the package pass here, and one whose result is wrong does not."""

import numpy as np
import pytest

from retomaton_dist.checkup.arrays import array_tests, gpu_number
from retomaton_dist.checkup.models import model_tests
from retomaton_dist.checkup.paths import SelfTest, run_self_test, run_self_tests

TESTS = {test.name: test for test in (*array_tests(), *model_tests())}
ON_CPU = [name for name, test in TESTS.items() if test.on_cpu is not None]


@pytest.mark.parametrize("name", ON_CPU)
def test_every_path_computes_here_what_it_should(name):
    outcome = run_self_test(TESTS[name], "cpu")
    assert outcome.passed, outcome


def test_every_path_that_a_gpu_takes_has_a_tolerance_for_it():
    on_gpu = {name: test.on_gpu for name, test in TESTS.items() if test.on_gpu is not None}
    assert on_gpu.keys() == TESTS.keys() - {"distances from codes"}
    assert {name for name, tolerance in on_gpu.items() if tolerance == 0} == {
        "nearest states",
        "nearest states in cells",
        "neighbours for greedy",
    }


def made(found, expected=(1.0, 2.0), **tolerances):
    allowed = {"on_cpu": 0.1, "on_gpu": 0.1} | tolerances
    return SelfTest("made", lambda device: np.array(found), lambda: np.array(expected), **allowed)


@pytest.mark.parametrize(
    ("found", "passed"),
    [
        ((1.0, 2.0), True),
        ((1.1, 2.1), True),
        ((1.0, 2.3), False),
        ((1.0, np.nan), False),
        ((1.0,), False),
    ],
)
def test_a_result_passes_if_it_is_near_enough_to_what_is_expected(found, passed):
    assert run_self_test(made(found), "cpu").passed == passed


def test_what_is_raised_is_a_problem_in_one_line():
    def fails(device):
        raise RuntimeError("first line\nCUDA error: out of memory")

    outcome = run_self_test(SelfTest("x", fails, lambda: np.zeros(1), 0.0, 0.0), "cpu")
    assert not outcome.passed
    assert outcome.problem == "RuntimeError: CUDA error: out of memory"


def test_a_device_is_spared_the_paths_that_it_does_not_take():
    tests = [made((1.0, 2.0)), made((1.0, 2.0), on_cpu=None)]
    assert len(run_self_tests(tests, "cpu")) == 1


def test_faiss_counts_gpus_as_torch_does():
    assert [gpu_number(device) for device in ("cpu", "cuda", "cuda:3")] == [None, 0, 3]
