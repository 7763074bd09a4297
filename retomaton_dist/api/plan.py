"""Saying what a build would take before there is a corpus."""

from typing import Any

from retomaton_dist.dry_run.plan import Planned, make_plan
from retomaton_dist.settings import PlanSettings
from retomaton_dist.settings.parsing import TABLES, split_keywords


def plan(**settings: Any) -> Planned:
    """Say what a build of so many tokens would take on such machines; nothing is written.

    Keywords are the flags of `retomaton plan`; `tokens`, and `model` or `dimension`, are needed.
    Settings of stages are tables, as in `rd.build`: `cluster={"states": 500}`.
    """
    flags = {name: value for name, value in settings.items() if name not in TABLES}
    (chosen,) = split_keywords((PlanSettings,), flags, TABLES)
    return make_plan(chosen, settings)
