"""A typed decorator for kernels that run outside the GIL."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile `function` on its first call, for all processes of this machine.

    Arithmetic stays in the order written (no `fastmath`), so that results do not depend on the
    compiler's taste. Kernels that call each other share a file: the cache knows no other.
    """
    return cast("Function", numba.njit(nogil=True, cache=True)(function))
