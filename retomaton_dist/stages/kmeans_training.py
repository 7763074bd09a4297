"""Training a k-means: rounds of units over the session's workers, resumed where they were.

The driver holds a few numbers per cell and per unit. Rows, centroids and sums lie in files that
workers map; what they leave there depends on the keys and the recipe alone.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from retomaton_dist.clustering.arrays import Counts
from retomaton_dist.clustering.cell_order import (
    apportion,
    group_cells,
    masses_of,
    places_of_units,
)
from retomaton_dist.clustering.draw import draw, first_centroids
from retomaton_dist.clustering.lloyd import Iteration, Stop, scaled, stopped
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.recipe import Recipe, is_for_one, recipe_of_cells
from retomaton_dist.clustering.samples import tells_moves
from retomaton_dist.clustering.sums import total_of
from retomaton_dist.runtime.progress import showing
from retomaton_dist.runtime.session import Session
from retomaton_dist.stages.kmeans_job import (
    CentroidPiece,
    Trained,
    TrainingFiles,
    TrainingJob,
    TrainingState,
    TrainingUnit,
    checked_centroids,
    open_trained,
)
from retomaton_dist.stages.kmeans_units import (
    AssignRows,
    CopyRows,
    FindCells,
    MoveRange,
    PlaceRows,
    SeeCells,
    SplitCells,
    TrainingWorker,
    WeighCells,
    write_piece,
)
from retomaton_dist.stages.runner import open_rounds
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.guarded import GuardedReader

Show = Callable[[Sequence[Iteration]], None]
Run = Callable[[Sequence[TrainingUnit]], None]


def train_shown(
    title: str,
    session: Session,
    reader: GuardedReader,
    recipe: Recipe,
    files: TrainingFiles,
    blocking: Blocking,
) -> None:
    """Run k-means, or go on with it, and show every iteration as progress."""
    reached, mode = files.load(), session.settings.progress
    before = len(reached.history) if reached else 0
    if reached and stopped(reached.history, Stop(recipe.iterations)):
        return
    with showing(mode, title, recipe.iterations, "iterations", before) as progress:

        def show(history: Sequence[Iteration]) -> None:
            last = history[-1]
            moved = {} if last.moved is None else {"moved": f"{last.moved:.1%}"}
            numbers: Json = {"inertia": f"{last.inertia:.5g}", **moved, "empty": last.empty}
            progress.advance(len(history) - progress.done, numbers)

        train_centroids(session, reader, recipe, files, blocking, show)


def train_centroids(
    session: Session,
    reader: GuardedReader,
    recipe: Recipe,
    files: TrainingFiles,
    blocking: Blocking,
    show: Show = lambda _: None,
    tolerance: float = Stop.tolerance,
) -> Trained:
    """Run k-means, or go on with it; the bits are the same either way, whoever computes them.

    `show` is given the iterations that are done, whenever there is one more. The files stay
    until the caller removes them: centroids and cells are mapped from there.
    """
    stop, reached, shape = Stop(recipe.iterations, tolerance), files.load(), reader.shape
    if reached is None or not stopped(reached.history, stop):
        whole = recipe.rows == shape.entries
        drawn = None if whole else draw(shape.entries, recipe.rows, recipe.seed)
        job = TrainingJob(reader, recipe, files, drawn, blocking)
        of_cells = recipe_of_cells(recipe, shape.dimension)
        if reached is None and recipe.two_level and not is_for_one(of_cells, shape):
            train_centroids(session, reader, of_cells, files.of_cells, blocking)
        make, gpu = partial(TrainingWorker, job), blocking.device == "cuda"
        with open_rounds(session, make, files.has, files.keep, gpu=gpu) as run:
            _iterate(job, reached, stop, run, show)
    return open_trained(reader, files)


def _iterate(
    job: TrainingJob, reached: TrainingState | None, stop: Stop, run: Run, show: Show
) -> None:
    """Iterate until `stop` says so; a checkpoint follows every iteration."""
    if reached is None:
        state = (_begin_in_cells if job.recipe.two_level else _begin)(job, run)
        job.files.save(state)
    else:
        state = reached
        checked_centroids(job.files, state, job.dimension)
    while not stopped(state.history, stop):
        state = _step(job, state, run)
        job.files.save(state)
        job.files.forget_before(len(state.history) - 1)
        show(state.history)


def _step(job: TrainingJob, state: TrainingState, run: Run) -> TrainingState:
    """Assign the rows that are seen, then move every centroid, some whole cells at a time."""
    number, unit = len(state.history), state.spread_unit
    assigning = [AssignRows(r.start, r.stop, number, unit) for r in job.row_units(number)]
    run(assigning)
    job.centroids_array(number + 1).make()
    groups = [(0, 1)]  # Without cells, all states are one.
    if job.recipe.two_level:
        groups = group_cells(np.diff(job.state_offsets), job.range_states)
    moving = [MoveRange(*group, number, unit, len(assigning)) for group in groups]
    run(moving)
    digits, moved, seen = np.zeros(1, np.int64), 0, 0
    for place, assigned in enumerate(assigning):
        arrays, fact = job.files.left(assigned.kind, place, "digits")
        digits = digits + arrays["digits"]
        moved, seen = moved + fact["moved"], seen + fact["seen"]
    facts = job.files.facts(moving)
    iteration = Iteration(
        inertia=scaled(total_of(digits), job.recipe.rows, seen),
        moved=moved / job.recipe.rows if tells_moves(job.strides, number) else None,
        empty=sum(fact["empty"] for fact in facts),
        refilled=sum(fact["refilled"] for fact in facts),
        seen=seen,
    )
    return replace(_state_of(facts, state.levels), history=(*state.history, iteration))


def _state_of(facts: Sequence[Json], levels: int) -> TrainingState:
    """The state of a training whose centroids were just written, in these pieces."""
    return TrainingState((), tuple(CentroidPiece(**fact["piece"]) for fact in facts), levels)


def _begin(job: TrainingJob, run: Run) -> TrainingState:
    """Start from keys that are drawn; rows that are not all entries are copied together."""
    if job.copies_rows:
        job.keys_array.make()
        run([CopyRows(*unit) for unit in _entry_units(job)])
    entries, states = job.reader.shape.entries, job.recipe.states
    centroids = first_centroids(entries, job.reader.rows, states, job.recipe.seed)
    array = job.centroids_array(0)
    array.make()
    return _state_of([write_piece(array, 0, centroids)], levels=1)


def _entry_units(job: TrainingJob) -> list[tuple[int, int, int]]:
    """Ranges of entries, and how many rows come before each."""
    units, before = [], 0
    for part in job.entry_ranges:
        units.append((part.start, part.stop, before))
        rows = range(part.start, part.stop) if job.draw is None else job.draw.among(*units[-1][:2])
        before += len(rows)
    return units


def _begin_in_cells(job: TrainingJob, run: Run) -> TrainingState:
    """Order the rows by their nearest cells, and split every cell into states."""
    if job.files.of_cells.load() is None:
        finding = [FindCells(0, job.reader.shape.entries)]
        run(finding)
        job.files.of_cells.save(_state_of(job.files.facts(finding), levels=1))
    if not job.files.layout.exists():
        _order_rows(job, run)
    shutil.rmtree(job.files.work / SeeCells.kind, ignore_errors=True)
    if job.draw is not None:
        job.files.seen_cells(job.recipe.rows).path.unlink(missing_ok=True)
    groups = group_cells(np.diff(job.row_offsets), job.unit_rows)
    if not job.files.cells.exists():
        run([WeighCells(*group) for group in groups])
        kept = [job.files.left(WeighCells.kind, unit, "weights") for unit in range(len(groups))]
        weights = np.concatenate([arrays["weights"] for arrays, _ in kept])
        masses = masses_of(weights, np.diff(job.row_offsets))
        job.files.save_offsets(job.files.cells, apportion(masses, job.recipe.states))
    job.centroids_array(0).make()
    splitting = [SplitCells(*group) for group in groups]
    run(splitting)
    above = job.coarse.above
    return _state_of(job.files.facts(splitting), levels=2 if above is None else 1 + above.levels)


def _order_rows(job: TrainingJob, run: Run) -> None:
    """Find the cells that rows see, then write every row to its place among its cell's."""
    units = _entry_units(job)
    job.files.seen_cells(job.recipe.rows).make()
    run([SeeCells(*unit) for unit in units])

    def counts() -> Iterator[Counts]:
        for unit in range(len(units)):
            yield job.files.left(SeeCells.kind, unit, "counts")[0]["counts"]

    places = job.places_array(len(units))
    for array in (places, job.keys_array, job.cells_array):
        array.make()
    places.write((i, row[None]) for i, row in enumerate(places_of_units(counts)))
    run([PlaceRows(*unit, len(units)) for unit in units])
    totals: Counts = sum(counts(), start=np.zeros(len(job.coarse.centres), np.int64))
    job.files.save_offsets(job.files.layout, totals)
