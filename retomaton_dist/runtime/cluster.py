"""Starting or joining a Ray cluster, and checking up front that the work fits it."""

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psutil
import ray
from ray.exceptions import RayError

from retomaton_dist.errors import ClusterError
from retomaton_dist.runtime.bounded_waits import knock
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
        knock(address, CONNECT_SECONDS)
    except OSError as error:
        raise _unreachable(address, error, "is it running?") from error
    try:
        with _own_sigterm():
            _connect(address)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        advice = "is it running, and does RAY_AUTH_MODE match it?"
        names = (process.info["name"] for process in psutil.process_iter(["name"]))
        # A driver works through a node of its own host.
        if address != "local" and "raylet" not in names:
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


def _connect(address: str) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        ray.init(address="local", include_dashboard=False, **quiet)
        return
    # How often Ray tries, whatever the name says; one attempt takes 40 seconds. By itself Ray would
    # try for a quarter of an hour where nobody answers.
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "1")
    ray.init(address=address, **quiet)


def choose_crew(settings: WorkerSettings, *, gpu: bool) -> Crew:
    """Size the actors for the cluster that is joined; refuse what it could never schedule."""
    total = ray.cluster_resources()
    if gpu and not total.get("GPU"):
        raise ClusterError("--device cuda: the cluster has no GPU; use --device cpu")
    if not total.get("CPU"):
        raise ClusterError("the cluster has no CPU to work with; add a node that has some")
    workers = settings.workers or max(1, int(total["GPU" if gpu else "CPU"]))
    # Ray keeps resources to four decimals.
    share = 1.0 if workers <= total["CPU"] else int(total["CPU"] / workers * 10_000) / 10_000
    cpus = settings.cpus_per_worker or share
    crew = Crew(workers, cpus, 1.0 if gpu else 0.0, settings.threads)
    check_fits(crew)
    return crew


def check_fits(crew: Crew) -> None:
    """Refuse a crew that the cluster's nodes, even if idle, could not hold."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    places = capacity(crew)
    if places < crew.workers:
        cpus, gpus = (sum(node.get(kind, 0) for node in nodes) for kind in ("CPU", "GPU"))
        raise ClusterError(
            f"{crew.workers} workers of {crew.cpus:g} CPUs and {crew.gpus:g} GPUs do not fit the "
            f"cluster, which has {cpus:g} CPUs and {gpus:g} GPUs on {len(nodes)} nodes and room "
            f"for {places}; lower --workers or --cpus-per-worker"
        )


def capacity(crew: Crew) -> int:
    """How many actors of a crew the nodes that are alive, if idle, could hold."""
    return sum(node_capacity(node["Resources"], crew) for node in ray.nodes() if node["Alive"])


def node_capacity(node: dict[str, float], crew: Crew) -> int:
    """How many actors of a crew a node of these resources could hold."""
    wanted = {"CPU": crew.cpus, "GPU": crew.gpus}
    # Ray keeps resources to four decimals.
    return min(int(node.get(kind, 0) / need + 1e-6) for kind, need in wanted.items() if need)


def first_line(error: BaseException) -> str:
    """What an error says, as far as a line goes; its kind if it says nothing."""
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__
