"""Units in rounds: a round begins when the one before is done; the actors stay."""

from collections.abc import Callable, Sequence

from retomaton_dist.runtime.cluster import Session
from retomaton_dist.runtime.pool import Pool, Worker
from retomaton_dist.runtime.progress import showing
from retomaton_dist.stages.runner import Payload, Plan
from storage.canonical import Json


def run_rounds(
    plan: Plan[Payload],
    rounds: Sequence[Sequence[int]],
    make: Callable[[], Worker[tuple[int, Payload], Json]],
    session: Session,
) -> None:
    """Do the missing units of a stage that was begun, given round by round."""
    missing = [unit for group in rounds for unit in group]
    if not missing:
        return
    before = plan.work_before(missing)
    settings = session.settings
    with (
        showing(settings.progress, plan.name, sum(plan.work), plan.work_name, before) as progress,
        Pool(session.crew(gpu=plan.gpu), make, settings.unit_timeout, progress.begin) as pool,
    ):
        for group in rounds:
            units = [(unit, plan.units[unit]) for unit in group]
            for (unit, _), _ in pool.run(units, group):
                progress.advance(plan.work[unit], {})
