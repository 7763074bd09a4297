"""Starting or joining a Ray cluster, and checking up front that the work fits it."""

import logging
import os
import socket
from dataclasses import dataclass

import ray
from ray.exceptions import RayError

from retomaton_dist.errors import BadInput, ClusterError
from retomaton_dist.settings import WorkerSettings

CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Crew:
    """How many actors, and what each may use."""

    workers: int
    cpus: float
    gpus: float
    threads: int


class Session:
    """A connection to Ray that is made when first needed and ends with the block.

    A cluster is joined when `address` names it or Ray's own environment does (inside a job);
    otherwise one is started on this machine. A connection that the caller has is used and kept.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        check_settings(settings)
        self.settings = settings
        self._connected = False

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        if self._connected:
            ray.shutdown()

    @property
    def address(self) -> str:
        """The cluster's address, or `local`."""
        return self.settings.address or os.environ.get("RAY_ADDRESS") or "local"

    def join(self) -> None:
        """Be connected."""
        if not ray.is_initialized():
            _connect(self.address)
            self._connected = True

    def has_gpu(self) -> bool:
        """Whether work can be given a GPU; asked without Ray where no cluster is involved."""
        if self.address == "local" and not ray.is_initialized():
            import torch

            return torch.cuda.is_available()
        self.join()
        return bool(ray.cluster_resources().get("GPU"))

    def crew(self, *, gpu: bool) -> Crew:
        """Size the actors: one per GPU, else per CPU, or as asked; refuse what does not fit."""
        self.join()
        return choose_crew(self.settings, gpu=gpu)


def _connect(address: str) -> None:
    try:
        if address == "local":
            ray.init(
                address="local",
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        else:
            _join(address)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        raise ClusterError(
            f"cannot reach the Ray cluster at {address}: {_first_line(error)}; "
            f"is it running, and does RAY_AUTH_MODE match it?"
        ) from error


def _join(address: str) -> None:
    """Join a cluster; where nobody answers, Ray by itself would try for a quarter of an hour."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    # How often Ray tries, whatever the name says; one attempt takes 40 seconds.
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "1")
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)


def choose_crew(settings: WorkerSettings, *, gpu: bool) -> Crew:
    """Size the actors for the cluster that is joined; refuse what it could never schedule."""
    total = ray.cluster_resources()
    if gpu and not total.get("GPU"):
        raise ClusterError("--device cuda: the cluster has no GPU; use --device cpu")
    if not total.get("CPU"):
        raise ClusterError("the cluster has no CPU to work with; add a node that has some")
    workers = settings.workers or max(1, int(total["GPU" if gpu else "CPU"]))
    cpus = settings.cpus_per_worker or _share(total["CPU"], workers)
    crew = Crew(workers, cpus, 1.0 if gpu else 0.0, settings.threads)
    check_fits(crew)
    return crew


def check_settings(settings: WorkerSettings) -> None:
    """Refuse sizes that make no sense, before anything is started."""
    if settings.workers is not None and settings.workers < 1:
        raise BadInput(f"--workers {settings.workers}: at least 1 is needed")
    if settings.cpus_per_worker is not None and not settings.cpus_per_worker > 0:
        raise BadInput(f"--cpus-per-worker {settings.cpus_per_worker}: must be above 0")
    if settings.threads < 1:
        raise BadInput(f"--threads {settings.threads}: at least 1 is needed")
    if not settings.unit_timeout > 0:
        raise BadInput(f"--unit-timeout {settings.unit_timeout}: must be above 0")


def check_fits(crew: Crew) -> None:
    """Refuse a crew that the cluster's nodes, even if idle, could not hold."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    places = sum(_places(node, crew) for node in nodes)
    if places < crew.workers:
        cpus, gpus = (sum(node.get(kind, 0) for node in nodes) for kind in ("CPU", "GPU"))
        raise ClusterError(
            f"{crew.workers} workers of {crew.cpus:g} CPUs and {crew.gpus:g} GPUs do not fit the "
            f"cluster, which has {cpus:g} CPUs and {gpus:g} GPUs on {len(nodes)} nodes and room "
            f"for {places}; lower --workers or --cpus-per-worker"
        )


def _places(node: dict[str, float], crew: Crew) -> int:
    wanted = {"CPU": crew.cpus, "GPU": crew.gpus}
    # Ray keeps resources to four decimals.
    return min(int(node.get(kind, 0) / need + 1e-6) for kind, need in wanted.items() if need)


def _share(cpus: float, workers: int) -> float:
    return 1.0 if workers <= cpus else int(cpus / workers * 10_000) / 10_000


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
