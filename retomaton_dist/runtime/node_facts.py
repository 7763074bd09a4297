"""What a node has: the one list of questions that builds and `retomaton doctor` ask of every node.

`check_nodes` refuses nodes that cannot do the work before it begins: each by its name, all at once.
Workers would notice what is missing too, one by one and hours later.
"""

import hashlib
import mmap
import os
import platform
import resource
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path

import psutil

from retomaton_dist.errors import ClusterError, RetomatonError
from retomaton_dist.kernel_cache import source_files
from retomaton_dist.lm.identity import ModelSpec, load_tokenizer, locate_checked
from retomaton_dist.runtime.cluster import Crew, first_line
from retomaton_dist.runtime.node_calls import alive_nodes, call_on_nodes
from retomaton_dist.storage.manifest import MANIFEST_NAME
from retomaton_dist.storage.probe import FolderProbe, FolderSeen, probing

PACKAGES = (
    "dask",
    "huggingface_hub",
    "numba",
    "numpy",
    "pyarrow",
    "ray",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
    "zarr",
)
FAISS = ("faiss-cpu", "faiss-gpu", "faiss-gpu-cu11", "faiss-gpu-cu12")
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - not written to
# A node has as long as a unit, and this long at least: libraries must be loaded there first.
LEAST_SECONDS = 120.0


@dataclass(frozen=True)
class NodeQuestions:
    """What is asked besides: the store's place, files that are read, and the model to load."""

    probe: FolderProbe | None = None
    reads: tuple[Path, ...] = ()
    model: ModelSpec | None = None


@dataclass(frozen=True)
class NodeFacts:
    """A node: what is installed, what there is of everything, and its clock.

    `code` is a digest of this project's own sources. Sizes are in bytes; `folder` is what it sees
    of the store's place, `reads` are digests by path (None: unseen), `model_problem` says why the
    model cannot be loaded there.
    """

    host: str
    system: str
    python: str
    code: str
    packages: Mapping[str, str]
    faiss: tuple[str, ...]
    cpus: int
    memory: int
    memory_free: int
    shared_memory_free: int | None
    page_size: int
    open_files: int
    folder: FolderSeen | None
    clock: float
    reads: Mapping[Path, str | None] = field(default_factory=dict)
    model_problem: str = ""

    @property
    def versions(self) -> dict[str, str]:
        """All that has to be the same on every node; FAISS may be built for CPUs or GPUs."""
        faiss = ", ".join(sorted({item.split()[1] for item in self.faiss})) or "none"
        own = {"python": self.python, "retomaton_dist": self.code, "faiss": faiss}
        return own | dict(self.packages)


def version_problem(installed: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """In which versions a node differs from what it should have, or nothing."""
    others = [
        f"{name} {version} instead of {wanted[name]}"
        for name, version in installed.items()
        if version != wanted[name]
    ]
    return f"has {', '.join(others)}: install the same on every node" if others else ""


def access_problems(facts: NodeFacts) -> Iterator[str]:
    """What keeps a node from reading the model, or from writing the store."""
    if facts.folder and facts.folder.problem:
        yield facts.folder.problem
    if facts.model_problem:
        yield facts.model_problem


def gather_facts(questions: NodeQuestions) -> NodeFacts:
    """Look at this machine, and from here at what is asked for."""
    memory = psutil.virtual_memory()
    shared = SHARED_MEMORY.is_dir()
    return NodeFacts(
        host=socket.gethostname(),
        system=platform.platform(),
        python=platform.python_version(),
        code=_code_digest(),
        packages={name: _version(name) or "none" for name in PACKAGES},
        faiss=tuple(f"{name} {version}" for name in FAISS if (version := _version(name))),
        cpus=len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1,
        memory=int(memory.total),
        memory_free=int(memory.available),
        shared_memory_free=shutil.disk_usage(SHARED_MEMORY).free if shared else None,
        page_size=mmap.PAGESIZE,
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        folder=questions.probe.seen() if questions.probe else None,
        reads={path: _digest(path) for path in questions.reads},
        model_problem=_model_problem(questions.model) if questions.model else "",
        clock=time.time(),
    )


def check_nodes(
    crew: Crew, writes: Path, reads: Sequence[Path], model: ModelSpec | None, seconds: float
) -> None:
    """Refuse nodes with other packages or another model, or that see other files.

    Workers write into the folder `writes` and read the stores `reads`. Of the nodes, those count
    that can hold a worker and are still alive at the end.
    """
    with probing(writes) as probe:
        questions = NodeQuestions(probe, tuple(store / MANIFEST_NAME for store in reads), model)
        # Twice, since somebody may just be adding a stage to a store that is read.
        before = gather_facts(NodeQuestions(reads=questions.reads))
        ask = partial(gather_facts, questions)
        answers = call_on_nodes(alive_nodes(crew), ask, max(seconds, LEAST_SECONDS))
        after = gather_facts(NodeQuestions(reads=questions.reads))
    alive = {node.id for node in alive_nodes()}
    listed: list[str] = []
    for answer in answers:
        if answer.node.id in alive:
            there = answer.answer
            problems = _problems(there, before, after) if there else [answer.problem]
            listed += [f"{answer.node.name}: {problem}" for problem in problems]
    if listed:
        raise ClusterError(f"{'; '.join(listed)}; mend that, or take such nodes out of the cluster")


def _problems(there: NodeFacts, before: NodeFacts, after: NodeFacts) -> Iterator[str]:
    if problem := version_problem(there.versions, before.versions):
        yield problem
    yield from access_problems(there)
    for path, digest in there.reads.items():
        if digest not in (before.reads[path], after.reads[path]):
            yield f"{path} is another file there, or none"


def _model_problem(spec: ModelSpec) -> str:
    """Why a model or its tokenizer is not to be had here, or is another one."""
    try:
        if spec.identity.weights is not None:
            locate_checked(spec)
        load_tokenizer(spec)
    except RetomatonError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - whatever a library lacks there is what is asked
        return f"the model cannot be loaded ({first_line(error)})"
    return ""


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _code_digest() -> str:
    """A short digest of this project's sources, which may differ where versions do not."""
    root, total = Path(__file__).parents[2], hashlib.sha256()
    for path in sorted(source_files(root)):
        total.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return total.hexdigest()[:12]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
