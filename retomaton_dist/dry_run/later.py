"""What the stages after extraction would take: from the work they have to do and measured rates.

Disk is what a stage leaves (greedy merging needs more while it runs), memory is that of all
workers at its peak, and time leaves out the starting of workers.
"""

import math
from dataclasses import dataclass
from typing import Any

from retomaton_dist.automaton.pieces import BLOCK_BYTES
from retomaton_dist.clustering.greedy import EXACT_ENTRIES
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.two_level import TwoLevel
from retomaton_dist.dry_run.probes import Rates, Sizes
from retomaton_dist.search.library import faiss, ivf_of
from retomaton_dist.search.probe import choose_k
from retomaton_dist.settings import BuildSettings
from retomaton_dist.stages import codec as encoding
from retomaton_dist.stages import index as indexing
from retomaton_dist.stages.codec import CodecRecipe
from retomaton_dist.stages.kmeans_job import SUMS_MEMORY
from retomaton_dist.stages.kmeans_recipe import Recipe, resolve
from storage.automaton import AutomatonShape
from storage.datastore import Shape
from storage.suffixes import SuffixShape

# Of an entry whose place in context order is being found.
SORTING_BYTES = 80
MOST_AT_ONCE = Blocking().states
FAISS_ITERATIONS = 10
CODEC_ITERATIONS = 12
PQ_WORDS = 256
PQ_SAMPLE, PQ_ITERATIONS = 256 * PQ_WORDS, 25


@dataclass(frozen=True)
class StageEstimate:
    """What one stage would leave and need; `seconds` is infinite where nobody knows."""

    stage: str
    makes: str
    disk: float
    memory: float
    seconds: float
    timing: str = "derived"


@dataclass(frozen=True)
class Work:
    """What there is to do: entries in chunks, of so many tokens, by workers of these rates."""

    shape: Shape
    workers: int
    rates: Rates
    vocabulary: int

    @property
    def key_bytes(self) -> int:
        """Size of all keys."""
        return 2 * self.shape.entries * self.shape.dimension

    def hashing(self, size: float) -> float:
        """Seconds in which all workers together check so many bytes."""
        return size / (self.rates.hashed * self.workers)

    def memory(self, own: float, workers: int | None = None) -> float:
        """Bytes of workers that hold so much each, beside what any worker holds."""
        return (self.rates.worker_bytes + own) * (workers or self.workers)


def estimate_later(settings: BuildSettings, work: Work) -> list[StageEstimate]:
    """Estimate every stage after extraction, in the order in which they run."""
    recipe = _recipe(settings, work.shape)
    states, clustered = _cluster(settings, work)
    coded = [_codec(recipe, work)] if settings.compile.codec == "pq" else []
    compiled = _automaton(settings, recipe, states, work)
    return [clustered, _index(settings, work), *coded, compiled, _suffix(settings, work)]


def choose_sizes(settings: BuildSettings, shape: Shape) -> Sizes:
    """What is to be timed for these settings."""
    return Sizes(shape.dimension, _states_at_once(settings, shape), _recipe(settings, shape))


def _states_at_once(settings: BuildSettings, shape: Shape) -> int:
    """States that a row is multiplied with at a time: the fewer, the less is got from it."""
    if settings.cluster.algorithm != "kmeans":
        return MOST_AT_ONCE
    recipe = resolve(settings.cluster, shape)
    states = math.isqrt(recipe.states) if recipe.two_level else recipe.states
    return min(states, MOST_AT_ONCE)


def _recipe(settings: BuildSettings, shape: Shape) -> CodecRecipe:
    """The codec that would be made; for fp16, the one that would be made otherwise."""
    size = settings.compile.code_size if settings.compile.codec == "pq" else None
    return encoding.resolve(shape.entries, shape.dimension, size)


def _cluster(settings: BuildSettings, work: Work) -> tuple[int, StageEstimate]:
    """The number of states, at most, and what finding them takes."""
    entries, name = work.shape.entries, f"states/{settings.cluster.clustering}"
    if settings.cluster.algorithm == "none":
        return entries, StageEstimate("cluster", f"{name}: every entry", 0, 0, 0)
    if settings.cluster.algorithm == "greedy":
        return entries, _greedy(name, settings.cluster.neighbours, work)
    recipe = resolve(settings.cluster, work.shape)
    return recipe.states, _kmeans(name, recipe, work)


def _kmeans(name: str, recipe: Recipe, work: Work) -> StageEstimate:
    entries, dimension = work.shape.entries, work.shape.dimension
    products = (_two_level if recipe.two_level else _plain)(recipe, entries) * dimension
    centroids = 4 * recipe.states * dimension
    drawn = 0 if recipe.rows == entries else 2 * recipe.rows * dimension / work.workers
    return StageEstimate(
        stage="cluster",
        makes=f"{name}: {recipe.states:,} states, at most {recipe.iterations} iterations",
        disk=4 * entries + centroids + 8 * recipe.states,
        memory=work.memory(drawn + 2 * centroids + min(SUMS_MEMORY, 2 * centroids)),
        seconds=products / (work.rates.products * work.workers) + work.hashing(2 * work.key_bytes),
    )


def _plain(recipe: Recipe, entries: int) -> float:
    """Pairs of a row and a state that plain k-means compares."""
    return (recipe.rows * recipe.iterations + entries) * recipe.states


