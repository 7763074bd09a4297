"""Building an index: what `retomaton index` and `rd.index` run."""

from pathlib import Path
from typing import Any

from retomaton_dist.reader import StoreReader
from retomaton_dist.resolve import split_keywords
from retomaton_dist.runtime.cluster import Session
from retomaton_dist.search.settings import IndexSettings
from retomaton_dist.settings import WorkerSettings
from retomaton_dist.stages import index as indexing
from storage.store import Store, writing


def index(store: str | Path, **settings: Any) -> StoreReader:
    """Build a search index over a store's keys, or do what is missing of it.

    Keywords are the flags of `retomaton index`; without any, what fits the store is chosen.
    """
    return run_index(store, *split_keywords((IndexSettings, WorkerSettings), settings))


def run_index(store: str | Path, settings: IndexSettings, workers: WorkerSettings) -> StoreReader:
    """Run the stage `index/NAME`; everything is checked before anything is written."""
    opened = Store.open(Path(store).resolve())
    with Session(workers) as session:
        planned = indexing.plan_index(opened, settings, workers.threads)
        with writing(store) as writer:
            indexing.index(writer, planned, settings, session)
    return StoreReader.open(store)
