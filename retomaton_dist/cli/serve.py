"""Runs `retomaton serve`: a store behind an API that clients of OpenAI know."""

import sys

from retomaton_dist.cli.command import Invocation
from retomaton_dist.errors import BadInput


def run(call: Invocation) -> int:
    """Serve until asked to end."""
    settings, loading = call.settings["server"], call.settings["load"]
    try:
        from retomaton_dist.serving.run import serve
    except ModuleNotFoundError as error:
        raise BadInput(
            f"serving needs {error.name}: install it with `pip install 'retomaton_dist[serve]'`"
        ) from error
    from retomaton_dist.generation.loaded import load_with

    serve(
        lambda: load_with(call.store, loading),
        loading,
        settings,
        lambda line: print(line, file=sys.stderr, flush=True),
    )
    return 0
