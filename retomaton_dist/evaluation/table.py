"""Results as a table for the terminal."""

from collections.abc import Sequence

from storage.canonical import Json

HEAD = ("method", "states", "tau", "FoSS", "perplexity", "95 % interval", "against kNN-LM")


def results_table(rows: Sequence[Json]) -> str:
    """One line per point of a curve."""
    lines = [HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(row: Json) -> tuple[str, ...]:
    interval, against = row["interval"], row["against_knnlm"]
    tau = row["tau"]
    return (
        row["method"],
        row["clustering"] or "",
        "" if tau is None else str(tau) if isinstance(tau, str) else f"{tau:g}",
        f"{row['foss']:.3f}",
        f"{row['perplexity']:.2f}",
        f"{interval[0]:.2f} - {interval[1]:.2f}" if interval else "",
        f"{against['ratio'] - 1:+.1%}" if against else "",
    )
