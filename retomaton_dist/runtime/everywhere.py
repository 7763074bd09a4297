"""Calling a function on every node of the cluster that is joined, whatever else runs there."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from retomaton_dist.runtime.bounded_waits import answer_of, wait_for
from retomaton_dist.runtime.cluster import first_line
from retomaton_dist.runtime.nodes import node_name

Answer = TypeVar("Answer")

FETCH_SECONDS = 30.0


@dataclass(frozen=True)
class ClusterNode:
    """A node that is alive: its name for people, and how many GPUs Ray knows there."""

    id: str
    name: str
    gpus: int


@dataclass(frozen=True)
class NodeAnswer(Generic[Answer]):
    """What a node answered and when that arrived, or why it did not."""

    node: ClusterNode
    answer: Answer | None
    arrived: float
    problem: str = ""


def nodes() -> list[ClusterNode]:
    """The nodes that are alive, in the order of their names."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    found = [
        ClusterNode(
            node["NodeID"],
            node_name(node),
            int(node["Resources"].get("GPU", 0)),
        )
        for node in alive
    ]
    return sorted(found, key=lambda node: node.name)


def on_nodes(
    chosen: Sequence[ClusterNode], call: Callable[[], Answer], seconds: float, *, gpus: bool
) -> list[NodeAnswer[Answer]]:
    """Call on all of these nodes at once; who does not answer in time is a problem, not a wait.

    The call takes no CPU of its own, so that it is made beside other work; with `gpus` it takes
    all GPUs of its node.
    """
    asked = {_sent(node, call, gpus): node for node in chosen}
    waiting, deadline = list(asked), time.monotonic() + seconds
    answers = []
    while waiting:
        ready = wait_for(waiting, max(0.0, deadline - time.monotonic()), count=1)
        if not ready:
            break
        waiting = [reference for reference in waiting if reference not in ready]
        answers += [_received(asked[reference], reference) for reference in ready]
    for reference in waiting:
        ray.cancel(reference, force=True)
        taken = "; are its GPUs taken?" if gpus else ""
        problem = f"no answer within {seconds:.0f} s{taken}"
        answers.append(NodeAnswer[Answer](asked[reference], None, time.time(), problem))
    return sorted(answers, key=lambda answer: answer.node.name)


def _sent(node: ClusterNode, call: Callable[[], Any], gpus: bool) -> Any:
    options = {
        "num_cpus": 0,
        "num_gpus": node.gpus if gpus else 0,
        "max_retries": 0,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(node.id, soft=False),
    }
    return ray.remote(_call).options(**options).remote(call)


def _call(call: Callable[[], Any]) -> Any:
    # Ray takes functions alone, and no other callables.
    return call()


def _received(node: ClusterNode, reference: Any) -> NodeAnswer[Any]:
    try:
        # It is here; but what a node made can be lost with it.
        return NodeAnswer(node, answer_of(reference, FETCH_SECONDS), time.time())
    except RayTaskError as error:
        return NodeAnswer(node, None, time.time(), first_line(error.cause))
    except RayError as error:
        return NodeAnswer(node, None, time.time(), first_line(error))
