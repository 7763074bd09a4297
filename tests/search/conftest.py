"""One made store with three indexes, and both kinds of searcher over each of them."""

import contextlib
import shutil

import numpy as np
import pytest

from tests.search.made import make_store, many_ties, serving

ENTRIES, DIMENSION = 6_500, 8
# The first entries of all documents share one key, as they do in real stores.
LENGTHS = [65] * 100
INDEXES = {
    "flat": {"factory": "Flat"},
    "cells": {"factory": "IVF32,Flat", "parameters": "nprobe=4"},
    "rotated": {"factory": "PCA6,IVF16,SQ8", "target_recall": 0.8},
}


@pytest.fixture(scope="session")
def indexed(tmp_path_factory):
    """The path of a store whose keys are mostly repeated, indexed in three shards each way."""
    import retomaton_dist as rd

    keys = many_ties(ENTRIES, DIMENSION)
    keys[np.cumsum([0, *LENGTHS[:-1]])] = 1
    path = make_store(tmp_path_factory.mktemp("search") / "ties.store", keys, LENGTHS)
    for name, settings in INDEXES.items():
        rd.index(
            path, name=name, shards=3, workers=0, progress="none", recall_queries=32, recall_k=32,
            sample=4096, **settings,
        )  # fmt: skip
    return path


@pytest.fixture(scope="session", params=["local", "service"])
def open_search(request, indexed, tmp_path_factory):
    """A function from an index's name to a searcher, either kind of it.

    The service is that of a copy: tests of the service as such serve the store itself.
    """
    import retomaton_dist as rd
    from retomaton_dist.search.layout import IndexFiles

    opened = {}

    def search(name):
        if name not in opened:
            if request.param == "local":
                opened[name] = rd.open(indexed).searcher(name)
            else:
                request.getfixturevalue("ray_local")
                files = IndexFiles.open(rd.open(copy).store, name)
                opened[name] = served.enter_context(serving(files))
        return opened[name]

    with contextlib.ExitStack() as served:
        copy = shutil.copytree(indexed, tmp_path_factory.mktemp("served") / "copy.store")
        yield search
