"""Training a k-means: rounds of units over the session's workers, resumed where they were.

The driver holds a few numbers per cell and per unit. Rows, centroids and sums lie in files that
workers map; what they leave there depends on the keys and the recipe alone.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from retomaton_dist.clustering.arrays import Counts, blocks_of
from retomaton_dist.clustering.cell_order import group_cells, places_of_units
from retomaton_dist.clustering.draw import draw, first_centroids
from retomaton_dist.clustering.lloyd import Iteration, Stop, scaled, stopped
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.sums import total_of
from retomaton_dist.clustering.tally import Norms, spread_unit
from retomaton_dist.clustering.two_level import apportion, masses_of
from retomaton_dist.runtime.session import Session
from retomaton_dist.stages.kmeans_files import CentroidPiece, TrainingFiles, TrainingState, checked
from retomaton_dist.stages.kmeans_job import (
    Trained,
    TrainingJob,
    open_trained,
    save_offsets,
)
from retomaton_dist.stages.kmeans_recipe import Recipe, is_for_one, recipe_of_cells
from retomaton_dist.stages.kmeans_units import (
    AssignRows,
    CopyRows,
    FindCells,
    MoveRange,
    PlaceRows,
    SeeCells,
    SplitCells,
    TrainingUnit,
    TrainingWorker,
    WeighCells,
    piece_facts,
)
from retomaton_dist.storage import checkpoint
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.guarded import GuardedReader

Show = Callable[[Sequence[Iteration]], None]
Run = Callable[[Sequence[TrainingUnit]], None]


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
    stop, reached = Stop(recipe.iterations, tolerance), files.load()
    if reached is None or not stopped(reached.history, stop):
        job = _job(reader, recipe, files, blocking)
        if reached is None:
            _train_cells(session, job)
        with session.pool(partial(TrainingWorker, job), gpu=blocking.device == "cuda") as pool:
            _iterate(job, reached, stop, partial(_run_missing, job, pool), show)
    return open_trained(reader, files)


def _job(
    reader: GuardedReader, recipe: Recipe, files: TrainingFiles, blocking: Blocking
) -> TrainingJob:
    entries = reader.shape.entries
    drawn = None if recipe.rows == entries else draw(entries, recipe.rows, recipe.seed)
    return TrainingJob(reader, recipe, files, drawn, blocking)


def _train_cells(session: Session, job: TrainingJob) -> None:
    """Find the cells by a k-means of their own, if there are to be any, and many."""
    recipe = recipe_of_cells(job.recipe, job.dimension)
    if job.recipe.two_level and not is_for_one(recipe, job.reader.shape):
        train_centroids(session, job.reader, recipe, job.files.of_cells, job.blocking)


def _run_missing(job: TrainingJob, pool: Any, units: Sequence[TrainingUnit]) -> None:
    """Have those units done that were not done before this run was started."""
    missing = [unit for unit in units if not unit.record(job.files).exists()]
    numbers = [unit.number for unit in missing]
    for _ in pool.run(missing, numbers, lambda unit: unit.record(job.files).exists()):
        pass


def _iterate(
    job: TrainingJob, reached: TrainingState | None, stop: Stop, run: Run, show: Show
) -> None:
    """Iterate until `stop` says so; a checkpoint follows every iteration."""
    if reached is None:
        state = (_begin_in_cells if job.recipe.two_level else _begin)(job, run)
        job.files.save(state)
    else:
        state = reached
        checked(job.centroids_array(len(state.history)), state.pieces)
    while not stopped(state.history, stop):
        state = _step(job, state, run)
        job.files.save(state)
        job.files.forget_before(len(state.history) - 1)
        show(state.history)


def _step(job: TrainingJob, state: TrainingState, run: Run) -> TrainingState:
    """Assign the rows that are seen, then move every centroid, some whole cells at a time."""
    number, unit = len(state.history), state.spread_unit
    stride, whole = job.strides[number], all(s == 1 for s in job.strides[: number + 1][-2:])
    sight = unit, stride, whole and number > 0
    rows = blocks_of(job.recipe.rows, job.span(stride))
    assigning = [AssignRows(i, r.start, r.stop, number, *sight) for i, r in enumerate(rows)]
    run(assigning)
    job.centroids_array(number + 1).make()
    groups = _groups_of_states(job)
    moving = [MoveRange(i, *g, number, unit, len(assigning)) for i, g in enumerate(groups)]
    run(moving)
    digits, moved, seen = _assigned(job, assigning)
    facts = _facts_of(job, moving)
    iteration = Iteration(
        inertia=scaled(total_of(digits), job.recipe.rows, seen),
        moved=moved / job.recipe.rows if whole else None,
        empty=sum(fact["empty"] for fact in facts),
        refilled=sum(fact["refilled"] for fact in facts),
        seen=seen,
    )
    return replace(_state_of(facts, state.levels), history=(*state.history, iteration))


def _groups_of_states(job: TrainingJob) -> list[tuple[int, int]]:
    """Cut the cells into groups whose states are moved together; without cells all are one."""
    if not job.recipe.two_level:
        return [(0, 1)]
    return group_cells(np.diff(job.state_offsets), job.range_states)


def _assigned(job: TrainingJob, units: Sequence[AssignRows]) -> tuple[Counts, int, int]:
    """What the units add up to: distances, rows that moved, rows that were seen."""
    digits, moved, seen = np.zeros(1, np.int64), 0, 0
    for unit in units:
        arrays, facts = checkpoint.load_part(unit.record(job.files), ("digits",))
        digits = digits + arrays["digits"]
        moved, seen = moved + facts["moved"], seen + facts["seen"]
    return digits, moved, seen


def _facts_of(job: TrainingJob, units: Sequence[TrainingUnit]) -> list[Json]:
    return [checkpoint.load_part(unit.record(job.files), ())[1] for unit in units]


def _state_of(facts: Sequence[Json], levels: int) -> TrainingState:
    """The state of a training whose centroids were just written, in these pieces."""
    norms = [Norms(**fact["norms"]) for fact in facts]
    total = Norms(sum(n.count for n in norms), sum(n.squares for n in norms))
    pieces = tuple(CentroidPiece(**fact["piece"]) for fact in facts)
    return TrainingState((), spread_unit(total), pieces, levels)


def _begin(job: TrainingJob, run: Run) -> TrainingState:
    """Start from keys that are drawn; rows that are not all entries are copied together."""
    if job.copies_rows:
        job.keys_array.make()
        run(list(_copying(job)))
    entries, states = job.reader.shape.entries, job.recipe.states
    centroids = first_centroids(entries, job.reader.rows, states, job.recipe.seed)
    array = job.centroids_array(0)
    array.make()
    array.write([(0, centroids)])
    return _state_of([piece_facts(0, centroids)], levels=1)


def _copying(job: TrainingJob) -> Iterator[CopyRows]:
    assert job.draw is not None
    place = 0
    for number, (first, last) in enumerate(_entry_units(job)):
        yield CopyRows(number, first, last, place)
        place += len(job.draw.among(first, last))


def _entry_units(job: TrainingJob) -> list[tuple[int, int]]:
    """Cut the entries into units of whole chunks, each with a unit's rows among them."""
    shape = job.reader.shape
    wanted = job.unit_rows * shape.entries // job.recipe.rows
    size = max(1, wanted // shape.chunk_entries) * shape.chunk_entries
    return [(part.start, part.stop) for part in blocks_of(shape.entries, size)]


def _begin_in_cells(job: TrainingJob, run: Run) -> TrainingState:
    """Order the rows by their nearest cells, and split every cell into states."""
    if job.files.of_cells.load() is None:
        finding = [FindCells(0, 0, job.reader.shape.entries)]
        run(finding)
        job.files.of_cells.save(_state_of(_facts_of(job, finding), levels=1))
    if not job.files.layout.exists():
        _order_rows(job, run)
    shutil.rmtree(job.files.near, ignore_errors=True)
    groups = group_cells(np.diff(job.row_offsets), job.unit_rows)
    if not job.files.cells.exists():
        weighing = [WeighCells(number, *group) for number, group in enumerate(groups)]
        run(weighing)
        found = [checkpoint.load_part(u.record(job.files), ("weights",))[0] for u in weighing]
        weights = np.concatenate([arrays["weights"] for arrays in found])
        masses = masses_of(weights, np.diff(job.row_offsets))
        states = apportion(masses, job.recipe.states)
        save_offsets(job.files.cells, job.files.config_hash, states)
    job.centroids_array(0).make()
    splitting = [SplitCells(number, *group) for number, group in enumerate(groups)]
    run(splitting)
    above = job.coarse.above
    return _state_of(_facts_of(job, splitting), levels=2 if above is None else 1 + above.levels)


def _order_rows(job: TrainingJob, run: Run) -> None:
    """Find the cells that rows see, then write every row to its place among its cell's."""
    units = _entry_units(job)
    seeing = [SeeCells(number, *unit) for number, unit in enumerate(units)]
    run(seeing)

    def counts() -> Iterator[Counts]:
        for unit in seeing:
            yield checkpoint.load_part(unit.record(job.files), ("counts",))[0]["counts"]

    cells = len(job.coarse.centres)
    places = job.files.places(len(units), cells)
    places.make()
    places.write((i, row[None]) for i, row in enumerate(places_of_units(counts)))
    job.keys_array.make()
    job.cells_array.make()
    run([PlaceRows(number, *unit, len(units)) for number, unit in enumerate(units)])
    totals: Counts = sum(counts(), start=np.zeros(cells, np.int64))
    save_offsets(job.files.layout, job.files.config_hash, totals)
