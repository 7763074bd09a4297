"""`retomaton build`: all stages, from text to states and a search index."""

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.cli.store_argument import add_store, store_of


def run(call: Invocation) -> int:
    """Run every stage, or what is missing of it, and show the store."""
    settings = [call.group(name) for name in COMMAND.groups]
    later = [call.group(name) for name in ("cluster", "index")]
    store = store_of(call)
    from retomaton_dist.building import BuildSettings, run_build
    from retomaton_dist.describe import as_text

    print(as_text(run_build(store, BuildSettings(*settings), *later).describe()))
    return 0


COMMAND = Command(
    name="build",
    summary="Build a store: tokenize, extract, cluster, index; what is up to date is skipped.",
    groups=("corpus", "model", "tokenize", "extract", "workers"),
    arguments=add_store,
    run=run,
    examples="""
        retomaton build law.store --corpus law/train.en --split line --model gpt2

        the settings of single stages come from the file's tables, [cluster] and [index]:
          retomaton build --config build.toml
    """,
)
