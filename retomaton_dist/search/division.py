"""What of an index can be made in parts, by many workers at once: training, filling, or neither.

Filling can, where an index is inverted lists of codes and nothing else (`blocks.py`), below
whatever transforms keys first. Training can, where it is cells and then a codec of residuals
(`codebooks.py`), and no transform has to be learned before. Any other index is trained by one
worker, or filled a shard at a time.
"""

from dataclasses import dataclass
from typing import Any

from retomaton_dist.search.library import faiss

# Exactly these: what derives from them (IVFPQR, FlatDedup) holds more than lists of codes.
_LISTS_OF_CODES = (faiss.IndexIVFFlat, faiss.IndexIVFScalarQuantizer, faiss.IndexIVFPQ)
# How FAISS says that cells are found by k-means, and not in a way of their quantiser's own.
_BY_KMEANS = ("\0", "\2")


@dataclass(frozen=True)
class Division:
    """Whether an index is trained in parts, and whether shards are filled in blocks."""

    training: bool
    filling: bool


UNDIVIDED = Division(training=False, filling=False)


def division_of(index: Any) -> Division:
    """What of this empty index can be made in parts."""
    outer = inner = faiss.downcast_index(index)
    while isinstance(inner, faiss.IndexPreTransform):
        inner = faiss.downcast_index(inner.index)
    if type(inner) not in _LISTS_OF_CODES:
        return UNDIVIDED
    by_kmeans = inner.quantizer_trains_alone in _BY_KMEANS and inner.quantizer.is_trained
    return Division(training=outer is inner and bool(by_kmeans), filling=True)


def trained_how(index: Any, division: Division) -> str:
    """How an index is trained, in the words of `index.json`: in parts, whole, or not at all."""
    if division.training:
        return "in parts"
    return "not" if index.is_trained else "whole"
