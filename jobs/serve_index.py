"""Serves an index to all jobs of the cluster, as a Ray job; its actors stay when the job ends.

    ray job submit --working-dir . -- python -m jobs.serve_index /shared/law.store
    ray job submit --working-dir . -- python -m jobs.evaluate_perplexity /shared/law.store \
        --text /shared/law/test.en --calibrate-on /shared/law/dev.en --served
    ray job submit --working-dir . -- python -m jobs.serve_index /shared/law.store --stop

The flags are those of `retomaton serve-index`, and so are the exit codes: 0 done, 2 bad input or a
failed run.
"""

import sys
from collections.abc import Sequence

from retomaton_dist.cli import main


def run(arguments: Sequence[str]) -> int:
    """Start, show or end the service; return the exit code that becomes the job's."""
    return main(["serve-index", *arguments])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
