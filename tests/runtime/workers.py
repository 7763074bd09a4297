"""Workers that do next to nothing, and those that fail in every way a worker can."""

import os
import signal
import time
import uuid
from pathlib import Path

from retomaton_dist.errors import ModelError
from retomaton_dist.runtime.actors import ATTEMPTS
from retomaton_dist.runtime.ray_pool import IN_FLIGHT


class Doubler:
    """Leaves one mark per unit that it does, named after the unit, and doubles it."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def run(self, unit):
        (self.folder / f"{unit}-{os.getpid()}-{uuid.uuid4().hex}").touch()
        return 2 * unit


class Owner:
    """Makes an object that is lost when its maker is."""

    def put(self):
        import ray

        return [ray.put(bytes(1 << 20))]


def marks(folder):
    """The units that were worked on, as often as they were, in ascending order."""
    return sorted(int(path.name.split("-")[0]) for path in Path(folder).iterdir())


def pids(folder):
    """The processes that worked."""
    return {int(path.name.split("-")[1]) for path in Path(folder).iterdir()}


def wait_until(condition):
    """Return once it holds; whoever waits in vain is ended by the test's own limit."""
    while not condition():
        time.sleep(0.005)


class FirstUnitLast(Doubler):
    """Unit 0 ends when the results of eleven others have been taken.

    No more than `IN_FLIGHT` units are begun whose results have not been.
    """

    def run(self, unit):
        if unit == 0:
            wait_until(lambda: len(marks(self.folder)) > 10 + IN_FLIGHT)
        return super().run(unit)


class Together(Doubler):
    """No unit ends before as many processes are at work as there should be."""

    def __init__(self, folder, processes):
        super().__init__(folder)
        self.processes = processes

    def run(self, unit):
        result = super().run(unit)
        wait_until(lambda: len(pids(self.folder)) >= self.processes)
        return result


class Unheard(Doubler):
    """Does unit `last` and is never heard of again."""

    def __init__(self, folder, last):
        super().__init__(folder)
        self.last = last

    def run(self, unit):
        result = super().run(unit)
        if unit == self.last:
            os.kill(os.getpid(), signal.SIGSTOP)
        return result


class KilledOnce(Doubler):
    """Unit `fatal` kills its process the first time that it is tried."""

    def __init__(self, folder, fatal):
        super().__init__(folder)
        self.fatal = fatal

    def run(self, unit):
        before = marks(self.folder).count(unit)
        result = super().run(unit)
        if unit == self.fatal and not before:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class KilledAlways(Doubler):
    def __init__(self, folder, fatal):
        super().__init__(folder)
        self.fatal = fatal

    def run(self, unit):
        result = super().run(unit)
        if unit == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class StuckOnce(Doubler):
    """Whatever is tried first never ends."""

    def run(self, unit):
        first = not marks(self.folder)
        result = super().run(unit)
        if first:
            time.sleep(600)
        return result


class StuckAlways(Doubler):
    def run(self, unit):
        super().run(unit)
        time.sleep(600)


class Refusing(Doubler):
    def run(self, unit):
        super().run(unit)
        raise ModelError(f"unit {unit} has a key that is NaN")


class Broken(Doubler):
    def run(self, unit):
        return self.divide_by_zero(unit)

    def divide_by_zero(self, unit):
        return unit / 0


class Hungry(Doubler):
    def run(self, unit):
        raise MemoryError("Unable to allocate 1 TiB")


class NeverMade:
    def __init__(self, folder):
        raise ModelError("the model cannot be loaded")


class DiesAtStart:
    def __init__(self, folder):
        os.kill(os.getpid(), signal.SIGKILL)


class OnlyOneLives(Doubler):
    """Whoever is made first may live; all others die before they are made."""

    def __init__(self, folder):
        super().__init__(folder)
        try:
            (self.folder / "100-0-first").mkdir()
        except FileExistsError:
            (self.folder / f"101-{os.getpid()}-died").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def run(self, unit):
        wait_until(lambda: len(list(self.folder.glob("101-*"))) >= ATTEMPTS)
        # The pool notices the last death before all units are done.
        time.sleep(1.5)
        return super().run(unit)


class StoppedAtFirst(Doubler):
    """The first process is stopped while its worker is made, and never goes on."""

    def __init__(self, folder):
        super().__init__(folder)
        try:
            (self.folder / "100-0-first").mkdir()
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGSTOP)


class Threads:
    """Tells how many threads each library of its process uses, and what children would."""

    def __init__(self):
        import torch

        self.torch = torch

    def run(self, variables):
        import numba
        import numpy as np

        return {
            "torch": self.torch.get_num_threads(),
            "numba": numba.get_num_threads(),
            "blas": _blas_threads(np),
            "environment": {name: os.environ.get(name) for name in variables},
        }


def _blas_threads(np):
    """Threads that appear when BLAS has enough to do to want them all."""
    import psutil

    before = psutil.Process().num_threads()
    square = np.ones((1500, 1500))
    square @ square
    return 1 + psutil.Process().num_threads() - before


class Gpus(Together):
    """Tells which GPUs Ray has given to its actor."""

    def run(self, unit):
        import ray

        super().run(unit)
        return os.getpid(), tuple(ray.get_gpu_ids()), os.environ.get("CUDA_VISIBLE_DEVICES")


class Circle:
    """Refers to itself, so that only a collection frees it; a unit asks how many were not freed."""

    alive = 0

    def __init__(self):
        self.self = self
        type(self).alive += 1

    def __del__(self):
        type(self).alive -= 1

    def run(self, _):
        return type(self).alive
