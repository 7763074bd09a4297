"""Figures, as PNG files."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage import files


def plot_state_sizes(sizes: NDArray[np.int64], title: str, path: Path) -> None:
    """How many states have how many members, both on logarithmic scales."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    largest = max(2, int(sizes.max()))
    bins = np.unique(np.geomspace(1, largest + 1, 41).astype(int))
    axes.hist(sizes[sizes > 0], bins=bins.tolist(), color="#3b6ea5", edgecolor="white")
    axes.set(xscale="log", yscale="log", xlabel="members", ylabel="states", title=title)
    median = float(np.median(sizes))
    axes.axvline(max(median, 1), color="#c0504d", linestyle="--", label=f"median {median:g}")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    with files.replacing(path) as file:
        figure.savefig(file, format="png", dpi=120, metadata={"Software": None})
    pyplot.close(figure)
