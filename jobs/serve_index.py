"""Serves an index to all jobs of the cluster; its actors stay when this job ends.

    ray job submit --working-dir . -- python -m jobs.serve_index /shared/law.store

Flags and exit codes are those of `retomaton serve-index`.
"""

import sys

from retomaton_dist.cli import main

if __name__ == "__main__":
    sys.exit(main(["serve-index", *sys.argv[1:]]))
