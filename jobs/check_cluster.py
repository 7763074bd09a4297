"""Checks every node of the cluster that it runs on, as a Ray job.

    ray job submit --working-dir . -- python -m jobs.check_cluster /shared/law.store

The flags are those of `retomaton doctor`, and so are the exit codes: 0 all is well, 1 there is a
problem, 2 bad input.
"""

import sys
from collections.abc import Sequence

from retomaton_dist.cli import main


def run(arguments: Sequence[str]) -> int:
    """Check the nodes; return the exit code that becomes the job's."""
    return main(["doctor", *arguments])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
