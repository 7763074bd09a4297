"""The text of a training run: read whole, what is held out, and which tokens each step sees."""

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.corpus.documents import read_documents
from retomaton_dist.corpus.pieces import choose_split, plan_units
from retomaton_dist.corpus.sources import find_sources
from retomaton_dist.errors import CorpusError
from retomaton_dist.lm.tokenizer import Tokenizer
from retomaton_dist.settings import CorpusSettings


def read_texts(settings: CorpusSettings) -> list[str]:
    """Every document's text, in corpus order, without the empty ones; it must fit in memory."""
    sources = find_sources(settings.corpus)
    split = choose_split(settings.split, settings.field, sources)
    return [
        document.text
        for unit in plan_units(sources, split, unit_bytes=1 << 30)
        for piece in unit
        for document in read_documents(sources[piece.source], piece, split)
        if document.text.strip()
    ]


@dataclass(frozen=True)
class TrainTexts:
    """Documents to train on, and documents to measure perplexity on."""

    training: list[str]
    validation: list[str]


def split_documents(texts: Sequence[str], share: float, seed: int) -> TrainTexts:
    """Hold out documents, drawn by `seed`, until they make up this share of the text.

    At least one is held out and one is left; of a single document the end is held out.
    """
    texts = [text for text in texts if text]
    if not texts:
        raise CorpusError("there is no text to train on; check --corpus")
    if len(texts) == 1:
        cut = max(1, round(len(texts[0]) * (1 - share)))
        return TrainTexts([texts[0][:cut]], [texts[0][cut:] or texts[0]])
    order = np.random.default_rng([seed, len(texts)]).permutation(len(texts))
    sizes = np.cumsum([len(texts[i]) for i in order])
    held = int(np.searchsorted(sizes, share * sizes[-1])) + 1
    chosen = set(order[: min(held, len(texts) - 1)].tolist())
    return TrainTexts(
        [text for i, text in enumerate(texts) if i not in chosen],
        [text for i, text in enumerate(texts) if i in chosen],
    )


def fingerprint_texts(texts: Sequence[str]) -> str:
    """Return a SHA-256 of the documents and their bounds."""
    total = hashlib.sha256()
    for text in texts:
        total.update(hashlib.sha256(text.encode()).digest())
    return total.hexdigest()


@dataclass(frozen=True, eq=False)
class TokenStream:
    """Documents end to end, each after BOS and before EOS, cut into blocks of `context` targets.

    If one token is both, it stands once between two documents. `bytes` is the size of the text.
    """

    tokens: NDArray[np.int32]
    context: int
    bytes: int

    @property
    def blocks(self) -> int:
        """How many whole blocks there are."""
        return (len(self.tokens) - 1) // self.context

    def block_rows(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return blocks as rows of `context` + 1 tokens: inputs, and targets one further."""
        places = indices[:, None] * self.context + np.arange(self.context + 1)
        rows: NDArray[np.int64] = self.tokens[places].astype(np.int64)
        return rows

    def batch(self, step: int, rows: int, seed: int) -> NDArray[np.int64]:
        """Return the rows of a step: a function of (seed, step), so that a resume needs no more.

        Every epoch has its own order and sees every block once, but for a rest under `rows`.
        """
        rows = min(rows, self.blocks)
        epoch, place = divmod(step, self.blocks // rows)
        return self.block_rows(_order(seed, epoch, self.blocks)[place * rows : (place + 1) * rows])


@functools.lru_cache(maxsize=1)
def _order(seed: int, epoch: int, blocks: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, epoch]).permutation(blocks)


def make_stream(tokenizer: Tokenizer, texts: Sequence[str], context: int) -> TokenStream:
    """Tokenize documents into a stream, of shorter blocks if there is less text than one."""
    prefix = [] if tokenizer.bos is None else [tokenizer.bos]
    suffix = [] if tokenizer.eos in (None, tokenizer.bos) else [tokenizer.eos]
    last = [] if tokenizer.eos is None or suffix else [tokenizer.eos]
    parts: list[NDArray[np.int32]] = []
    for ids, _ in tokenizer.encode(texts):
        parts += [np.array(prefix, np.int32), ids, np.array(suffix, np.int32)]
    tokens = np.concatenate([*parts, np.array(last, np.int32)])
    if len(tokens) < 2:
        raise CorpusError("there is no text to train on, or none to hold out; give more text")
    size = sum(len(text.encode()) for text in texts)
    return TokenStream(tokens, min(context, len(tokens) - 1), size)
