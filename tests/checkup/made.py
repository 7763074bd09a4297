"""A sound machine, to be spoiled."""

from dataclasses import replace

from retomaton_dist.checkup.nodes import GpuFacts, NodeCheckup
from retomaton_dist.checkup.paths import PathOutcome
from retomaton_dist.runtime.node_facts import NodeFacts
from retomaton_dist.storage.probe import FolderSeen

FACTS = NodeFacts(
    host="a",
    system="Linux",
    python="3.11.7",
    code="0123456789ab",
    packages={"torch": "2.13.0", "ray": "2.60.0"},
    faiss=("faiss-cpu 1.15.1",),
    cpus=8,
    memory=64 << 30,
    memory_free=32 << 30,
    shared_memory_free=16 << 30,
    page_size=4096,
    open_files=65536,
    folder=FolderSeen(free=100 << 30),
    clock=0.0,
)
PASSED = PathOutcome("nearest states", "cpu", 0.0, 0.0, 0.1)
GPU = GpuFacts("12.6", ("H100",), (80 << 30,), 1, (replace(PASSED, device="cuda:0"),))


def node(name="a", gpu=None, offset=0.0, expected_gpus=0, problem="", outcomes=(PASSED,), **facts):
    """A check-up of a sound machine, but for what is named."""
    seen = replace(FACTS, **facts)
    return NodeCheckup(name, seen, outcomes, gpu, offset, expected_gpus, problem)
