"""The worker that gives all entries of the store their states, once the centroids are known."""

from functools import cached_property

import numpy as np

from retomaton_dist.clustering.assign import FindStates, finder
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.sums import digits_of
from retomaton_dist.stages.kmeans import Saved, Trained
from storage import records, states
from storage.canonical import Json
from storage.datastore import Datastore
from storage.records import Record
from storage.store import Store
from storage.verify import check_chunks


class AssignWorker:
    """Writes the states of whole chunks of entries; reads the centroids from the checkpoint."""

    def __init__(self, store: Store, name: str, saved: Saved, blocking: Blocking) -> None:
        self._store, self._name, self._saved, self._blocking = store, name, saved, blocking

    @cached_property
    def _datastore(self) -> Datastore:
        return self._store.datastore()

    @cached_property
    def _find(self) -> FindStates:
        trained = self._saved.load()
        assert isinstance(trained, Trained), "assignment before training"
        return finder(trained.progress.centroids, trained.cells, self._blocking)

    def run(self, unit: tuple[int, range]) -> Json:
        """Assign the unit's entries, write their states, then the record."""
        number, chunks = unit
        check_chunks(self._store, chunks, ("keys", "values"))
        first, last = self._datastore.shape.entry_range(chunks)
        nearest = self._find(self._datastore.keys[first:last])
        numbers = nearest.states.astype(states.STATE_TYPE)
        files = states.write_part(self._store.path, self._name, number, numbers)
        # Whole numbers per exponent: they add up to the same sum in any order.
        facts = {
            "inertia_digits": digits_of(nearest.distances).tolist(),
            "distance_digits": digits_of(np.sqrt(nearest.distances)).tolist(),
        }
        record = Record(number, self._saved.config_hash, files, facts)
        records.write(self._store.path, f"cluster/{self._name}", record)
        return {"entries": last - first}
