"""`retomaton compile`: a clustering becomes an automaton that can be walked."""

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.cli.store_argument import add_store, store_of


def run(call: Invocation) -> int:
    """Compile the automaton and say what came of it."""
    settings, workers = (call.group(name) for name in COMMAND.groups)
    store = store_of(call)
    from retomaton_dist.api.build import run_compile

    reader = run_compile(store, settings, workers)
    name = settings.automaton
    facts = reader.describe()["stages"][f"compile/{name}"]["facts"]
    print(
        f"automaton {name}: {facts['states']:,} states over {facts['entries']:,} entries, codec "
        f"{facts['codec']}, {facts['bytes_per_entry']:.1f} bytes per entry"
    )
    return 0


COMMAND = Command(
    name="compile",
    summary="Compile a clustering into an automaton: columns that all workers of a node share.",
    groups=("compile", "workers"),
    arguments=add_store,
    run=run,
    examples="""
        the clustering that `retomaton cluster law.store` made, with codes of up to 64 bytes:
          retomaton compile law.store

        pointers only, every entry its own state:
          retomaton cluster law.store --algorithm none
          retomaton compile law.store --states none

        exact distances, at the price of a copy of the keys:
          retomaton compile law.store --codec fp16 --name exact

        killed? the same command again does only what is missing.
    """,
)
