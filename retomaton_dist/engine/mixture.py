"""Mixing experts: from shares that are known before the token to p of one token, or of all.

An expert is a distribution over the vocabulary that is known before the token: the LM, the
candidates of a walk at a temperature, the corpus's n-gram model, the document's cache. A `Mixing`
says which experts it uses beside the LM and how far it trusts each of them, row by row.
`log_experts` with `log_mixed` (what scoring needs) and `mixtures` (what generation needs) make
probabilities of the same shares.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.lanes import Distributions
from retomaton_dist.automaton.sums import log_automaton
from retomaton_dist.compiled import compiled
from retomaton_dist.engine.lm_output import LMOutput, Normalised
from retomaton_dist.engine.text_models import TextDistributions, TextOutput
from retomaton_dist.engine.walks import WalkResult

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


class LMFeatures(Protocol):
    """What mixing reads of the LM at some positions: in memory, or on disk column by column."""

    @property
    def log_lm(self) -> NDArray[np.float32]:
        """Log-probability of each row's token under the LM."""
        ...

    @property
    def entropy(self) -> NDArray[np.float32]:
        """Entropy of the LM's distribution."""
        ...

    @property
    def confidence(self) -> NDArray[np.float32]:
        """The LM's largest log-probability."""
        ...

    @property
    def text(self) -> TextOutput | None:
        """What models of text alone make of the rows, if they were asked."""
        ...

    def whole(self) -> LMOutput:
        """All that the LM said; queries may be missing if no mixing learned from them."""
        ...


class Candidates(NamedTuple):
    """The expert that weighs a walk's candidates by exp(-distance / temperature).

    Those that a pointer leads to weigh `pointer_weight` times as much. `store` is the number of
    the store that is walked.
    """

    temperature: float
    pointer_weight: float
    store: int = 0

    def log_target(self, walked: WalkResult) -> Floats:
        """Log-probability of every row's token; NaN where there are no candidates."""
        sums = walked.of_store(self.store).at(self.temperature)
        return log_automaton(sums, self.pointer_weight)


class TextExpert(Enum):
    """The experts that know the text alone; n-grams are the main store's."""

    NGRAM = "ngram"
    CACHE = "cache"


class FurtherNgram(NamedTuple):
    """The expert that is the n-gram model of a further store, by its number from 1 on."""

    store: int


Expert = Candidates | TextExpert | FurtherNgram


class Mixing(Protocol):
    """Divides trust among the LM and other experts, row by row."""

    @property
    def experts(self) -> Sequence[Expert]:
        """The experts beside the LM."""
        ...

    def shares(self, lm: LMFeatures, walked: WalkResult) -> Floats:
        """The shares of the LM and of each expert: [rows, 1 + experts].

        They sum to 1, depend on nothing that only the token tells, and without candidates these
        have none.
        """
        ...


def candidates_of(experts: Sequence[Expert]) -> list[Candidates]:
    """Those of the experts that weigh a walk's candidates."""
    return [expert for expert in experts if isinstance(expert, Candidates)]


def temperatures_for(experts: Sequence[Expert]) -> tuple[float, ...]:
    """The temperatures that a walk's log-sums must be taken for, rising; one at least."""
    return tuple(sorted({one.temperature for one in candidates_of(experts)})) or (1.0,)


def without_candidates(shares: Floats, experts: Sequence[Expert], walked: WalkResult) -> Floats:
    """The same shares; where a walk has no candidates, the LM has what they had."""
    stores = walked, *walked.further
    if all(np.isfinite(one.nearest).all() for one in stores):
        return shares
    shares = shares.copy()
    for place, expert in enumerate(experts, start=1):
        if isinstance(expert, Candidates):
            shares[~np.isfinite(stores[expert.store].nearest), place] = 0.0
    none = np.any([~np.isfinite(one.nearest) for one in stores], axis=0)
    # What the others leave: exactly 1 where there are no others.
    shares[none, 0] = 1.0 - shares[none, 1:].sum(axis=1)
    return shares


