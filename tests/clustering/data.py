"""Keys for tests: whole numbers, so that distances are exact and ties are common; or clouds."""

import numpy as np
from hypothesis import strategies as st

DIVISIONS = st.lists(st.integers(0, 10**6), max_size=3)


def grids(rows=(1, 40), dimension=None, high=2):
    """Matrices of small whole numbers as float16."""
    width = st.integers(1, 9) if dimension is None else st.just(dimension)

    def grid(count, columns, seed):
        chosen = np.random.default_rng(seed)
        return chosen.integers(-high, high + 1, (count, columns)).astype(np.float16)

    return st.builds(grid, st.integers(*rows), width, st.integers(0, 10**6))


@st.composite
def rows_and_centroids(draw):
    """Grids of equal width."""
    rows = draw(grids())
    return rows, draw(grids(dimension=rows.shape[1])).astype(np.float32)


def clouds(rows, centres, dimension, seed=0, width=0.3):
    """Rows around random centres of random sizes, as float16."""
    chosen = np.random.default_rng(seed)
    places = chosen.standard_normal((centres, dimension))
    shares = chosen.pareto(2, centres) + 0.2
    home = chosen.choice(centres, rows, p=shares / shares.sum())
    return (places[home] + width * chosen.standard_normal((rows, dimension))).astype(np.float16)


def crowds(rows, targets, seed=0):
    """Rows and targets in three crowds, within which no float32 product tells targets apart.

    Whole numbers: float64 distances are exact and ties are common.
    """
    chosen = np.random.default_rng(seed)
    places = chosen.integers(-2000, 2001, (3, 64))

    def crowded(count):
        return places[chosen.integers(0, 3, count)] + chosen.integers(-1, 2, (count, 64))

    return crowded(rows).astype(np.float16), crowded(targets).astype(np.float32)


def nearly_tied(seed):
    """Centroids in pairs that differ by less than a float32 product can tell."""
    rows = clouds(600, 5, 64, seed)
    centroids = np.repeat(rows[:150].astype(np.float32), 2, axis=0)
    centroids[1::2] *= 1 + np.random.default_rng(seed).uniform(-3e-7, 3e-7, (150, 64))
    return rows, centroids.astype(np.float32)


def crowded(seed):
    """Centroids in crowds of 60 that float32 products cannot tell apart, too many to remember."""
    rows = clouds(300, 5, 64, seed)
    centroids = np.repeat(rows[:3].astype(np.float32), 60, axis=0)
    centroids *= 1 + np.random.default_rng(seed).uniform(-3e-7, 3e-7, centroids.shape)
    return rows, centroids.astype(np.float32)


def divided(rows, cuts):
    """Cut rows at some places; parts may be empty."""
    places = sorted(cut % (len(rows) + 1) for cut in cuts)
    return np.split(rows, places)


def squared_distances(rows, targets):
    """All distances in float64, the obvious way."""
    apart = rows[:, None].astype(np.float64) - targets[None].astype(np.float64)
    return (apart**2).sum(axis=2)
