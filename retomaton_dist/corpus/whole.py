"""A corpus as a list of documents in memory: for training, where the text must fit anyway."""

from retomaton_dist.corpus.documents import read_documents
from retomaton_dist.corpus.pieces import choose_split, plan_units
from retomaton_dist.corpus.sources import find_sources
from retomaton_dist.settings import CorpusSettings


def read_texts(settings: CorpusSettings) -> list[str]:
    """Every document's text, in corpus order, without the empty ones."""
    sources = find_sources(settings.corpus)
    split = choose_split(settings.split, settings.field, sources)
    return [
        document.text
        for unit in plan_units(sources, split, unit_bytes=1 << 30)
        for piece in unit
        for document in read_documents(sources[piece.source], piece, split)
        if document.text.strip()
    ]
