"""What an index is made of, with every `auto` found out, and what building it costs."""

import math
from dataclasses import dataclass
from typing import Any

from retomaton_dist.clustering.samples import passes
from retomaton_dist.search.blocks import RUN_BYTES
from retomaton_dist.search.division import Division
from retomaton_dist.search.factory import Choice
from retomaton_dist.search.library import faiss, ivf_of
from retomaton_dist.search.probe import choose_k
from retomaton_dist.settings import IndexSettings
from retomaton_dist.stages.cost import StageEstimate, Work
from retomaton_dist.stages.index_cells import ITERATIONS
from retomaton_dist.stages.index_worker import ROWS_AT_ONCE

# FAISS: codewords of a part, iterations, and the sample that they are learned from.
PQ_WORDS, PQ_ITERATIONS = 256, 25
PQ_SAMPLE = 256 * PQ_WORDS


@dataclass(frozen=True)
class IndexRecipe:
    """What is made, with every `auto` found out; `empty` is the index before its training."""

    choice: Choice
    empty: Any
    sample: int
    shards: int
    division: Division


def estimate_index(settings: IndexSettings, recipe: IndexRecipe, work: Work) -> StageEstimate:
    """Cells are found by our own k-means and filled in units, which are merged on disk."""
    entries, dimension, rates = work.shape.entries, work.shape.dimension, work.rates
    ivf, inner = ivf_of(recipe.empty), faiss.downcast_index(recipe.empty)
    by_words = ivf is not None and isinstance(faiss.downcast_index(ivf), faiss.IndexIVFPQ)
    cells, words = 0 if ivf is None else int(ivf.nlist), PQ_WORDS if by_words else 0
    entry, unit = float(_entry_bytes(recipe.empty)), min(settings.unit_entries, entries)
    filled, trained = entry * entries, 4.0 * cells * dimension
    neighbours = (settings.recall_k or choose_k(entries)) + 1
    seen = recipe.sample * passes(recipe.sample, max(1, cells), ITERATIONS)
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
        exchanged=4.0 * cells * dimension * ITERATIONS,
    )


def _entry_bytes(index: Any) -> int:
    """Of codes, entry numbers and, in a graph, links."""
    ivf, inner = ivf_of(index), faiss.downcast_index(index)
    if ivf is not None:
        return int(ivf.code_size) + 8
    if isinstance(inner, faiss.IndexHNSW):
        return int(inner.storage.sa_code_size()) + 4 * int(inner.hnsw.nb_neighbors(0))
    try:
        return int(index.sa_code_size())
    except RuntimeError:
        return 4 * int(index.d)
