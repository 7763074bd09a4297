"""What is free on this machine, beside what is needed."""

import shutil
from pathlib import Path

import psutil


def free_disk(store: Path) -> int:
    """Bytes free where the store is or would be."""
    place = store.resolve()
    existing = next(folder for folder in (place, *place.parents) if folder.exists())
    return shutil.disk_usage(existing).free


def free_memory() -> int:
    """Bytes of memory free on this machine."""
    return int(psutil.virtual_memory().available)


def warnings(disk: float, memory: float, store: Path) -> list[str]:
    """A line for whatever is not enough."""
    compared = (("DISK", disk, free_disk(store)), ("MEMORY", memory, free_memory()))
    return [f"  NOT ENOUGH {what}" for what, needed, free in compared if needed > free]
