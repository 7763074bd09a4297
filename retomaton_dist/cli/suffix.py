"""`retomaton suffix`: an index of what the corpus's entries follow."""

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.cli.store_argument import add_store, store_of


def run(call: Invocation) -> int:
    """Make the suffix index and say what came of it."""
    settings, workers = (call.group(name) for name in COMMAND.groups)
    store = store_of(call)
    from retomaton_dist.api.build import run_suffix

    reader = run_suffix(store, settings, workers)
    facts = reader.describe()["stages"][f"suffix/{settings.name}"]["facts"]
    print(
        f"suffix/{settings.name}: {facts['entries']:,} entries by up to {facts['longest']} tokens "
        f"before them, {facts['bytes_per_entry']:.1f} bytes per entry"
    )
    return 0


COMMAND = Command(
    name="suffix",
    summary="Index the corpus by what precedes each entry: restarts that need no search.",
    groups=("suffix", "workers"),
    arguments=add_store,
    run=run,
    examples="""
        the entries that follow the longest match of the last 8 tokens, found in microseconds:
          retomaton suffix law.store

        longer matches told apart, beside the first index:
          retomaton suffix law.store --longest 16 --name long

        killed? the same command again does only what is missing.
    """,
)
