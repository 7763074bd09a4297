"""Evaluations whose units run in this process: only the actors that would run them are left out."""

import contextlib
from unittest.mock import patch

import torch

from retomaton_dist.stages import score, tokenize


def run_here(plan, missing, make, session, describe=None):
    """Do the missing units here, one after the other."""
    if missing:
        worker = make()
        for unit in missing:
            worker.run((unit, plan.units[unit]))


@contextlib.contextmanager
def in_this_process(run_score=run_here):
    """Have units run here, with one thread as actors have."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with (
            patch.object(tokenize, "run_missing", run_here),
            patch.object(score, "run_missing", run_score),
        ):
            yield
    finally:
        torch.set_num_threads(threads)


def stopping_after(units):
    """Run so many units of scoring, then fail as if interrupted."""

    def run(plan, missing, make, session, describe=None):
        run_here(plan, missing[:units], make, session)
        raise KeyboardInterrupt

    return run
