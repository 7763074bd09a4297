"""Random rows from raw files that lie side by side in memory, as if they were one file.

Each chunk file is mapped at its place in one reserved range of addresses. The result is a plain
array: a row costs what it costs from `np.memmap`, and nothing is read before it is touched.
"""

import ctypes
import math
import mmap
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.storage.errors import StoreError

_MAP_FIXED = 0x10


def map_rows(
    paths: Sequence[Path],
    dtype: np.dtype[Any],
    chunk_shape: tuple[int, ...],
    shape: tuple[int, ...],
) -> NDArray[Any]:
    """Map equally large chunk files read-only, one after the other, as one array of `shape`.

    The files must have the full chunk size (a shorter one would kill the reader: check first).
    """
    chunk_bytes = math.prod(chunk_shape) * dtype.itemsize
    if chunk_bytes % mmap.PAGESIZE:
        raise StoreError(
            f"{paths[0].parent}: chunks of {chunk_bytes} bytes cannot be mapped on this machine, "
            f"whose pages have {mmap.PAGESIZE}; build the store with larger --chunk-entries"
        )
    size = max(1, len(paths)) * chunk_bytes
    flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0)
    reserved = mmap.mmap(-1, size, flags, mmap.PROT_READ)
    base = np.frombuffer(reserved, np.uint8).ctypes.data
    for number, path in enumerate(paths):
        _map_at(base + number * chunk_bytes, chunk_bytes, path)
    return np.frombuffer(reserved, dtype, math.prod(shape)).reshape(shape)


def _map_at(address: int, size: int, path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        flags = mmap.MAP_SHARED | _MAP_FIXED
        mapped = _libc_mmap()(address, size, mmap.PROT_READ, flags, descriptor, 0)
    finally:
        os.close(descriptor)
    if mapped != address:
        raise StoreError(
            f"cannot map {path}: {os.strerror(ctypes.get_errno())}; if the store has very many "
            f"chunks, raise the limit: sysctl vm.max_map_count=262144"
        )


@cache
def _libc_mmap() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    function.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    return function
