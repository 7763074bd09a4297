"""Looking at every node before work begins: same packages, same files, same model.

Workers would notice too, one by one and hours later. Here a task on every node looks at once, and
what is wrong is said with the node's name.
"""

import hashlib
import importlib.metadata
import platform
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from retomaton_dist import __version__
from retomaton_dist.errors import ClusterError, RetomatonError
from retomaton_dist.kernel_cache import source_files
from retomaton_dist.lm.identity import ModelSpec, load_tokenizer, locate_checked
from retomaton_dist.runtime.bounded_waits import wait_for
from retomaton_dist.runtime.cluster import Crew, holds_workers
from retomaton_dist.storage import files
from retomaton_dist.storage.manifest import MANIFEST_NAME

LOOK_SECONDS = 120.0
# What results are made with, as far as it is the same on machines with and without a GPU.
PACKAGES = ("numpy", "pyarrow", "ray", "tokenizers", "torch", "transformers")


@dataclass(frozen=True)
class Surroundings:
    """What work finds where it is done: versions by package, digests by path (None: unseen)."""

    versions: dict[str, str | None]
    files: dict[str, str | None]


def look_around(paths: Sequence[str]) -> Surroundings:
    """What this process finds."""
    own = {
        "python": platform.python_version(),
        "retomaton_dist": f"{__version__} ({code_digest()})",
    }
    versions = {name: _version(name) for name in PACKAGES}
    return Surroundings({**own, **versions}, {path: _digest(Path(path)) for path in paths})


def check_model(spec: ModelSpec) -> None:
    """Raise ModelError if a model or its tokenizer is not to be had here, or is another one."""
    if spec.identity.weights is not None:
        locate_checked(spec)
    load_tokenizer(spec)


def check_surroundings(crew: Crew, writes: Path, reads: Sequence[Path]) -> None:
    """Refuse nodes with other packages, or that see other files, each by its name.

    Workers write into the folder `writes` and read the stores `reads`. A node that dies meanwhile
    does not matter.
    """
    with _probe(writes) as probe:
        paths = [str(probe), *(str(store / MANIFEST_NAME) for store in reads)]
        # Twice, since somebody may just be adding a stage to a store that is read.
        before = look_around(paths)
        found = _on_every_node(crew, partial(look_around, paths), LOOK_SECONDS)
        after = look_around(paths)
    _refuse(
        [
            (name, problem)
            for name, there in found
            for problem in ([there] if isinstance(there, str) else _unlike(there, before, after))
        ]
    )


def check_models(crew: Crew, spec: ModelSpec, seconds: float) -> None:
    """Refuse nodes that do not have the model, or have another one.

    They have so many seconds, two minutes at least: libraries must be loaded there first.
    """
    found = _on_every_node(crew, partial(check_model, spec), max(seconds, LOOK_SECONDS))
    _refuse([(name, problem) for name, problem in found if problem is not None])


def _refuse(problems: Sequence[tuple[str, str]]) -> None:
    if problems:
        listed = "; ".join(f"{name} {problem}" for name, problem in problems)
        raise ClusterError(f"{listed}; mend that, or take such nodes out of the cluster")


def _on_every_node(crew: Crew, look: Callable[[], Any], seconds: float) -> list[tuple[str, Any]]:
    """What a function returns on every node that could have a worker, or in a word why not."""
    nodes = [node["NodeID"] for node in ray.nodes() if holds_workers(node, crew)]
    asked = {node: _task_on(node).remote(look) for node in nodes}
    ready = wait_for(list(asked.values()), seconds)
    # Only now: who has died in the meantime is nobody's concern.
    names = {node["NodeID"]: node_name(node) for node in ray.nodes() if node["Alive"]}
    return [
        (names[node], _outcome(reference) if reference in ready else _silent(seconds))
        for node, reference in asked.items()
        if node in names
    ]


def _task_on(node: str) -> Any:
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(_call).options(num_cpus=0, max_retries=0, scheduling_strategy=there)


def _call(look: Callable[[], Any]) -> Any:
    return look()


def _outcome(reference: Any) -> Any:
    try:
        return ray.get(reference, timeout=LOOK_SECONDS)
    except RayTaskError as error:
        if isinstance(error.cause, RetomatonError):
            return str(error.cause)
        return f"cannot do the work ({_last_line(error)})"
    except RayError as error:
        return f"cannot do the work ({_last_line(error)})"


def _silent(seconds: float) -> str:
    return f"did not answer within {seconds:g} s"


def _unlike(there: Surroundings, before: Surroundings, after: Surroundings) -> Iterator[str]:
    others = [
        f"{name} {there.versions[name] or 'none'} instead of {version}"
        for name, version in before.versions.items()
        if there.versions[name] != version
    ]
    if others:
        yield f"has {', '.join(others)}"
    for path, digest in there.files.items():
        if digest not in (before.files[path], after.files[path]):
            yield f"does not see {Path(path).parent} as this process does"


@contextmanager
def _probe(folder: Path) -> Iterator[Path]:
    """A file that nobody can have but who sees this very folder."""
    # Named as other temporary files are: what a kill leaves is removed by the next writer.
    path = folder / f".nodes-{uuid.uuid4().hex}.tmp"
    files.write(path, uuid.uuid4().bytes)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def node_name(node: dict[str, Any]) -> str:
    """A node for people: its name, the machine if that is another, and the start of its id."""
    host, name = node["NodeManagerHostname"], node["NodeName"]
    where = host if name in (host, node["NodeManagerAddress"]) else f"{name} on {host}"
    return f"node {where} ({node['NodeID'][:8]})"


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def code_digest() -> str:
    """A short digest of this project's sources, which may differ where versions do not."""
    root, total = Path(__file__).parents[2], hashlib.sha256()
    for path in sorted(source_files(root)):
        total.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return total.hexdigest()[:12]


def _last_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[-1]
