"""Models of text alone, asked beside the LM: the corpus's n-grams and the document's cache."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.ngrams import NGrams
from retomaton_dist.codec.codec import read_only
from retomaton_dist.engine.document_cache import CacheVotes, cache_targets, cache_votes

Tokens = NDArray[np.int32]
Rows = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TextOutput:
    """Row by row, what is known of the token: log p of the n-gram model, votes of the cache.

    p_cache = votes + escape p_lm. `matched` are the lengths of the longest contexts that the corpus
    and the document have. `favoured_...` are the same of the LM's favourite. Where there is no
    token yet, its columns are 0; so are those of a model that is not asked. `further_log_ngrams`
    are log p of the n-gram models of further stores.
    """

    log_ngram: NDArray[np.float32]
    ngram_matched: NDArray[np.int32]
    votes: NDArray[np.float32]
    escape: NDArray[np.float32]
    cache_matched: NDArray[np.int32]
    favoured_log_ngram: NDArray[np.float32]
    favoured_votes: NDArray[np.float32]
    further_log_ngrams: tuple[NDArray[np.float32], ...] = ()

    def columns(self) -> dict[str, NDArray[Any]]:
        """What is kept of it by name: not what further stores say."""
        return {name: getattr(self, name) for name in TEXT_COLUMNS}

    def rows(self, chosen: slice | Rows) -> "TextOutput":
        """Some of its rows."""
        columns = {name: column[chosen] for name, column in self.columns().items()}
        further = tuple(column[chosen] for column in self.further_log_ngrams)
        return TextOutput(**columns, further_log_ngrams=further)

    def of_favourites(self) -> "TextOutput":
        """The same as if the tokens were the LM's favourites."""
        return replace(self, log_ngram=self.favoured_log_ngram, votes=self.favoured_votes)

    @classmethod
    def empty(cls, rows: int) -> "TextOutput":
        """Of models that are not asked."""
        zeros, none = np.zeros(rows, np.float32), np.zeros(rows, np.int32)
        return cls(zeros, none, zeros, np.ones(rows, np.float32), none, zeros, zeros)


TEXT_COLUMNS = tuple(
    name for name in TextOutput.__dataclass_fields__ if name != "further_log_ngrams"
)


@dataclass(frozen=True)
class TextDistributions:
    """What the models make of every token: p [rows, vocabulary] by store, and the cache's votes."""

    ngrams: tuple[Floats, ...]
    cache: CacheVotes | None

    def select(self, rows: Rows) -> "TextDistributions":
        """Some of the rows."""
        ngrams = tuple(p[rows] for p in self.ngrams)
        return TextDistributions(ngrams, self.cache and self.cache.select(rows))


@dataclass(frozen=True)
class TextModels:
    """The models that are asked. A text is tokens[begin:end] of some longer array.

    `further` are the n-gram models of further stores.
    """

    ngrams: NGrams | None
    cache: bool
    vocabulary: int
    further: tuple[NGrams, ...] = ()

    def output(
        self, tokens: Tokens, begins: Rows, ends: Rows, targets: Tokens | None, favourites: Tokens
    ) -> TextOutput:
        """What is known of the tokens (None: there are none yet) that follow texts."""
        tokens = read_only(tokens)
        made: dict[str, Any] = TextOutput.empty(len(ends)).columns()
        kinds = {"log_ngram": targets, "favoured_log_ngram": favourites}
        if self.ngrams is not None:
            recent = self._recent(self.ngrams, tokens, begins, ends)
            for name, wanted in kinds.items():
                if wanted is not None:
                    made[name], made["ngram_matched"] = _log_p(self.ngrams, recent, wanted)
        if targets is not None:
            made["further_log_ngrams"] = tuple(
                _log_p(model, self._recent(model, tokens, begins, ends), targets)[0]
                for model in self.further
            )
        kinds = {"votes": targets, "favoured_votes": favourites}
        if self.cache:
            for name, wanted in kinds.items():
                if wanted is not None:
                    votes = cache_targets(tokens, begins, ends, wanted, self.vocabulary)
                    made[name] = votes.votes.astype(np.float32)
                    made["escape"] = votes.escape.astype(np.float32)
                    made["cache_matched"] = votes.matched
        return TextOutput(**made)

    def distributions(self, tokens: Tokens, begins: Rows, ends: Rows) -> TextDistributions:
        """What the models make of every token that may follow texts."""
        tokens = read_only(tokens)
        made = []
        for model in () if self.ngrams is None else (self.ngrams, *self.further):
            known = model.distributions(self._recent(model, tokens, begins, ends))
            p = np.zeros((len(ends), self.vocabulary))
            p[:, : known.shape[1]] = known
            made.append(p)
        votes = cache_votes(tokens, begins, ends, self.vocabulary) if self.cache else None
        return TextDistributions(tuple(made), votes)

    def _recent(self, ngrams: NGrams, tokens: Tokens, begins: Rows, ends: Rows) -> Tokens:
        """The last tokens of texts, the latest first; -1 where a text began later."""
        places = ends[:, None] - 1 - np.arange(ngrams.order - 1)
        known = tokens[np.clip(places, 0, len(tokens) - 1)] if len(tokens) else places
        recent: Tokens = np.where(places >= begins[:, None], known, -1).astype(np.int32)
        return recent


def _log_p(
    ngrams: NGrams, recent: Tokens, wanted: Tokens
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Log p of tokens behind the recent ones, and how long the contexts are that it knows."""
    # What pads the LM's vocabulary is no token of the corpus's.
    known = wanted < ngrams.vocabulary
    logs, matched = ngrams.log_p(recent, np.where(known, wanted, 0))
    return np.where(known, logs, -np.inf).astype(np.float32), matched
