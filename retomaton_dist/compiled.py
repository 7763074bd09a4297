"""Typed decorators for kernels that run outside the GIL."""

from collections.abc import Callable
from typing import TypeAlias, TypeVar, cast

import numba
import numpy as np

Function = TypeVar("Function", bound=Callable[..., object])
Whole: TypeAlias = int | np.int64
"""A whole number inside a kernel."""


def compiled(function: Function) -> Function:
    """Compile `function` on its first call, for all processes of this machine.

    Arithmetic stays in the order written (no `fastmath`), so that results do not depend on the
    compiler's taste. The cache notices changes of the function's own file only: after a change
    of a file whose kernels others call, run `make clean`.
    """
    return cast("Function", numba.njit(nogil=True, cache=True)(function))


def compiled_sums(function: Function) -> Function:
    """Compile a kernel whose sums may be taken in any one fixed order, so that they vectorise.

    The order is the compiler's choice, made once: the same call gives the same bits every time.
    """
    allowed = {"reassoc", "contract", "nsz"}
    return cast("Function", numba.njit(nogil=True, cache=True, fastmath=allowed)(function))
