"""Amounts for people, and tables of them."""

import math
from collections.abc import Sequence

# From how many bytes on a unit is used, and what it is.
UNITS = ((1e18, 1e18, "EB"), (1e15, 1e15, "PB"), (1e12, 1e12, "TB"), (1e7, 1e9, "GB"))


def size(bytes_: float) -> str:
    """Bytes, such as 1.25 GB."""
    for least, scale, name in UNITS:
        if bytes_ >= least:
            return f"{bytes_ / scale:,.2f} {name}"
    return f"{bytes_ / 1e6:,.2f} MB"


def amount(number: float) -> str:
    """A number to two digits or more."""
    if not math.isfinite(number):
        return "?"
    if number >= 1e6:
        return f"{number:.1e}"
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def duration(seconds: float) -> str:
    """Seconds, minutes, hours, days or years, whichever says it best."""
    if not math.isfinite(seconds):
        return "unknown"
    steps = ((365 * 86_400.0, "y"), (86_400.0, "d"), (3600.0, "h"), (60.0, "min"))
    for least, name in steps:
        if seconds >= 2 * least:
            return f"{amount(seconds / least)} {name}"
    return f"{amount(seconds)} s"


def count(number: int, name: str) -> str:
    """Such as `1 node` or `4 nodes`."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def aligned(rows: Sequence[tuple[str, ...]], texts: Sequence[int]) -> list[str]:
    """Columns as wide as they need to be: those with texts to the left, amounts to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(
            cell.ljust(width) if number in texts else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]  # fmt: skip
