"""Builds a store from text to automaton as a Ray job.

    ray job submit --working-dir . -- python -m jobs.build_datastore --config job.toml

Flags and exit codes are those of `retomaton build`.
"""

import sys

from retomaton_dist.cli import main

if __name__ == "__main__":
    sys.exit(main(["build", *sys.argv[1:]]))
