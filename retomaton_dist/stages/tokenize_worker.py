"""The worker of the stage `tokenize`: reads pieces of sources and tokenises their documents."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from retomaton_dist.corpus.documents import Text, read_documents
from retomaton_dist.corpus.pieces import Piece, Split
from retomaton_dist.corpus.sources import Source
from retomaton_dist.lm.identity import ModelSpec, load_tokenizer
from retomaton_dist.lm.tokenizer import Tokenizer
from storage import corpus, records
from storage.canonical import Json
from storage.corpus import TokenisedDocument
from storage.records import Record
from storage.sending import WithoutCaches

BATCH_CHARACTERS = 1 << 18

Pieces = list[tuple[Source, Piece]]


@dataclass(frozen=True)
class Reader(WithoutCaches):
    """Turns pieces into tokenised documents; `end` is the token put behind each of them."""

    split: Split
    end: int | None
    model: ModelSpec

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, loaded where the reader is used."""
        return load_tokenizer(self.model)

    def read(self, pieces: Pieces) -> tuple[list[TokenisedDocument], int]:
        """Documents that have entries, in order, and how many have none and are skipped."""
        kept: list[TokenisedDocument] = []
        found = 0
        for source, piece in pieces:
            for batch in _batches(read_documents(source, piece, self.split)):
                found += len(batch)
                kept += self._tokenise([text for text in batch if text.text.strip()], piece)
        return kept, found - len(kept)

    def _tokenise(self, texts: list[Text], piece: Piece) -> Iterator[TokenisedDocument]:
        lead = 0 if self.tokenizer.bos is not None else 1
        encoded = self.tokenizer.encode([text.text for text in texts])
        for text, (tokens, offsets) in zip(texts, encoded, strict=True):
            if len(tokens) and self.end is not None:
                tokens = np.append(tokens, np.int32(self.end))
                offsets = np.append(offsets, np.uint32(len(text.text.encode())))
            if len(tokens) > lead:
                length = len(tokens) - lead
                yield TokenisedDocument(
                    text.name, length, piece.source, text.offset, tokens, offsets
                )


class TokenizeWorker:
    """Writes the parts of the corpus that units hold."""

    def __init__(self, store: Path, config_hash: str, reader: Reader) -> None:
        self._store, self._config_hash, self._reader = store, config_hash, reader

    def run(self, unit: tuple[int, Pieces]) -> Json:
        """Write the unit's tokens and documents, then its record; return its counts."""
        number, pieces = unit
        documents, skipped = self._reader.read(pieces)
        files = corpus.write_part(self._store, number, documents)
        facts: Json = {
            "documents": len(documents),
            "tokens": sum(len(document.tokens) for document in documents),
            "entries": sum(document.length for document in documents),
            "skipped": skipped,
        }
        records.write(self._store, "tokenize", Record(number, self._config_hash, files, facts))
        return facts


def _batches(texts: Iterator[Text]) -> Iterator[list[Text]]:
    """Group texts so that one call of the tokenizer has enough, but not too much, to do."""
    batch: list[Text] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text.text)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
