"""Limits the threads of torch, OpenMP, BLAS, numba and tokenizers together."""

import sys

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
