"""Starting or joining a Ray cluster, and checking up front that the work fits it."""

import logging
import os
import socket
from dataclasses import dataclass

import ray
from ray.exceptions import RayError

from retomaton_dist.errors import ClusterError
from retomaton_dist.settings import WorkerSettings

CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Crew:
    """How many actors, and what each may use."""

    workers: int
    cpus: float
    gpus: float
    threads: int


def connect(address: str) -> None:
    """Join the cluster at an address, or start one on this machine for `local`."""
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
