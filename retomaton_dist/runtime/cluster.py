"""Starting or joining a Ray cluster, and checking up front that the work fits it."""

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psutil
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
        knock(address)
    except OSError as error:
        raise _unreachable(address, error, "is it running?") from error
    try:
        with _own_sigterm():
            _connect(address)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        advice = "is it running, and does RAY_AUTH_MODE match it?"
        if address != "local" and not _has_raylet():
            advice = (
                "this host has no Ray node of that cluster: `ray start --address=HOST:PORT` here "
                "first, or have the cluster run the command with `retomaton submit`"
            )
        raise _unreachable(address, error, advice) from error


def _unreachable(address: str, error: Exception, advice: str) -> ClusterError:
    return ClusterError(f"cannot reach the Ray cluster at {address}: {first_line(error)}; {advice}")


@contextlib.contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep what the caller does on SIGTERM: Ray puts its own in place, which ends in an abort."""
    before = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    try:
        yield
    except SystemExit as error:
        # Ray's way to answer a SIGTERM that arrived meanwhile.
        signal.signal(signal.SIGTERM, before)
        signal.raise_signal(signal.SIGTERM)
        raise KeyboardInterrupt from error
    finally:
        signal.signal(signal.SIGTERM, before)


def _has_raylet() -> bool:
    """Whether this host has a node of some cluster: a driver works through one."""
    return any(process.info["name"] == "raylet" for process in psutil.process_iter(["name"]))


def _connect(address: str) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        ray.init(address="local", include_dashboard=False, **quiet)
        return
    # How often Ray tries, whatever the name says; one attempt takes 40 seconds. By itself Ray would
    # try for a quarter of an hour where nobody answers.
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "1")
    ray.init(address=address, **quiet)


def knock(address: str) -> None:
    """Raise OSError if an address names a host and a port, and nobody answers there."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()


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
    places = room_for(crew)
    if places < crew.workers:
        cpus, gpus = (sum(node.get(kind, 0) for node in nodes) for kind in ("CPU", "GPU"))
        raise ClusterError(
            f"{crew.workers} workers of {crew.cpus:g} CPUs and {crew.gpus:g} GPUs do not fit the "
            f"cluster, which has {cpus:g} CPUs and {gpus:g} GPUs on {len(nodes)} nodes and room "
            f"for {places}; lower --workers or --cpus-per-worker"
        )


def room_for(crew: Crew) -> int:
    """How many actors of a crew the nodes that are alive, even if idle, could hold."""
    return sum(_places(node["Resources"], crew) for node in ray.nodes() if node["Alive"])


def holds_workers(node: dict[str, Any], crew: Crew) -> bool:
    """Whether a node, as `ray.nodes` describes it, is alive and has room for an actor of a crew."""
    return bool(node["Alive"]) and _places(node["Resources"], crew) > 0


def _places(node: dict[str, float], crew: Crew) -> int:
    wanted = {"CPU": crew.cpus, "GPU": crew.gpus}
    # Ray keeps resources to four decimals.
    return min(int(node.get(kind, 0) / need + 1e-6) for kind, need in wanted.items() if need)


def _share(cpus: float, workers: int) -> float:
    return 1.0 if workers <= cpus else int(cpus / workers * 10_000) / 10_000


def first_line(error: BaseException) -> str:
    """What an error says, as far as a line goes; its kind if it says nothing."""
    said = str(error).strip()
    return said.splitlines()[0].rstrip(".") if said else type(error).__name__
