"""`retomaton cluster`: entries with close keys become states."""

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.cli.store_argument import add_store, store_of


def run(call: Invocation) -> int:
    """Cluster the store's entries and show the clustering."""
    settings, workers = (call.group(name) for name in COMMAND.groups)
    store = store_of(call)
    from retomaton_dist.api.build import run_cluster
    from retomaton_dist.api.describe import clustering_as_text

    reader = run_cluster(store, settings, workers)
    name = settings.clustering
    print(clustering_as_text(name, reader.describe()["stages"][f"cluster/{name}"]))
    return 0


COMMAND = Command(
    name="cluster",
    summary="Cluster a store's entries into states: k-means at any size, greedy merging, or none.",
    groups=("cluster", "workers"),
    arguments=add_store,
    run=run,
    examples="""
        one state per 100 entries:
          retomaton cluster law.store

        side by side with it, for comparison:
          retomaton cluster law.store --name coarse --states 2000
          retomaton cluster law.store --algorithm greedy --neighbours 10
          retomaton cluster law.store --algorithm none

        killed? the same command again goes on from the last iteration or unit.
    """,
)
