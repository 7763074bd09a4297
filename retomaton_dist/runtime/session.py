"""A session: the connection to Ray, and the actors that stay from one stage to the next.

With `--workers 0` there is no Ray at all: the same workers do the same units in this process, to
the same bytes. That is for small stores, notebooks and debuggers.
"""

import atexit
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray

from retomaton_dist.lm.identity import ModelSpec
from retomaton_dist.runtime.actors import Actors
from retomaton_dist.runtime.bounded_waits import call_within
from retomaton_dist.runtime.cluster import Crew, capacity, choose_crew, connect
from retomaton_dist.runtime.node_facts import check_nodes
from retomaton_dist.runtime.pool import InProcessPool, Pool
from retomaton_dist.runtime.ray_pool import RayPool
from retomaton_dist.settings import WorkerSettings

LEAVE_SECONDS = 30.0


class Session:
    """A connection to Ray that is made when first needed and ends with the block.

    A cluster is joined when `address` names it or Ray's own environment does (inside a job);
    otherwise one is started on this machine. A connection that the caller has is used and kept.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self._connected = False
        self._actors: Actors | None = None
        self._crews: dict[bool, Crew] = {}
        self._checked: set[Any] = set()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        if self._actors is not None:
            self._actors.close()
        if self._connected and self.address == "local":
            ray.shutdown()
        elif self._connected:
            _leave_cluster()

    @property
    def address(self) -> str:
        """The cluster's address, or `local`."""
        return self.settings.address or os.environ.get("RAY_ADDRESS") or "local"

    @property
    def here(self) -> bool:
        """Whether everything is done in this process."""
        return self.settings.workers == 0

    @property
    def starts_ray(self) -> bool:
        """Whether joining would start a Ray of its own, for this session alone."""
        return self.address == "local" and not ray.is_initialized()

    def join(self) -> None:
        """Connect to Ray, unless this process is connected."""
        if not ray.is_initialized():
            connect(self.address)
            self._connected = True

    @property
    def joined_address(self) -> str:
        """Where others reach the cluster that is joined."""
        return str(ray.get_runtime_context().gcs_address)

    def has_gpu(self) -> bool:
        """Whether work can be given a GPU; asked without Ray where no cluster is involved."""
        if self.here or self.starts_ray:
            import torch

            return torch.cuda.is_available()
        self.join()
        return bool(ray.cluster_resources().get("GPU"))

    def crew(self, *, gpu: bool) -> Crew:
        """Size the actors: one per GPU, else per CPU, or as asked; refuse what does not fit.

        That is at first. Nodes that are lost later make the crew smaller, and do not end the run.
        """
        if self.here:
            return Crew(1, 0.0, float(gpu), self.settings.threads)
        self.join()
        if gpu not in self._crews:
            self._crews[gpu] = choose_crew(self.settings, gpu=gpu)
        chosen = self._crews[gpu]
        return replace(chosen, workers=max(1, min(chosen.workers, capacity(chosen))))

    def check_nodes(
        self, crew: Crew, writes: Path, reads: Sequence[Path], model: ModelSpec | None
    ) -> None:
        """Refuse nodes that see other files or have another model or other packages, by name.

        Once per session and question. A Ray that was started here has what this process has.
        """
        if self.here or (self.address == "local" and len(ray.nodes()) == 1):
            return
        places = writes, *reads
        if not {places, model} - {None} <= self._checked:
            check_nodes(crew, writes, reads, model, self.settings.unit_timeout)
            self._checked |= {places, model}

    def pool(
        self, make: Callable[[], Any], *, gpu: bool, on_ready: Callable[[], None] = lambda: None
    ) -> Pool[Any]:
        """Workers that do units, each whichever comes next."""
        if self.here:
            return InProcessPool(make, self.settings.threads, on_ready)
        return RayPool(self._actors_for(gpu), make, self.settings.unit_timeout, on_ready)

    def _actors_for(self, gpu: bool) -> Actors:
        """The actors of a crew; those of another crew end first: they hold what this one needs."""
        crew = self.crew(gpu=gpu)
        if self._actors is None or self._actors.crew != crew:
            if self._actors is not None:
                self._actors.close()
            self._actors = Actors(crew)
        return self._actors


def _leave_cluster() -> None:
    """Leave a cluster of others, or give up on it: its head may never answer."""
    try:
        call_within(LEAVE_SECONDS, ray.shutdown)
    except TimeoutError:
        # Ray would try again when this process ends; left out, it would end it by a SIGSEGV.
        atexit.unregister(ray.shutdown)
        atexit.register(_end_process)


def _end_process() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(2)
