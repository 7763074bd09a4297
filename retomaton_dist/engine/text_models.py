"""Models of text alone, asked beside the LM: the corpus's n-grams and the document's cache."""

from dataclasses import dataclass
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
    token yet, its columns are 0; so are those of a model that is not asked.
    """

    log_ngram: NDArray[np.float32]
    ngram_matched: NDArray[np.int32]
    votes: NDArray[np.float32]
    escape: NDArray[np.float32]
    cache_matched: NDArray[np.int32]
    favoured_log_ngram: NDArray[np.float32]
    favoured_votes: NDArray[np.float32]

    def columns(self) -> dict[str, NDArray[Any]]:
        """All columns by their names."""
        return dict(vars(self))

    def rows(self, chosen: slice | Rows) -> "TextOutput":
        """Some of its rows."""
        return TextOutput(**{name: column[chosen] for name, column in vars(self).items()})

    def of_favourites(self) -> "TextOutput":
        """The same as if the tokens were the LM's favourites."""
        favoured = {"log_ngram": self.favoured_log_ngram, "votes": self.favoured_votes}
        return TextOutput(**{**vars(self), **favoured})

    @classmethod
    def empty(cls, rows: int) -> "TextOutput":
        """Of models that are not asked."""
        zeros, none = np.zeros(rows, np.float32), np.zeros(rows, np.int32)
        return cls(zeros, none, zeros, np.ones(rows, np.float32), none, zeros, zeros)


TEXT_COLUMNS = tuple(TextOutput.__dataclass_fields__)


@dataclass(frozen=True)
class TextDistributions:
    """What the models make of every token: p [rows, vocabulary], and the cache's votes."""

    ngram: Floats | None
    cache: CacheVotes | None

    def select(self, rows: Rows) -> "TextDistributions":
        """Some of the rows."""
        ngram = None if self.ngram is None else self.ngram[rows]
        return TextDistributions(ngram, self.cache and self.cache.select(rows))


@dataclass(frozen=True)
class TextModels:
    """The models that are asked. A text is tokens[begin:end] of some longer array."""

    ngrams: NGrams | None
    cache: bool
    vocabulary: int

    def output(
        self, tokens: Tokens, begins: Rows, ends: Rows, targets: Tokens | None, favourites: Tokens
    ) -> TextOutput:
        """What is known of the tokens (None: there are none yet) that follow texts."""
        tokens = read_only(tokens)
        made = TextOutput.empty(len(ends)).columns()
        kinds = {"log_ngram": targets, "favoured_log_ngram": favourites}
        if self.ngrams is not None:
            recent = self._recent(self.ngrams, tokens, begins, ends)
            for name, wanted in kinds.items():
                if wanted is not None:
                    # What pads the LM's vocabulary is no token of the corpus's.
                    known = wanted < self.ngrams.vocabulary
                    logs, matched = self.ngrams.log_p(recent, np.where(known, wanted, 0))
                    made[name] = np.where(known, logs, -np.inf).astype(np.float32)
                    made["ngram_matched"] = matched
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
        ngram = None
        if self.ngrams is not None:
            known = self.ngrams.distributions(self._recent(self.ngrams, tokens, begins, ends))
            ngram = np.zeros((len(ends), self.vocabulary))
            ngram[:, : known.shape[1]] = known
        votes = cache_votes(tokens, begins, ends, self.vocabulary) if self.cache else None
        return TextDistributions(ngram, votes)

    def _recent(self, ngrams: NGrams, tokens: Tokens, begins: Rows, ends: Rows) -> Tokens:
        """The last tokens of texts, the latest first; -1 where a text began later."""
        places = ends[:, None] - 1 - np.arange(ngrams.order - 1)
        known = tokens[np.clip(places, 0, len(tokens) - 1)] if len(tokens) else places
        recent: Tokens = np.where(places >= begins[:, None], known, -1).astype(np.int32)
        return recent
