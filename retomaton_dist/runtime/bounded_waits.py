"""Waits that end: for actors, for calls that may block, and not for a cluster that is gone."""

import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import ray
from ray.exceptions import GetTimeoutError

from retomaton_dist.errors import ClusterError

Answer = TypeVar("Answer")

POLL_SECONDS = 1.0
LOOK_SECONDS = 5.0
# A head that comes back sooner was never missed; after a minute Ray would end this process.
HEAD_SECONDS = 25.0


class ClusterWatch:
    """Checks whether what Ray needs is still there.

    If it is not, nothing more would ever arrive here, and Ray does not say so.
    """

    def __init__(self) -> None:
        self._looked = 0.0
        self._headless_since: float | None = None

    def check(self, every: float = LOOK_SECONDS) -> None:
        """Raise ClusterError if the node that this process works through, or the head, has died.

        It may be called as often as one likes: it looks `every` so many seconds.
        """
        now = time.monotonic()
        if now - self._looked < every:
            return
        self._looked = now
        context = ray.get_runtime_context()
        # Asking a head that is away anything else would wait until it is back.
        try:
            knock(context.gcs_address, POLL_SECONDS)
        except OSError:
            self._headless_since = self._headless_since or now
            if now - self._headless_since > HEAD_SECONDS:
                raise ClusterError(
                    f"the head of the Ray cluster at {context.gcs_address} has died (its GCS does "
                    f"not answer); what is finished is kept: start Ray again, then the same command"
                ) from None
        else:
            self._headless_since = None
            _check_node(context.get_node_id())


# Raises ClusterError if this process's node or the cluster's head has died.
check_cluster = ClusterWatch().check


def _check_node(own: str) -> None:
    nodes = [node for node in ray.nodes() if node["NodeID"] == own and node["Alive"]]
    if not nodes or _is_deserted(nodes[0]["RayletSocketName"]):
        raise ClusterError(
            "the Ray node that this command works through has died (its raylet is gone); what is "
            "finished is kept: start Ray there again, then the same command"
        )


def knock(address: str, seconds: float) -> None:
    """Raise OSError if an address names a host and a port, and nobody answers there in time."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), seconds).close()


def _is_deserted(path: str) -> bool:
    """Whether nobody is behind a socket any more: sooner to be seen than by Ray's own checks."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(POLL_SECONDS)
        try:
            client.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            # Busy, or the socket is another machine's: that says nothing.
            return False
    return False


def call_within(seconds: float, call: Callable[..., Answer], *arguments: Any) -> Answer:
    """Call, but wait no longer than that: TimeoutError, and the call goes on in its thread."""
    future: Future[Answer] = Future()

    def work() -> None:
        try:
            future.set_result(call(*arguments))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError as error:
        raise TimeoutError(f"no answer within {seconds:.0f} s") from error


def wait_for(references: Sequence[Any], seconds: float, count: int | None = None) -> set[Any]:
    """Wait for all references, or `count` of them, or for the time to be over; return the ready."""
    deadline = time.monotonic() + seconds
    wanted = len(references) if count is None else count
    while True:
        left = max(0.0, min(POLL_SECONDS, deadline - time.monotonic()))
        ready, _ = ray.wait(list(references), num_returns=wanted, timeout=left)
        if len(ready) >= wanted or time.monotonic() >= deadline:
            return set(ready)
        check_cluster()


def answer_of(reference: Any, seconds: float) -> Any:
    """What a reference stands for; GetTimeoutError if it does not arrive in time."""
    deadline = time.monotonic() + seconds
    while True:
        left = max(0.0, min(POLL_SECONDS, deadline - time.monotonic()))
        try:
            return ray.get(reference, timeout=left)
        except GetTimeoutError:
            if time.monotonic() >= deadline:
                raise GetTimeoutError(f"no answer within {seconds:g} s") from None
        check_cluster()
