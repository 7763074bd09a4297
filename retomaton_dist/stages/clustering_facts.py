"""Finishing any clustering: its sizes and statistics, from one pass over the states."""

from collections.abc import Mapping
from dataclasses import asdict

import numpy as np

from retomaton_dist.clustering.arrays import blocks_of
from retomaton_dist.clustering.statistics import histogram, no_values, see_values, summarise
from storage import states
from storage.canonical import Json
from storage.datastore import Datastore
from storage.files import FileDigest
from storage.states import States
from storage.store import StoreWriter

BLOCK_ENTRIES = 1 << 20


def finish_clustering(
    writer: StoreWriter,
    name: str,
    clustering: States,
    files: Mapping[str, FileDigest],
    facts: Json,
) -> None:
    """Store sizes, and declare the stage done with statistics beside the given facts.

    `inertia` and `distances` (their sums over all entries) may be among the facts.
    """
    sizes = np.zeros(clustering.count, np.int64)
    values = no_values(clustering.count)
    datastore = clustering.datastore
    for part in blocks_of(datastore.shape.entries, BLOCK_ENTRIES):
        numbers = clustering.state_of_entry[part].view(np.int32)
        sizes += np.bincount(numbers, minlength=clustering.count)
        see_values(values, numbers, datastore.values[part])
    statistics = summarise(sizes, values, facts.pop("inertia", None), facts.pop("distances", None))
    written = states.write_column(writer.path, clustering.folder.name, "sizes", sizes)
    shown = {**facts, **asdict(statistics), "histogram": histogram(sizes)}
    writer.finish_merged(name, {**files, **written}, shown)


def finish_without_clusters(writer: StoreWriter, name: str, datastore: Datastore) -> None:
    """Declare done the clustering in which every entry is its own state: it needs no files."""
    entries = datastore.shape.entries
    ones = {"smallest": 1, "median": 1.0, "p99": 1.0, "largest": 1, "several_values": 0.0}
    counts = {"states": entries, "entries": entries, "empty": 0, "giants": []}
    none = {"inertia": 0.0, "mean_distance": 0.0, "histogram": f"1 {'#' * 40} {entries:,}"}
    writer.finish_merged(name, {}, {**counts, **ones, **none})
