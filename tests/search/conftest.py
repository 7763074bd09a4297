"""One made store with three indexes, and both kinds of searcher over each of them."""

import numpy as np
import pytest

from tests.search.made import make_store, many_ties

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
def open_search(request, indexed):
    """A function from an index's name to a searcher, either kind of it."""
    import retomaton_dist as rd
    from retomaton_dist.runtime.search_service import SearchService
    from retomaton_dist.search.layout import IndexFiles

    opened = {}

    def search(name):
        if name not in opened:
            store = rd.open(indexed)
            files = IndexFiles.open(store.store, name)
            local = request.param == "local"
            if not local:
                request.getfixturevalue("ray_local")
            opened[name] = store.searcher(name) if local else SearchService.start(files)
        return opened[name]

    yield search
    for searcher in opened.values():
        searcher.close()
