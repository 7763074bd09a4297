"""The command line: `retomaton COMMAND STORE ...`. Heavy imports wait until a command runs."""

from retomaton_dist.cli.main import main

__all__ = ["main"]
