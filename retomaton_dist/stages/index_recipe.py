"""What an index is made of, with every `auto` found out, and what building it costs."""

import math
from dataclasses import dataclass
from typing import Any

from retomaton_dist.clustering.samples import passes
from retomaton_dist.errors import BadInput
from retomaton_dist.search import parameters
from retomaton_dist.search.blocks import RUN_BYTES
from retomaton_dist.search.factory import (
    Choice,
    Division,
    check_trainable,
    choose_factory,
    choose_sample,
    choose_shards,
    code_bytes,
    division_of,
    make_index,
)
from retomaton_dist.search.library import faiss, ivf_of
from retomaton_dist.search.probe import choose_k
from retomaton_dist.settings import IndexSettings
from retomaton_dist.stages.cost import StageEstimate, Work
from retomaton_dist.storage.datastore import Shape

# Of our k-means: as many as FAISS takes for its own cells.
CELL_ITERATIONS = 10
# Keys that are read as float32 at once.
ROWS_AT_ONCE = 65_536
# FAISS: codewords of a part, iterations, and the sample that they are learned from.
PQ_WORDS, PQ_ITERATIONS = 256, 25
PQ_SAMPLE = 256 * PQ_WORDS


@dataclass(frozen=True)
class IndexRecipe:
    """What is made, trained on how many entries, in how many shards, and which of it in parts."""

    choice: Choice
    sample: int
    shards: int
    division: Division


def resolve(settings: IndexSettings, shape: Shape) -> IndexRecipe:
    """Fill in what is `auto` and refuse what does not fit so many entries."""
    choice = choose_factory(shape.entries, shape.dimension)
    if settings.factory is not None:
        choice = Choice(settings.factory, "as asked for")
    empty = make_index(choice.factory, shape.dimension, shape.entries)
    check_trainable(choice.factory, empty, shape.entries, settings.sample)
    parameters.apply(empty, fixed_parameters(settings))
    sample = choose_sample(empty, shape.entries)
    if settings.sample is not None:
        sample = min(sample and settings.sample, shape.entries)
    shards = settings.shards or choose_shards(empty, shape.entries, shape.chunks)
    if shards > shape.chunks:
        raise BadInput(
            f"--shards {shards}: shards are made of whole chunks, of which there are "
            f"{shape.chunks}; use at most so many"
        )
    return IndexRecipe(choice, sample, shards, division_of(empty))


def fixed_parameters(settings: IndexSettings) -> dict[str, float]:
    """The search parameters that the user sets."""
    given = parameters.parse(settings.parameters or "")
    return given if settings.nprobe is None else {**given, "nprobe": settings.nprobe}


def estimate_index(settings: IndexSettings, work: Work) -> StageEstimate:
    """Cells are found by our own k-means and filled in units, which are merged on disk."""
    recipe = resolve(settings, work.shape)
    entries, dimension, rates = work.shape.entries, work.shape.dimension, work.rates
    empty = make_index(recipe.choice.factory, dimension, entries)
    ivf, inner = ivf_of(empty), faiss.downcast_index(empty)
    by_words = ivf is not None and isinstance(faiss.downcast_index(ivf), faiss.IndexIVFPQ)
    cells, words = 0 if ivf is None else int(ivf.nlist), PQ_WORDS if by_words else 0
    entry, unit = float(_entry_bytes(empty)), min(settings.unit_entries, entries)
    filled, trained = entry * entries, 4.0 * cells * dimension
    neighbours = (settings.recall_k or choose_k(entries)) + 1
    seen = recipe.sample * passes(recipe.sample, max(1, cells), CELL_ITERATIONS)
    compared = (settings.recall_queries + cells + words) * dimension / rates.searched
    spent = seen * cells * dimension / rates.products + entries * compared
    spent += (work.key_bytes + 2 * filled) / rates.hashed
    alone = PQ_SAMPLE * words * PQ_ITERATIONS * dimension / rates.searched
    reads = 2.0 * recipe.sample * dimension + work.key_bytes + filled
    known = ivf is not None or isinstance(inner, faiss.IndexFlat)
    shards = f"{recipe.shards:,} shard{'s' * (recipe.shards > 1)}"
    in_memory = 3 * (entry * unit + 4.0 * ROWS_AT_ONCE * dimension) + 4 * RUN_BYTES
    exact = 12.0 * settings.recall_queries * neighbours * recipe.shards
    return StageEstimate(
        stage="index",
        makes=f"index/{settings.name}: {recipe.choice.factory}, {shards}",
        disk=filled + (recipe.shards + 1) * trained + exact,
        memory=work.memory(in_memory + 2 * trained),
        workers=work.workers,
        core_seconds=spent if known else math.inf,
        alone=alone,
        unit=max(alone, unit * compared),
        reads=reads,
        passes=(reads - filled) / work.key_bytes,
        scratch=filled,
        exchanged=4.0 * cells * dimension * CELL_ITERATIONS,
    )


def _entry_bytes(index: Any) -> int:
    """Of codes, entry numbers and, in a graph, links."""
    ivf, inner = ivf_of(index), faiss.downcast_index(index)
    if ivf is not None:
        return int(ivf.code_size) + 8
    if isinstance(inner, faiss.IndexHNSW):
        return int(inner.storage.sa_code_size()) + 4 * int(inner.hnsw.nb_neighbors(0))
    return code_bytes(index)
