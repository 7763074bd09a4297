"""How good a filled index is, and the search parameters that it is tuned to."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from retomaton_dist.search import parameters
from retomaton_dist.search.layout import IndexFiles, Layout
from retomaton_dist.search.merge import Found, merge
from retomaton_dist.search.probe import Probe
from retomaton_dist.search.recall import Measure
from retomaton_dist.search.searcher import LocalSearcher
from retomaton_dist.search.tuning import tune
from retomaton_dist.settings import IndexSettings
from retomaton_dist.stages.index_worker import read_exact
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.store import Store


def fixed_parameters(settings: IndexSettings) -> dict[str, float]:
    """The search parameters that the user sets."""
    given = parameters.parse(settings.parameters or "")
    return given if settings.nprobe is None else {**given, "nprobe": settings.nprobe}


def tuned(
    store: Store,
    layout: Layout,
    shards: Sequence[FileDigest],
    empty: Any,
    probe: Probe,
    settings: IndexSettings,
) -> Layout:
    """The layout with the parameters that reach the target, and all recalls that were measured."""
    measure = Measure(probe, _exact(store, layout, probe), store.datastore().keys)
    with LocalSearcher(IndexFiles(store.path, layout, tuple(shards))) as searcher:

        def recall(chosen: parameters.Parameters) -> float:
            searcher.configure(chosen)
            return round(measure.recall(searcher), 6)

        name, most = parameters.tuned_name(empty), layout.cells or layout.entries
        best = tune(recall, fixed_parameters(settings), name, most, settings.target_recall)
    report: Json = {
        "k": probe.k,
        "queries": len(probe.entries),
        "recall": best.recall,
        "target": settings.target_recall,
        "reached": best.recall >= settings.target_recall,
        "tried": best.tried,
    }
    return replace(layout, parameters=dict(best.parameters), recall=report)


def _exact(store: Store, layout: Layout, probe: Probe) -> Found:
    """The probe's exact nearest entries: shard after shard, so that two shares are in memory."""
    numbers = range(len(layout.spans))
    found = (read_exact(store.path, layout.name, number, probe) for number in numbers)
    return reduce(lambda before, more: merge([before, more], probe.k + 1), found)
