"""Typed decorators for kernels that run outside the GIL."""

import contextlib
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numba
import numpy as np

from retomaton_dist.kernel_cache import kernel_folder

Function = TypeVar("Function", bound=Callable[..., object])
Whole: TypeAlias = int | np.int64
"""A whole number inside a kernel."""


def compiled(function: Function) -> Function:
    """Compile `function` on its first call, for all processes of this machine.

    Arithmetic stays in the order written (no `fastmath`), so that results do not depend on the
    compiler's taste.
    """
    return cast("Function", _kernel(function))


def compiled_sums(function: Function) -> Function:
    """Compile a kernel whose sums may be taken in any one fixed order, so that they vectorise.

    The order is the compiler's choice, made once: the same call gives the same bits every time.
    """
    return cast("Function", _kernel(function, fastmath={"reassoc", "contract", "nsz"}))


def _kernel(function: Callable[..., object], **flags: Any) -> Any:
    folder = kernel_folder(function.__module__)
    if folder is None or numba.config.DISABLE_JIT:
        return numba.njit(nogil=True, **flags)(function)
    # numba asks for its folder here and never again; functions that are not ours keep theirs.
    usual, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
    try:
        kernel = numba.njit(nogil=True, cache=True, **flags)(function)
    finally:
        numba.config.CACHE_DIR = usual
    # Where numba cannot write it takes a folder that may hold old code: then rather none.
    if not kernel.stats.cache_path.startswith(str(folder)):
        return numba.njit(nogil=True, **flags)(function)
    _keep_if_possible(kernel)
    return kernel


def _keep_if_possible(kernel: Any) -> None:
    """Have a kernel that numba compiled, but cannot keep, used all the same.

    Where threads of a cold start need one kernel at once, numba at times has "no compiled object
    yet" to write into its cache.
    """
    save = kernel._cache.save_overload

    def save_overload(signature: Any, data: Any) -> None:
        with contextlib.suppress(RuntimeError):
            save(signature, data)

    kernel._cache.save_overload = save_overload
