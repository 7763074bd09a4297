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
    """Looks, every few seconds at most, whether what Ray needs is still there.

    If it is not, nothing more would ever arrive here, and Ray does not say so.
    """

    def __init__(self) -> None:
        self._looked = 0.0
        self._headless_since: float | None = None

    def check(self, every: float) -> None:
        """Raise ClusterError if the node that this process works through, or the head, has died."""
        now = time.monotonic()
        if now - self._looked < every:
            return
        self._looked = now
        context = ray.get_runtime_context()
        if self._head_answers(context.gcs_address, now):
            _check_node(context.get_node_id())

    def _head_answers(self, address: str, now: float) -> bool:
        """Whether the head is there. Asking it anything else would wait until it is."""
        if _is_reached(address):
            self._headless_since = None
            return True
        self._headless_since = self._headless_since or now
        if now - self._headless_since > HEAD_SECONDS:
            raise ClusterError(
                f"the head of the Ray cluster at {address} has died (its GCS does not answer); "
                f"what is finished is kept: start Ray again, then the same command"
            )
        return False


_watch = ClusterWatch()


def check_cluster(every: float = LOOK_SECONDS) -> None:
    """Raise ClusterError if this process's node or the cluster's head has died.

    To be asked as often as one likes: it looks `every` so many seconds.
    """
    _watch.check(every)


def _check_node(own: str) -> None:
    found = [node for node in ray.nodes() if node["NodeID"] == own and node["Alive"]]
    if not found or _is_deserted(found[0]["RayletSocketName"]):
        raise ClusterError(
            "the Ray node that this command works through has died (its raylet is gone); what is "
            "finished is kept: start Ray there again, then the same command"
        )


def _is_reached(address: str) -> bool:
    """Whether somebody is behind HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), POLL_SECONDS).close()
    except OSError:
        return False
    return True


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
