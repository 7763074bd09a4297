"""Limits the threads of torch, OpenMP, BLAS, numba and tokenizers together."""

import contextlib
import sys
from collections.abc import Iterator

_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


def thread_environment(threads: int) -> dict[str, str]:
    """Environment in which every library of a new process uses `threads` threads."""
    parallel = "true" if threads > 1 else "false"
    return {**dict.fromkeys(_VARIABLES, str(threads)), "TOKENIZERS_PARALLELISM": parallel}


def limit_torch(threads: int) -> None:
    """Limit torch, if this process uses it: it may have counted the cores by itself."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)


@contextlib.contextmanager
def torch_limited(threads: int) -> Iterator[None]:
    """Have torch use `threads` threads in the block: sums in another order have other last bits."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
