"""Whether the disk holds the store that a build would make: refused before, not found out after."""

from pathlib import Path

from retomaton_dist.dry_run.costs import Work
from retomaton_dist.dry_run.free import free_disk
from retomaton_dist.dry_run.later import estimate_later
from retomaton_dist.dry_run.rates import MEASURED
from retomaton_dist.dry_run.tables import size
from retomaton_dist.errors import BadInput
from retomaton_dist.settings import BuildSettings
from retomaton_dist.stages.build import BuildInputs, check_fit
from retomaton_dist.storage.datastore import Shape

BYTES_PER_TOKEN = 8  # token and offset in the corpus
BYTES_PER_DOCUMENT = 64
# Of text, at the very most, that a token stands for on average; three to five are usual.
MOST_TEXT_PER_TOKEN = 8


def corpus_bytes(shape: Shape, documents: int) -> float:
    """What `tokenize` leaves."""
    return float(BYTES_PER_TOKEN * shape.entries + BYTES_PER_DOCUMENT * documents)


def datastore_bytes(shape: Shape) -> float:
    """What `extract` leaves: whole chunks of keys, values and pointers."""
    return shape.chunks * shape.chunk_entries * (2.0 * shape.dimension + 4 + 8)


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
    later = sum(stage.disk for stage in estimate_later(settings, work))
    needed = corpus_bytes(shape, 0) + datastore_bytes(shape) + later
    have = free_disk(store) + _held(store)
    if needed > have:
        raise BadInput(
            f"{store} would take at least {size(needed)} ({shape.entries:,} entries of "
            f"{shape.dimension} numbers or more), and its disk has {size(have)} for it; free some, "
            f"or put the store elsewhere"
        )


def _held(store: Path) -> int:
    return sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
