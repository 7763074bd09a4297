"""Calling a function on every node of the cluster that is joined, whatever else runs there."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from retomaton_dist.runtime.bounded_waits import Answer, answer_of, wait_for
from retomaton_dist.runtime.cluster import Crew, first_line, node_capacity
from retomaton_dist.runtime.progress import say

FETCH_SECONDS = 30.0
# A node that is busy may take this long before anybody is told whom the run waits for.
NOTE_SECONDS = 60.0


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


def alive_nodes(crew: Crew | None = None) -> list[ClusterNode]:
    """The nodes that are alive, by name; with a crew, those that can hold one of its actors."""
    nodes = [
        ClusterNode(node["NodeID"], _name(node), int(node["Resources"].get("GPU", 0)))
        for node in ray.nodes()
        if node["Alive"] and (crew is None or node_capacity(node["Resources"], crew))
    ]
    return sorted(nodes, key=lambda node: node.name)


def call_on_nodes(
    chosen: Sequence[ClusterNode], call: Callable[[], Answer], seconds: float, *, gpus: bool = False
) -> list[NodeAnswer[Answer]]:
    """Call on all of these nodes at once; who does not answer in time is a problem, not a wait.

    The call takes no CPU of its own, so that it is made beside other work; with `gpus` it takes
    all GPUs of its node.
    """
    asked = {_sent(node, call, gpus): node for node in chosen}
    answers: list[NodeAnswer[Answer]] = []
    begun, noted = time.monotonic(), False
    while asked and (left := begun + seconds - time.monotonic()) > 0:
        # One by one: when an answer arrived tells how far a node's clock is off.
        ready = wait_for(list(asked), min(left, NOTE_SECONDS), count=1)
        answers += [_received(asked.pop(reference), reference) for reference in ready]
        if asked and not noted and time.monotonic() - begun >= NOTE_SECONDS:
            noted = True
            names = ", ".join(node.name for node in asked.values())
            say(f"note: no answer from {names} yet; waiting for up to {seconds:.0f} s")
    taken = "; are its GPUs taken?" if gpus else ""
    for reference, node in asked.items():
        ray.cancel(reference, force=True)
        problem = f"no answer within {seconds:.0f} s{taken}"
        answers.append(NodeAnswer(node, None, time.time(), problem))
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
    except RayError as error:
        cause = error.cause if isinstance(error, RayTaskError) else error
        return NodeAnswer(node, None, time.time(), first_line(cause))


def _name(node: dict[str, Any]) -> str:
    """A node for people: its name, the machine if that is another, and the start of its id."""
    host, name = node["NodeManagerHostname"], node["NodeName"]
    where = host if name in (host, node["NodeManagerAddress"]) else f"{name} on {host}"
    return f"node {where} ({node['NodeID'][:8]})"
