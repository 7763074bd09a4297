"""Evaluates a text with all methods as a Ray job.

    ray job submit --working-dir . -- python -m jobs.evaluate_perplexity --config job.toml

Flags and exit codes are those of `retomaton eval`.
"""

import sys

from retomaton_dist.cli import main

if __name__ == "__main__":
    sys.exit(main(["eval", *sys.argv[1:]]))
