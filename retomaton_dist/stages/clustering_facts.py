"""Finishing any clustering: its sizes and statistics, from one pass over the states."""

from collections.abc import Mapping
from dataclasses import asdict

import numpy as np

from retomaton_dist.clustering.arrays import blocks_of
from retomaton_dist.clustering.statistics import histogram, no_values, see_values, summarise
from retomaton_dist.stages.runner import Done
from storage import states
from storage.canonical import Json
from storage.files import FileDigest
from storage.states import States

BLOCK_ENTRIES = 1 << 20


def with_statistics(clustering: States, files: Mapping[str, FileDigest], facts: Json) -> Done:
    """Store the sizes; return all files of a clustering, and statistics beside the given facts.

    `inertia` and `distances` (their sums over all entries) may be among the facts.
    """
    sizes = np.zeros(clustering.count, np.int64)
    values = no_values(clustering.count)
    datastore = clustering.datastore
    for part in blocks_of(datastore.shape.entries, BLOCK_ENTRIES):
        numbers = clustering.state_of_entry[part].view(np.int32)
        sizes += np.bincount(numbers, minlength=clustering.count)
        see_values(values, numbers, datastore.values[part])
    sums = facts.pop("inertia", None), facts.pop("distances", None)
    statistics = summarise(sizes, values, *sums)
    store = clustering.folder.parents[1]
    written = states.write_column(store, clustering.folder.name, "sizes", sizes)
    shown = {**facts, **asdict(statistics), "histogram": histogram(sizes)}
    return Done({**files, **written}, shown)
