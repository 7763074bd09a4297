"""Rows in pieces of bounded size."""

from collections.abc import Iterator


def blocks_of(rows: int, size: int) -> Iterator[slice]:
    """Cut 0..rows-1 into slices of `size`, the last of which may be shorter."""
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))