def log_experts(lm: LMFeatures, walked: WalkResult, experts: Sequence[Expert]) -> Floats:
    """Log-probability of every row's token under the LM and each expert: [rows, 1 + experts].

    Without candidates, the experts that weigh them say what the LM says.
    """
    log_lm = lm.log_lm.astype(np.float64)
    columns = [log_lm]
    for expert in experts:
        if isinstance(expert, Candidates):
            logs = expert.log_target(walked)
            columns.append(np.where(np.isnan(logs), log_lm, logs))
            continue
        assert lm.text is not None, "what asks models of text was scored with them"
        if isinstance(expert, FurtherNgram):
            columns.append(lm.text.further_log_ngrams[expert.store - 1].astype(np.float64))
        elif expert is TextExpert.NGRAM:
            columns.append(lm.text.log_ngram.astype(np.float64))
        else:
            votes, escape = (
                column.astype(np.float64) for column in (lm.text.votes, lm.text.escape)
            )
            with np.errstate(divide="ignore"):
                columns.append(np.logaddexp(np.log(votes), np.log(escape) + log_lm))
    return np.stack(columns, axis=1)


def log_mixed(shares: Floats, logs: Floats) -> Floats:
    """Log-probability of every row's token under a mixture of components that give it `logs`."""
    most = logs.max(axis=1, keepdims=True)
    mixed: Floats = most[:, 0] + np.log((shares * np.exp(logs - most)).sum(axis=1))
    return mixed


class ExpertDistributions(NamedTuple):
    """What the experts make of every token at some positions: of candidates, and of text alone.

    Candidates are by store, with the versions of its experts in their order. `learned` are shares
    that a learned mixing gives all experts, if online mixing has one.
    """

    experts: Sequence[Expert]
    candidates: tuple[Distributions, ...] = ()
    text: TextDistributions | None = None
    learned: Floats | None = None

    def select(self, rows: Rows) -> "ExpertDistributions":
        """The positions of these rows, in this order."""
        candidates = tuple(
            Distributions(known.tokens[rows], known.probabilities[rows], known.counts[rows])
            for known in self.candidates
        )
        text, learned = self.text, self.learned
        text = None if text is None else text.select(rows)
        learned = None if learned is None else learned[rows]
        return ExpertDistributions(self.experts, candidates, text, learned)

    def probabilities(self, tokens: NDArray[np.int32], p_lm: Floats) -> Floats:
        """P of a token per position under the LM and each expert: [positions, 1 + experts]."""
        rows, columns = np.arange(len(tokens)), [p_lm]
        versions = dict.fromkeys(range(len(self.candidates)), 0)
        for expert in self.experts:
            if isinstance(expert, Candidates):
                if not self.candidates:
                    columns.append(p_lm)
                    continue
                known, version = self.candidates[expert.store], versions[expert.store]
                same = known.tokens == tokens[:, None]
                same &= np.arange(known.tokens.shape[1]) < known.counts[:, None]
                p = np.where(same, known.probabilities[:, version], 0.0).sum(axis=1)
                columns.append(np.where(known.counts > 0, p, p_lm))
                versions[expert.store] += 1
            elif expert is not TextExpert.CACHE:
                assert self.text is not None
                store = expert.store if isinstance(expert, FurtherNgram) else 0
                columns.append(self.text.ngrams[store][rows, tokens])
            else:
                assert self.text is not None
                assert self.text.cache is not None
                cache = self.text.cache
                columns.append(cache.of(tokens) + cache.escape * p_lm)
        return np.stack(columns, axis=1)


@dataclass(frozen=True)
class Mixtures:
    """p of every token at some positions, in parts: what the LM says, and what is added.

    p(token) = shares[i] p_lm(token) + base[i, token], plus extra[i, j] where tokens[i, j] is the
    token, for j below counts[i]; log p_lm(token) = logits[i, token] - normals[i]. `favourites` are
    the LM's most probable tokens. `base` has no columns where nothing is added to most tokens:
    nothing of the vocabulary's size is made but where it is needed. `experts` is what was mixed.
    """

    shares: Floats
    logits: NDArray[np.float32]
    normals: Floats
    favourites: NDArray[np.int64]
    tokens: NDArray[np.int32]
    extra: Floats
    counts: Rows
    base: Floats
    experts: ExpertDistributions

    def dense(self) -> Floats:
        """p, [positions, vocabulary]."""
        p: Floats = self.logits.astype(np.float64)
        p -= self.normals[:, None]
        np.exp(p, out=p)
        add_extra(p, self.shares, self.tokens, self.extra, self.counts)
        if self.base.shape[1]:
            p += self.base
        return p

    def select(self, rows: Rows) -> "Mixtures":
        """The positions of these rows, in this order."""
        columns = {name: item[rows] for name, item in vars(self).items() if name != "experts"}
        return Mixtures(**columns, experts=self.experts.select(rows))

    def log_p(self, tokens: NDArray[np.int32]) -> tuple[Floats, Floats]:
        """Logarithms of p, and of p_lm, of a token per position."""
        rows = np.arange(len(tokens))
        log_lm: Floats = self.logits[rows, tokens] - self.normals
        same = self.tokens == tokens[:, None]
        same &= np.arange(self.tokens.shape[1]) < self.counts[:, None]
        added = np.where(same, self.extra, 0.0).sum(axis=1)
        if self.base.shape[1]:
            added += self.base[rows, tokens]
        with np.errstate(divide="ignore"):
            return np.log(self.shares * np.exp(log_lm) + added), log_lm