def _two_level(recipe: Recipe, entries: int) -> float:
    """Pairs that are compared where each row sees only the cells near to it."""
    settings, cells = TwoLevel(), math.sqrt(recipe.states)
    sample = min(recipe.rows, settings.rows_per_state * cells)
    split = min(recipe.rows, settings.rows_per_state * recipe.states)
    start = (sample + split) * cells * settings.split_iterations + recipe.rows * cells
    passes = recipe.rows * recipe.iterations + entries
    return start + passes * (1 + settings.probes) * cells


def _greedy(name: str, neighbours: int, work: Work) -> StageEstimate:
    entries, dimension = work.shape.entries, work.shape.dimension
    exact = entries <= EXACT_ENTRIES
    pairs = entries * entries * dimension / (work.rates.products * work.workers)
    return StageEstimate(
        stage="cluster",
        makes=f"{name}: merged with up to {neighbours} neighbours",
        disk=(4 + 8 + 8 + 8 * neighbours) * entries,
        memory=work.memory(10 * dimension * entries if exact else 0),
        seconds=pairs + work.hashing(work.key_bytes) if exact else math.inf,
    )


def _index(settings: BuildSettings, work: Work) -> StageEstimate:
    chosen, shape = settings.index, work.shape
    recipe = indexing.resolve(chosen, shape)
    empty, shards = recipe.empty, recipe.shards
    k = chosen.recall_k or choose_k(shape.entries)
    exact = 12 * chosen.recall_queries * (k + 1) * shards
    workers = min(work.workers, shards)
    filled = _entry_bytes(empty) * shape.entries + shards * _trained_bytes(empty)
    training = work.memory(8 * recipe.sample * shape.dimension, 1)
    plural = "s" * (shards > 1)
    return StageEstimate(
        stage="index",
        makes=f"index/{chosen.name}: {recipe.choice.factory}, {shards:,} shard{plural}",
        disk=filled + _trained_bytes(empty) + exact,
        memory=max(training, work.memory(filled / shards, workers)),
        seconds=_index_seconds(empty, recipe.sample, chosen.recall_queries, workers, work)
        + work.hashing(work.key_bytes + filled) * work.workers / workers,
    )


def _index_seconds(index: Any, sample: int, queries: int, workers: int, work: Work) -> float:
    """Training by one worker, then filling and finding exact neighbours by one per shard."""
    ivf, inner = ivf_of(index), faiss.downcast_index(index)
    if ivf is None and not isinstance(inner, faiss.IndexFlat):
        return math.inf
    cells = 0 if ivf is None else int(ivf.nlist)
    words = PQ_WORDS if isinstance(faiss.downcast_index(ivf), faiss.IndexIVFPQ) else 0
    trained = sample * cells * FAISS_ITERATIONS + PQ_SAMPLE * words * PQ_ITERATIONS
    filled = work.shape.entries * (queries + cells + words)
    return (trained + filled / workers) * work.shape.dimension / work.rates.searched


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


def _trained_bytes(index: Any) -> int:
    """Mostly the centroids of the cells, of which every shard has a copy."""
    ivf = ivf_of(index)
    return 0 if ivf is None else 4 * int(ivf.nlist) * int(index.d)


def _codec(recipe: CodecRecipe, work: Work) -> StageEstimate:
    entries, dimension = work.shape.entries, work.shape.dimension
    training = work.memory(24 * recipe.sample * dimension, 1)
    unit = min(encoding.UNIT_ENTRIES, entries)
    alone = CODEC_ITERATIONS * recipe.sample / work.rates.encoded
    return StageEstimate(
        stage="compile",
        makes=f"codecs/{recipe.name}: {recipe.code_size} bytes per entry, {recipe.cells:,} cells",
        disk=(recipe.code_size + 2 + 4) * entries + 4 * (recipe.cells + PQ_WORDS) * dimension,
        memory=max(training, work.memory(12 * unit * dimension)),
        seconds=alone
        + entries / (work.rates.encoded * work.workers)
        + work.hashing(work.key_bytes),
    )


def _automaton(
    settings: BuildSettings, recipe: CodecRecipe, states: int, work: Work
) -> StageEstimate:
    entries, dimension, codec = work.shape.entries, work.shape.dimension, settings.compile.codec
    sizes = (recipe.code_size, recipe.cells) if codec == "pq" else (0, 0)
    shape = AutomatonShape(entries, states, dimension, codec, *sizes)
    disk = sum(kind.itemsize * length for kind, length in shape.columns().values())
    unit = min(settings.compile.unit_entries, entries)
    row = recipe.code_size if codec == "pq" else 2 * dimension
    return StageEstimate(
        stage="compile",
        makes=f"automata/{settings.compile.automaton}: {disk / entries:.0f} bytes per entry",
        disk=disk,
        memory=work.memory(48 * unit + min(BLOCK_BYTES, row * unit) + 8 * states),
        seconds=entries / (work.rates.placed * work.workers)
        + work.hashing(disk)
        + disk / work.rates.hashed,
    )


def _suffix(settings: BuildSettings, work: Work) -> StageEstimate:
    entries, chosen = work.shape.entries, settings.suffix
    shape = SuffixShape(entries, work.vocabulary, chosen.longest)
    disk = sum(kind.itemsize * length for kind, length in shape.columns().values())
    return StageEstimate(
        stage="suffix",
        makes=f"suffixes/{chosen.name}: {disk / entries:.0f} bytes per entry",
        disk=disk,
        memory=work.memory(SORTING_BYTES * min(chosen.unit_entries, entries)),
        seconds=entries / (work.rates.ordered * work.workers) + disk / work.rates.hashed,
    )
