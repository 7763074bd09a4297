"""Units of stages that stream the datastore: runs of whole chunks."""

from storage.datastore import Shape


def chunk_units(shape: Shape, entries: int) -> tuple[list[range], list[int]]:
    """Cut the datastore into units of about `entries` entries; return them and their sizes."""
    per_unit = max(1, entries // shape.chunk_entries)
    starts = range(0, shape.chunks, per_unit)
    units = [range(start, min(start + per_unit, shape.chunks)) for start in starts]
    return units, [last - first for first, last in map(shape.entry_range, units)]
