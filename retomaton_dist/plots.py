"""Figures, as PNG files."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage import files


@contextlib.contextmanager
def drawing(path: Path, panels: int = 1, size: tuple[float, float] = (7, 4)) -> Iterator[Any]:
    """Yield the axes of so many panels side by side (one: the axes alone); save them at the end.

    `size` is in inches. The file holds no date or version, so that equal figures are equal bytes.
    """
    # Heavy, and not needed by those who only ask for help.
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    yield axes[0] if panels == 1 else axes
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120, metadata={"Software": None})
    files.write(path, picture.getvalue())


def plot_state_sizes(sizes: NDArray[np.int64], title: str, path: Path) -> None:
    """How many states have how many members, both on logarithmic scales."""
    with drawing(path) as axes:
        largest = max(2, int(sizes.max()))
        bins = np.unique(np.geomspace(1, largest + 1, 41).astype(int))
        axes.hist(sizes[sizes > 0], bins=bins.tolist(), color="#3b6ea5", edgecolor="white")
        axes.set(xscale="log", yscale="log", xlabel="members", ylabel="states", title=title)
        median = float(np.median(sizes))
        axes.axvline(max(median, 1), color="#c0504d", linestyle="--", label=f"median {median:g}")
        axes.legend(frameon=False)
