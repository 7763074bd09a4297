"""The whole of it on this machine, or on every node of a cluster at once."""

import contextlib
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from retomaton_dist.checkup.paths import CPU, PathOutcome
from retomaton_dist.errors import RetomatonError
from retomaton_dist.runtime.cluster import first_line
from retomaton_dist.runtime.node_calls import NodeAnswer, alive_nodes, call_on_nodes
from retomaton_dist.runtime.node_facts import NodeFacts, NodeQuestions, gather_facts
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import WorkerSettings
from retomaton_dist.storage.probe import FolderProbe, probing

# Importing everything from a cold network file system and compiling kernels is part of it.
ANSWER_SECONDS = 900.0
GPU_SECONDS = 300.0
RAY = "ray"


@dataclass(frozen=True)
class GpuFacts:
    """The GPUs that torch and FAISS see, and what they computed."""

    cuda: str | None
    names: tuple[str, ...]
    memory: tuple[int, ...]
    faiss_gpus: int
    outcomes: tuple[PathOutcome, ...]


@dataclass(frozen=True)
class NodeCheckup:
    """A node, or this machine: what it has and computed. `problem` is why that is not known.

    `clock_offset` is by how many seconds its clock differs from that of whoever asked;
    `expected_gpus` is how many Ray gives to work there.
    """

    name: str
    facts: NodeFacts | None
    outcomes: tuple[PathOutcome, ...]
    gpu: GpuFacts | None
    clock_offset: float
    expected_gpus: int
    problem: str = ""

    @property
    def all_outcomes(self) -> tuple[PathOutcome, ...]:
        """What the CPU and the GPUs computed."""
        return (*self.outcomes, *(self.gpu.outcomes if self.gpu else ()))


def examine(address: str, store: Path | None) -> list[NodeCheckup]:
    """Look at this machine or, if an address is given, at every node of the cluster there."""
    with probing(store) if store else contextlib.nullcontext() as probe:
        if address:
            with Session(WorkerSettings(address=address)) as session:
                session.join()
                return _on_cluster(probe)
        facts, outcomes = examine_machine(probe)
        gpu = examine_gpus()
        outcomes = (*outcomes, examine_workers())
        return [NodeCheckup(facts.host, facts, outcomes, gpu, 0.0, len(gpu.names))]


def _on_cluster(probe: FolderProbe | None) -> list[NodeCheckup]:
    nodes = alive_nodes()
    answers = call_on_nodes(nodes, partial(examine_machine, probe), ANSWER_SECONDS)
    with_gpus = [node for node in nodes if node.gpus]
    of_gpus = call_on_nodes(with_gpus, examine_gpus, GPU_SECONDS, gpus=True)
    gpu_answers = {answer.node.id: answer for answer in of_gpus}
    return [_joined(answer, gpu_answers.get(answer.node.id)) for answer in answers]


def _joined(
    answer: NodeAnswer[tuple[NodeFacts, tuple[PathOutcome, ...]]],
    gpu: NodeAnswer[GpuFacts] | None,
) -> NodeCheckup:
    facts, outcomes = answer.answer or (None, ())
    return NodeCheckup(
        name=answer.node.name,
        facts=facts,
        outcomes=outcomes,
        gpu=gpu.answer if gpu else None,
        clock_offset=facts.clock - answer.arrived if facts else 0.0,
        expected_gpus=answer.node.gpus,
        problem=answer.problem or (f"its GPUs: {gpu.problem}" if gpu and gpu.problem else ""),
    )


def examine_machine(probe: FolderProbe | None) -> tuple[NodeFacts, tuple[PathOutcome, ...]]:
    """What this machine has, and what its CPU computes; sent to nodes as it is."""
    # The facts last: they hold the time, which is compared with when the answer arrives.
    outcomes = _outcomes(CPU)
    return gather_facts(NodeQuestions(probe)), outcomes


def examine_gpus() -> GpuFacts:
    """What GPUs this process sees, and what each computes; sent to nodes as it is."""
    import torch

    from retomaton_dist.search.library import faiss

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    seen = [torch.cuda.get_device_properties(number) for number in range(count)]
    outcomes: list[PathOutcome] = []
    for number in range(count):
        with torch.cuda.device(number):
            outcomes += _outcomes(f"cuda:{number}")
    return GpuFacts(
        cuda=torch.version.cuda,
        names=tuple(each.name for each in seen),
        memory=tuple(int(each.total_memory) for each in seen),
        faiss_gpus=int(faiss.get_num_gpus()) if hasattr(faiss, "get_num_gpus") else 0,
        outcomes=tuple(outcomes),
    )


def _outcomes(device: str) -> tuple[PathOutcome, ...]:
    from retomaton_dist.checkup.arrays import array_tests
    from retomaton_dist.checkup.models import model_tests
    from retomaton_dist.checkup.paths import run_self_tests
    from retomaton_dist.runtime.threads import torch_limited

    with torch_limited(1):
        return tuple(run_self_tests([*array_tests(), *model_tests()], device))


class _Echo:
    def run(self, unit: int) -> int:
        return unit


def examine_workers() -> PathOutcome:
    """Start Ray on this machine and have a worker answer."""
    begun = time.monotonic()
    try:
        with (
            Session(WorkerSettings(address="local", workers=1)) as session,
            session.pool(_Echo, gpu=False) as pool,
        ):
            answers = [result for _, result in pool.run([7])]
        problem = "" if answers == [7] else f"it answered {answers} instead of [7]"
    except RetomatonError as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - whatever Ray raises is what is looked for
        problem = f"{type(error).__name__}: {first_line(error)}"
    return PathOutcome("a worker", RAY, 0.0, 0.0, time.monotonic() - begun, problem)
