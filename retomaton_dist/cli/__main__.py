"""`python -m retomaton_dist.cli` is `retomaton`."""

import sys

from retomaton_dist.cli import main

sys.exit(main())
