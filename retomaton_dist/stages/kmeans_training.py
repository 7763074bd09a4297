"""Training a k-means: rounds of units over the session's workers, resumed where they were.

The driver holds a few numbers per cell and per unit. Rows, centroids and sums lie in files that
workers map; what they leave there depends on the keys and the recipe alone.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from retomaton_dist.clustering.arrays import Counts, blocks_of
from retomaton_dist.clustering.cell_order import group_cells, places_of_units
from retomaton_dist.clustering.draw import draw, first_centroids
from retomaton_dist.clustering.lloyd import Iteration, Stop, scaled, stopped
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.sums import total_of
from retomaton_dist.clustering.tally import Norms, spread_unit
from retomaton_dist.clustering.two_level import apportion, masses_of
from retomaton_dist.runtime.progress import showing
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
from retomaton_dist.stages.runner import open_rounds
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
        make, gpu = partial(TrainingWorker, job), blocking.device == "cuda"
        with open_rounds(session, make, files, gpu=gpu) as run:
            _iterate(job, reached, stop, run, show)
    return open_trained(reader, files)


def train_shown(
    title: str,
    session: Session,
    reader: GuardedReader,
    recipe: Recipe,
    files: TrainingFiles,
    blocking: Blocking,
) -> None:
    """The same, iteration by iteration shown as progress."""
    reached, mode = files.load(), session.settings.progress
    before = len(reached.history) if reached else 0
    with showing(mode, title, recipe.iterations, "iterations", before) as progress:

        def show(history: Sequence[Iteration]) -> None:
            last = history[-1]
            moved = {} if last.moved is None else {"moved": f"{last.moved:.1%}"}
            numbers: Json = {"inertia": f"{last.inertia:.5g}", **moved, "empty": last.empty}
            progress.advance(len(history) - progress.done, numbers)

        train_centroids(session, reader, recipe, files, blocking, show)


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
    number, unit, two_level = len(state.history), state.spread_unit, job.recipe.two_level
    stride, whole = job.strides[number], all(s == 1 for s in job.strides[: number + 1][-2:])
    sight = unit, stride, whole and number > 0
    rows = blocks_of(job.recipe.rows, job.span(stride))
    assigning = [AssignRows(r.start, r.stop, i, number, *sight) for i, r in enumerate(rows)]
    run(assigning)
    job.centroids_array(number + 1).make()
    # Without cells, all states are one.
    groups = group_cells(np.diff(job.state_offsets), job.range_states) if two_level else [(0, 1)]
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
        moved=moved / job.recipe.rows if whole else None,
        empty=sum(fact["empty"] for fact in facts),
        refilled=sum(fact["refilled"] for fact in facts),
        seen=seen,
    )
    return replace(_state_of(facts, state.levels), history=(*state.history, iteration))


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
        assert job.draw is not None, "plain k-means over all entries needs no copy"
        copying, place = [], 0
        for unit in _entry_units(job):
            copying.append(CopyRows(*unit, place))
            place += len(job.draw.among(*unit))
        run(copying)
    entries, states = job.reader.shape.entries, job.recipe.states
    centroids = first_centroids(entries, job.reader.rows, states, job.recipe.seed)
    array = job.centroids_array(0)
    array.make()
    array.write([(0, centroids)])
    return _state_of([piece_facts(0, centroids)], levels=1)


def _entry_units(job: TrainingJob) -> list[tuple[int, int]]:
    """Cut the entries into units of whole chunks, each with a unit's rows among them."""
    shape = job.reader.shape
    wanted = job.unit_rows * shape.entries // job.recipe.rows
    size = max(1, wanted // shape.chunk_entries) * shape.chunk_entries
    return [(part.start, part.stop) for part in blocks_of(shape.entries, size)]


def _begin_in_cells(job: TrainingJob, run: Run) -> TrainingState:
    """Order the rows by their nearest cells, and split every cell into states."""
    if job.files.of_cells.load() is None:
        finding = [FindCells(0, job.reader.shape.entries)]
        run(finding)
        job.files.of_cells.save(_state_of(job.files.facts(finding), levels=1))
    if not job.files.layout.exists():
        _order_rows(job, run)
    shutil.rmtree(job.files.near, ignore_errors=True)
    groups = group_cells(np.diff(job.row_offsets), job.unit_rows)
    if not job.files.cells.exists():
        run([WeighCells(*group) for group in groups])
        kept = [job.files.left(WeighCells.kind, unit, "weights") for unit in range(len(groups))]
        weights = np.concatenate([arrays["weights"] for arrays, _ in kept])
        masses = masses_of(weights, np.diff(job.row_offsets))
        states = apportion(masses, job.recipe.states)
        save_offsets(job.files.cells, job.files.config_hash, states)
    job.centroids_array(0).make()
    splitting = [SplitCells(*group) for group in groups]
    run(splitting)
    above = job.coarse.above
    return _state_of(job.files.facts(splitting), levels=2 if above is None else 1 + above.levels)


def _order_rows(job: TrainingJob, run: Run) -> None:
    """Find the cells that rows see, then write every row to its place among its cell's."""
    units = _entry_units(job)
    run([SeeCells(*unit) for unit in units])

    def counts() -> Iterator[Counts]:
        for unit in range(len(units)):
            yield job.files.left(SeeCells.kind, unit, "counts")[0]["counts"]

    cells = len(job.coarse.centres)
    places = job.files.places(len(units), cells)
    places.make()
    places.write((i, row[None]) for i, row in enumerate(places_of_units(counts)))
    job.keys_array.make()
    job.cells_array.make()
    run([PlaceRows(*unit, number, len(units)) for number, unit in enumerate(units)])
    totals: Counts = sum(counts(), start=np.zeros(cells, np.int64))
    save_offsets(job.files.layout, job.files.config_hash, totals)
