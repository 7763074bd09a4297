"""`retomaton tokenize`: only the first stage of a build."""

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.cli.store_argument import add_store, store_of


def run(call: Invocation) -> int:
    """Tokenise the corpus into the store and say what came of it."""
    groups = [call.group(name) for name in COMMAND.groups]
    from retomaton_dist.api.build import run_tokenize
    from retomaton_dist.api.describe import as_text

    print(as_text(run_tokenize(store_of(call), *groups).describe()))
    return 0


COMMAND = Command(
    name="tokenize",
    summary="Tokenise a corpus into a store (the first stage; `extract` does it too).",
    groups=("corpus", "model", "tokenize", "workers"),
    arguments=add_store,
    run=run,
    examples="""
        retomaton tokenize wiki.store --corpus wiki.train.txt --split 'regex: = [^=]' --model gpt2
        retomaton tokenize code.store --corpus 'src/**/*.py' --model ./my-model
        retomaton tokenize web.store --corpus web.parquet --field content --model gpt2
    """,
)
