"""Self-tests: what is computed on a device, and how far that may be from what it should be.

On the CPU a path is compared with a plain computation in float64; on a GPU with the same path on
the CPU. Where the system promises the same result on every device, the tolerance is 0.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
CPU = "cpu"


@dataclass(frozen=True)
class SelfTest:
    """One path of the system: `on` computes it on a device, `plainly` without our code.

    Errors are relative to the largest number that was expected. The tolerances are those of the CPU
    against the plain computation, and of a GPU against the CPU; None where there is no such path.
    """

    name: str
    on: Callable[[str], Numbers]
    plainly: Callable[[], Numbers]
    on_cpu: float | None
    on_gpu: float | None

    def tolerance(self, device: str) -> float | None:
        """How large an error may be on a device."""
        return self.on_cpu if device == CPU else self.on_gpu


@dataclass(frozen=True)
class PathOutcome:
    """How a self-test went on a device; `problem` says what was raised instead of a result."""

    path: str
    device: str
    error: float
    tolerance: float
    seconds: float
    problem: str = ""

    @property
    def passed(self) -> bool:
        """Whether there was a result, and it was near enough."""
        return not self.problem and self.error <= self.tolerance


def run_self_tests(tests: Sequence[SelfTest], device: str) -> list[PathOutcome]:
    """Run the tests that concern a device ("cpu", "cuda" or "cuda:1"), one after the other."""
    return [run_self_test(test, device) for test in tests if test.tolerance(device) is not None]


def run_self_test(test: SelfTest, device: str) -> PathOutcome:
    """Compare what a path gives on a device with what it should give."""
    tolerance = test.tolerance(device)
    assert tolerance is not None, f"{test.name} is not for {device}"
    begun = time.monotonic()
    try:
        result = test.on(device)
        expected = test.plainly() if device == CPU else test.on(CPU)
        error, problem = relative_error(result, expected), ""
    except Exception as raised:  # noqa: BLE001 - whatever a library raises is what is looked for
        lines = str(raised).strip().splitlines() or [""]
        error, problem = float("inf"), f"{type(raised).__name__}: {lines[-1]}"
    return PathOutcome(test.name, device, error, tolerance, time.monotonic() - begun, problem)


def relative_error(result: Numbers, expected: Numbers) -> float:
    """The largest difference as a share of the largest number; infinite for NaN or other shapes."""
    if result.shape != expected.shape or not np.isfinite(result).all():
        return float("inf")
    largest = float(np.abs(expected).max())
    return float(np.abs(result - expected).max()) / (largest or 1.0)
