"""Runs the paper's experiments, as a Ray job.

    ray job submit --working-dir . -- python -m jobs.reproduce_paper --config paper.toml

The flags are those of `retomaton reproduce`, and so are the exit codes: 0 done, 2 bad input or a
failed run. Submitted again after a failure, it does only what is missing.
"""

import sys
from collections.abc import Sequence

from retomaton_dist.cli import main


def run(arguments: Sequence[str]) -> int:
    """Run the experiments; return the exit code that becomes the job's."""
    return main(["reproduce", *arguments])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
