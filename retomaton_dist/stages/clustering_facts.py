"""Finishing any clustering: its sizes and statistics, from one pass over the states."""

from collections.abc import Mapping
from dataclasses import asdict

import numpy as np

from retomaton_dist.clustering.arrays import blocks_of
from retomaton_dist.clustering.statistics import histogram, see_members, summarise
from retomaton_dist.stages.runner import Done
from retomaton_dist.storage import states
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.scratch import mapped_zeros
from retomaton_dist.storage.states import States
from retomaton_dist.storage.windows import Windows

BLOCK_ENTRIES = 1 << 20


def with_statistics(clustering: States, files: Mapping[str, FileDigest], facts: Json) -> Done:
    """Store the sizes; return all files of a clustering, and statistics beside the given facts.

    `inertia` and `distances` (their sums over all entries) may be among the facts.
    """
    store, name = clustering.folder.parents[1], clustering.folder.name
    # On disk: there may be nearly as many states as entries.
    scratch = states.parts_of(store, name)
    sizes, values = (
        mapped_zeros(scratch, array, np.int64, clustering.count) for array in ("sizes", "values")
    )
    tokens = Windows(clustering.datastore, "values")
    for part in blocks_of(len(tokens), BLOCK_ENTRIES):
        see_members(sizes, values, clustering.state_of_entry[part], tokens[part])
    sums = facts.pop("inertia", None), facts.pop("distances", None)
    statistics = summarise(sizes, values, *sums)
    written = states.write_column(store, name, "sizes", sizes)
    shown = {**facts, **asdict(statistics), "histogram": histogram(sizes)}
    return Done({**files, **written}, shown)
