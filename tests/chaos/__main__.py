"""`make chaos`, or `python -m tests.chaos --faults 50 --seed 1`: exit code 1 if anything is wrong.

`--only KIND` and `--on TARGET`, each as often as wanted, narrow it down: to look closely at a
fault that was found.
"""

import argparse
import os
import signal
import sys

from tests.chaos.campaign import Order, run_campaign
from tests.chaos.disk import enter_namespace
from tests.chaos.nodes import environment


def _order() -> Order:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], help="a kind of fault")
    parser.add_argument("--on", action="append", default=[], help="a command that is disturbed")
    parser.add_argument(
        "--patience", type=float, default=300.0, help="seconds after which a run counts as hung"
    )
    return Order(**vars(parser.parse_args()))


if __name__ == "__main__":
    order = _order()
    # Jobs are submitted from this process: it needs the cluster's token, too.
    os.environ.update(environment())
    enter_namespace("tests.chaos")
    # Whoever ends the campaign early gets the table so far, and no cluster is left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(run_campaign(order))
