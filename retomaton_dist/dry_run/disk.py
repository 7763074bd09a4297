"""Whether the disk holds the store that a build would make: refused before, not found out after."""

import shutil
from pathlib import Path

import psutil

from retomaton_dist.dry_run.rates import MEASURED
from retomaton_dist.dry_run.tables import size
from retomaton_dist.errors import BadInput
from retomaton_dist.settings import BuildSettings
from retomaton_dist.stages.build import BuildInputs, check_fit, estimate_stages
from retomaton_dist.stages.cost import Work
from retomaton_dist.storage.datastore import Shape

# Of text, at the very most, that a token stands for on average; three to five are usual.
MOST_TEXT_PER_TOKEN = 8


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


def check_least(store: Path, settings: BuildSettings, inputs: BuildInputs) -> None:
    """Refuse, before a byte is written, a disk that is too small for any such corpus.

    Only for text files, by their size: records may hold much that is no text. The rest is for
    `check_disk`, once the tokens are counted.
    """
    sources = inputs.corpus.sources
    least = sum(source.bytes for source in sources) // MOST_TEXT_PER_TOKEN
    if not least or any(source.kind != "text" for source in sources):
        return
    shape = inputs.shape(least, settings)
    try:
        check_fit(settings, shape)
    except BadInput:
        # There may be more entries, and if not, that is said when they are counted.
        return
    check_disk(store, settings, inputs, shape)


def check_disk(store: Path, settings: BuildSettings, inputs: BuildInputs, shape: Shape) -> None:
    """Refuse a store that its disk does not hold, by what the stages leave.

    What the store has already is not needed once more.
    """
    work = Work(shape, 1, MEASURED, inputs.corpus.tokenizer.vocabulary)
    needed = sum(stage.disk for stage in estimate_stages(settings, work))
    held = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    have = free_disk(store) + held
    if needed > have:
        raise BadInput(
            f"{store} would take at least {size(needed)} ({shape.entries:,} entries of "
            f"{shape.dimension} numbers or more), and its disk has {size(have)} for it; free some, "
            f"or put the store elsewhere"
        )
