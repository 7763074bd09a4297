"""Reading a corpus as the stage `tokenize` does, without its workers."""

from retomaton_dist.corpus.documents import read_documents
from retomaton_dist.corpus.pieces import choose_split, plan_units
from retomaton_dist.corpus.sources import find_sources


def read_corpus(path, split=None, unit_bytes=1 << 20, field="text"):
    """(source, offset, text) of every document of every piece of every unit, in order."""
    sources = find_sources([str(path)])
    chosen = choose_split(split, field, sources)
    return [
        (sources[piece.source].name, document.offset, document.text)
        for unit in plan_units(sources, chosen, unit_bytes)
        for piece in unit
        for document in read_documents(sources[piece.source], piece, chosen)
    ]
