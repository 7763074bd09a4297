"""`retomaton index`: a search index over all keys."""

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.cli.store_argument import add_store, store_of


def run(call: Invocation) -> int:
    """Build the index and say which it is, why, and how good."""
    settings, workers = (call.group(name) for name in COMMAND.groups)
    store = store_of(call)
    from retomaton_dist.api.build import run_index
    from retomaton_dist.search.layout import described

    facts = run_index(store, settings, workers).describe()["stages"][f"index/{settings.name}"][
        "facts"
    ]
    print(f"index/{settings.name}: {described(facts)} ({facts['why']})")
    return 0


COMMAND = Command(
    name="index",
    summary="Build a search index over all keys: sharded, tuned to a recall that is measured.",
    groups=("index", "workers"),
    arguments=add_store,
    run=run,
    examples="""
        what fits the store, tuned to find 90 % of what exact search finds:
          retomaton index law.store

        nearer to exact; on a finished index this only tunes anew:
          retomaton index law.store --target-recall 0.97

        a second index beside the first, by any FAISS factory string, in four shards:
          retomaton index law.store --name small --factory OPQ32,IVF1024,PQ32 --shards 4

        fixed search parameters instead of tuned ones:
          retomaton index law.store --parameters nprobe=32

        killed? the same command again does only what is missing.
    """,
)
