"""Arrays on disk that a step needs and nobody keeps: mapped, so that they may exceed memory."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage import files


def mapped_zeros(folder: Path, name: str, dtype: Any, length: int) -> NDArray[Any]:
    """An array of zeros in a file of its own, which replaces one that a killed run left.

    Whoever owns the folder removes it. The disk has room for all of it, or it is refused: a page
    that finds no room later would kill the process.
    """
    path, kind = folder / f"{name}.scratch", np.dtype(dtype)
    if not length:
        return np.zeros(0, kind)
    with files.clear_errors(path):
        files.make_folder(folder)
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.posix_fallocate(descriptor, 0, length * kind.itemsize)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
    # A plain array, which kernels take for what it is.
    return np.memmap(path, kind, mode="r+", shape=(length,)).view(np.ndarray)
