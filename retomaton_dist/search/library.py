"""FAISS, or one line that says how to get it; and its own errors in one line."""

import importlib
from typing import Any

from retomaton_dist.errors import BadInput

try:
    faiss: Any = importlib.import_module("faiss")
except ImportError as missing:
    raise BadInput(
        "FAISS is not installed; `pip install 'retomaton_dist[cpu]'`, or [gpu] instead, never both"
    ) from missing

__all__ = ["faiss", "ivf_of", "limit_threads", "reason", "takes_entries"]


def reason(error: Exception) -> str:
    """What FAISS complains about, without the function and file that noticed."""
    return str(error).strip().splitlines()[-1].split(": ", 1)[-1].removeprefix("Error: ")


def ivf_of(index: Any) -> Any:
    """The IVF index inside `index`, under whatever transforms it, or None."""
    return faiss.try_extract_index_ivf(index)


def takes_entries(index: Any) -> bool:
    """Whether the index can store entry numbers; others number their rows from 0."""
    inner = faiss.downcast_index(index)
    while isinstance(inner, faiss.IndexPreTransform):
        inner = faiss.downcast_index(inner.index)
    return isinstance(inner, faiss.IndexIVF | faiss.IndexIDMap | faiss.IndexIDMap2)


def limit_threads(threads: int, factory: str) -> None:
    """Have FAISS use `threads` threads; one where more would make its result depend on timing."""
    graph = "HNSW" in factory or "NSG" in factory
    faiss.omp_set_num_threads(1 if graph else threads)
