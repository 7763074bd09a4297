"""What this machine has."""

import mmap
import os
import platform
import resource
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import psutil

from retomaton_dist.runtime.nodes import code_digest
from retomaton_dist.storage.probe import FolderProbe, FolderSeen

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


@dataclass(frozen=True)
class MachineFacts:
    """A machine: what is installed, what there is of everything, and its clock.

    `code` is a digest of this project's own sources. Sizes are in bytes; `folder` is what it sees
    of the store's place.
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

    @property
    def versions(self) -> dict[str, str]:
        """All that has to be the same on every node."""
        faiss = ", ".join(self.faiss) or "none"
        return {
            "python": self.python,
            "retomaton_dist": self.code,
            "faiss": faiss,
            **self.packages,
        }


def gather_facts(probe: FolderProbe | None) -> MachineFacts:
    """Look at this machine, and from here at the place of a store."""
    memory = psutil.virtual_memory()
    shared = SHARED_MEMORY.is_dir()
    return MachineFacts(
        host=socket.gethostname(),
        system=platform.platform(),
        python=platform.python_version(),
        code=code_digest(),
        packages={name: _version(name) or "none" for name in PACKAGES},
        faiss=tuple(f"{name} {found}" for name in FAISS if (found := _version(name))),
        cpus=len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1,
        memory=int(memory.total),
        memory_free=int(memory.available),
        shared_memory_free=shutil.disk_usage(SHARED_MEMORY).free if shared else None,
        page_size=mmap.PAGESIZE,
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        folder=probe.seen() if probe else None,
        clock=time.time(),
    )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
