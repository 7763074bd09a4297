"""What the stages after extraction would take: settings become sizes, `costs.py` does the rest."""

from typing import Any

from retomaton_dist.clustering.greedy import EXACT_ENTRIES
from retomaton_dist.clustering.products import Blocking
from retomaton_dist.clustering.two_level import cells_for
from retomaton_dist.dry_run import costs
from retomaton_dist.dry_run.costs import IndexSizes, KmeansSizes, StageEstimate, Work
from retomaton_dist.dry_run.probes import Sizes
from retomaton_dist.search.library import faiss, ivf_of
from retomaton_dist.search.probe import choose_k
from retomaton_dist.settings import BuildSettings, ClusterSettings, IndexSettings
from retomaton_dist.stages import codec as encoding
from retomaton_dist.stages import index as indexing
from retomaton_dist.stages.codec import CodecRecipe
from retomaton_dist.stages.kmeans_recipe import resolve
from retomaton_dist.storage.automaton import AutomatonShape
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.suffixes import SuffixShape

MOST_AT_ONCE = Blocking().states


def estimate_later(settings: BuildSettings, work: Work) -> list[StageEstimate]:
    """Estimate every stage after extraction, in the order in which they run."""
    recipe = _recipe(settings, work.shape)
    states, clustered = _cluster(settings.cluster, work)
    sizes = recipe.name, recipe.code_size, recipe.cells, recipe.sample
    coded = [costs.codec(*sizes, work)] if settings.compile.codec == "pq" else []
    compiled = _automaton(settings, recipe, states, work)
    last = _suffix(settings, work), costs.statistics(work)
    return [clustered, _index(settings.index, work), *coded, compiled, *last]


def choose_sizes(settings: BuildSettings, shape: Shape) -> Sizes:
    """What is to be timed for these settings."""
    return Sizes(shape.dimension, _states_at_once(settings, shape), _recipe(settings, shape))


def _states_at_once(settings: BuildSettings, shape: Shape) -> int:
    """States that a row is multiplied with at a time: the fewer, the less is got from it."""
    if settings.cluster.algorithm != "kmeans":
        return MOST_AT_ONCE
    sizes = kmeans_sizes(settings.cluster, shape)
    at_once = sizes.states if sizes.plain else max(1, sizes.states // cells_for(sizes.states))
    return min(at_once, MOST_AT_ONCE)


def _recipe(settings: BuildSettings, shape: Shape) -> CodecRecipe:
    """The codec that would be made; for fp16, the one that would be made otherwise."""
    size = settings.compile.code_size if settings.compile.codec == "pq" else None
    return encoding.resolve(shape.entries, shape.dimension, size)


def kmeans_sizes(settings: ClusterSettings, shape: Shape) -> KmeansSizes:
    """What k-means of these settings has to do."""
    recipe = resolve(settings, shape)
    return KmeansSizes(recipe.states, recipe.rows, recipe.iterations, not recipe.two_level)


def _cluster(settings: ClusterSettings, work: Work) -> tuple[int, StageEstimate]:
    """The number of states, at most, and what finding them takes."""
    entries, name = work.shape.entries, f"states/{settings.clustering}"
    if settings.algorithm == "none":
        return entries, StageEstimate("cluster", f"{name}: every entry", 0, 0, work.workers, 0)
    if settings.algorithm == "greedy":
        exact = entries <= EXACT_ENTRIES
        return entries, costs.greedy(name, settings.neighbours, exact, work)
    sizes = kmeans_sizes(settings, work.shape)
    return sizes.states, costs.kmeans(name, sizes, work)


def _index(settings: IndexSettings, work: Work) -> StageEstimate:
    recipe, entries = indexing.resolve(settings, work.shape), work.shape.entries
    ivf, inner = ivf_of(recipe.empty), faiss.downcast_index(recipe.empty)
    by_words = ivf is not None and isinstance(faiss.downcast_index(ivf), faiss.IndexIVFPQ)
    sizes = IndexSizes(
        cells=0 if ivf is None else int(ivf.nlist),
        entry_bytes=_entry_bytes(recipe.empty),
        words=costs.PQ_WORDS if by_words else 0,
        sample=recipe.sample,
        shards=recipe.shards,
        queries=settings.recall_queries,
        neighbours=settings.recall_k or choose_k(entries),
        known=ivf is not None or isinstance(inner, faiss.IndexFlat),
    )
    shards = f"{recipe.shards:,} shard{'s' * (recipe.shards > 1)}"
    makes = f"index/{settings.name}: {recipe.choice.factory}, {shards}"
    return costs.index(makes, sizes, work)


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


def _automaton(
    settings: BuildSettings, recipe: CodecRecipe, states: int, work: Work
) -> StageEstimate:
    entries, dimension, codec = work.shape.entries, work.shape.dimension, settings.compile.codec
    sizes = (recipe.code_size, recipe.cells) if codec == "pq" else (0, 0)
    shape = AutomatonShape(entries, states, dimension, codec, *sizes)
    disk = float(sum(kind.itemsize * length for kind, length in shape.columns().values()))
    row = recipe.code_size + 6 if codec == "pq" else 2 * dimension
    makes = f"automata/{settings.compile.automaton}: {disk / entries:.0f} bytes per entry"
    return costs.automaton(makes, disk, row, states, settings.compile.unit_entries, work)


def _suffix(settings: BuildSettings, work: Work) -> StageEstimate:
    entries, chosen = work.shape.entries, settings.suffix
    shape = SuffixShape(entries, work.vocabulary, chosen.longest)
    disk = float(sum(kind.itemsize * length for kind, length in shape.columns().values()))
    makes = f"suffixes/{chosen.name}: {disk / entries:.0f} bytes per entry"
    return costs.suffix(makes, disk, chosen.unit_entries, work)
