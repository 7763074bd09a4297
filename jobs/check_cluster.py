"""Checks every node of the cluster that it runs on, as a Ray job.

    ray job submit --working-dir . -- python -m jobs.check_cluster /shared/law.store

Flags and exit codes are those of `retomaton doctor`.
"""

import sys

from retomaton_dist.cli import main

if __name__ == "__main__":
    sys.exit(main(["doctor", *sys.argv[1:]]))
