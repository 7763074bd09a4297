"""Files that a library insists on writing itself, made durable and whole all the same."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from storage import files

PARTIAL = ".partial"


def save_into(folder: Path, save: Callable[[Path], object]) -> None:
    """Let `save` write into an empty folder, then move each of its files into `folder`.

    A kill leaves every file as it was or as it shall be, and those that sort last moved first.
    """
    partial = folder / PARTIAL
    with files.clear_errors(folder):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        save(partial)
        for path in sorted(partial.iterdir(), reverse=True):
            with path.open("rb+") as file:
                os.fsync(file.fileno())
            path.replace(folder / path.name)
        partial.rmdir()
        files.flush_folder(folder)