def mixtures(
    shares: Floats,
    logits: NDArray[np.float32],
    normalised: Normalised,
    experts: ExpertDistributions,
) -> Mixtures:
    """P of every token, by the shares of the LM and of each expert."""
    rows, base = len(logits), np.empty((len(logits), 0))
    normals, favourites = normalised.normals.cpu().numpy(), normalised.favourites.cpu().numpy()
    of_lm = shares[:, 0].copy()
    tokens, extra, counts = _weighed(shares, experts)
    if experts.text is not None:
        base = np.zeros((rows, logits.shape[1]))
        for place, expert in enumerate(experts.experts, start=1):
            if expert is TextExpert.NGRAM:
                np.multiply(experts.text.ngrams[0], shares[:, place, None], out=base)
        for place, expert in enumerate(experts.experts, start=1):
            if isinstance(expert, FurtherNgram):
                base += experts.text.ngrams[expert.store] * shares[:, place, None]
        for place, expert in enumerate(experts.experts, start=1):
            if expert is TextExpert.CACHE and experts.text.cache is not None:
                cache = experts.text.cache
                of_lm += shares[:, place] * cache.escape
                add_votes(base, shares[:, place].copy(), cache.tokens, cache.votes, cache.counts)
    return Mixtures(of_lm, logits, normals, favourites, tokens, extra, counts, base, experts)


def _weighed(
    shares: Floats, experts: ExpertDistributions
) -> tuple[NDArray[np.int32], Floats, Rows]:
    """Tokens of candidates, what their experts' shares give them, and how many there are."""
    rows = len(shares)
    if not experts.candidates:
        return np.empty((rows, 0), np.int32), np.empty((rows, 0)), np.zeros(rows, int)
    parts = []
    for store, known in enumerate(experts.candidates):
        places = [
            place
            for place, one in enumerate(experts.experts, start=1)
            if isinstance(one, Candidates) and one.store == store
        ]
        # There is room for as many tokens as candidates, but few of these differ.
        most = int(known.counts.max(initial=0))
        extra = np.einsum("rv,rvc->rc", shares[:, places], known.probabilities[:, :, :most])
        parts.append((np.ascontiguousarray(known.tokens[:, :most]), extra, known.counts))
    if len(parts) == 1:
        return parts[0]
    # One list behind the other: what pads the first adds nothing.
    for _, extra, counts in parts:
        extra[np.arange(extra.shape[1]) >= counts[:, None]] = 0.0
    tokens, extra = (np.concatenate([part[i] for part in parts], axis=1) for i in range(2))
    return tokens, extra, np.full(rows, tokens.shape[1])


@compiled
def add_votes(
    base: Floats,
    shares: Floats,
    tokens: NDArray[np.int32],
    votes: Floats,
    counts: NDArray[np.int64],
) -> None:
    """Add a share of votes to what tokens have, in place."""
    for i in range(base.shape[0]):
        for j in range(counts[i]):
            base[i, tokens[i, j]] += shares[i] * votes[i, j]


@compiled
def add_extra(
    p: Floats,
    shares: Floats,
    tokens: NDArray[np.int32],
    extra: Floats,
    counts: NDArray[np.int64],
) -> None:
    """Make p of p_lm, in place."""
    for i in range(p.shape[0]):
        p[i] *= shares[i]
        for j in range(counts[i]):
            p[i, tokens[i, j]] += extra[i, j]
