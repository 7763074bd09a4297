"""`retomaton statistics`: how the corpus's tokens go on, counted once and kept."""

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.cli.store_argument import add_store, store_of


def run(call: Invocation) -> int:
    """Count the corpus and say what came of it."""
    (workers,) = (call.group(name) for name in COMMAND.groups)
    store = store_of(call)
    from retomaton_dist.api.build import run_statistics

    facts = run_statistics(store, workers).store.stage("statistics").facts
    print(f"statistics: {facts['tokens']:,} tokens go on in {facts['pairs']:,} ways")
    return 0


COMMAND = Command(
    name="statistics",
    summary="Count how often and in how many ways the corpus's tokens go on.",
    groups=("workers",),
    arguments=add_store,
    run=run,
    examples="""
        what `build` does at its end; without it, every evaluation with adaptret counts for itself:
          retomaton statistics law.store
    """,
)
