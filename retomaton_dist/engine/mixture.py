"""Mixing experts: from shares that are known before the token to p of one token, or of all.

An expert is a distribution over the vocabulary that is known before the token: the LM, or the
candidates of a walk at a temperature. A `Mixing` says which experts it uses beside the LM and how
far it trusts each of them, row by row. `log_target` (what scoring needs) and `mixtures` (what
generation needs) make probabilities of the same shares.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.lanes import Distributions
from retomaton_dist.automaton.sums import log_automaton
from retomaton_dist.compiled import compiled
from retomaton_dist.engine.lm_output import LMOutput, Normalised
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

    def whole(self) -> LMOutput:
        """All that the LM said; queries may be missing if no mixing learned from them."""
        ...


class Candidates(NamedTuple):
    """The expert that weighs a walk's candidates by exp(-distance / temperature).

    Those that a pointer leads to weigh `pointer_weight` times as much.
    """

    temperature: float
    pointer_weight: float

    def log_target(self, walked: WalkResult) -> Floats:
        """Log-probability of every row's token; NaN where there are no candidates."""
        return log_automaton(walked.at(self.temperature), self.pointer_weight)


class Mixing(Protocol):
    """Divides trust among the LM and other experts, row by row."""

    @property
    def experts(self) -> Sequence[Candidates]:
        """The experts beside the LM."""
        ...

    def log_shares(self, lm: LMFeatures, walked: WalkResult) -> Floats:
        """Logarithms of the shares of the LM and of each expert: [rows, 1 + experts].

        They sum to 1, depend on nothing that only the token tells, and without candidates the LM
        has all.
        """
        ...


def temperatures_for(mixing: Mixing) -> tuple[float, ...]:
    """The temperatures that a walk's log-sums must be taken for, rising; one at least."""
    return tuple(sorted({expert.temperature for expert in mixing.experts})) or (1.0,)


def trusting_the_lm(log_shares: Floats, walked: WalkResult) -> Floats:
    """The same shares; where there are no candidates, the LM has all."""
    alone = np.full(log_shares.shape[1], -np.inf)
    alone[0] = 0.0
    return np.where(np.isfinite(walked.nearest)[:, None], log_shares, alone)


def log_experts(lm: LMFeatures, walked: WalkResult, experts: Sequence[Candidates]) -> Floats:
    """Log-probability of every row's token under the LM and each expert: [rows, 1 + experts].

    Without candidates, every expert says what the LM says.
    """
    columns = [lm.log_lm.astype(np.float64)]
    for expert in experts:
        logs = expert.log_target(walked)
        columns.append(np.where(np.isnan(logs), columns[0], logs))
    return np.stack(columns, axis=1)


def log_target(mixing: Mixing, lm: LMFeatures, walked: WalkResult) -> Floats:
    """Log-probability of every row's token."""
    shares = mixing.log_shares(lm, walked)
    mixed: Floats = np.logaddexp.reduce(shares + log_experts(lm, walked, mixing.experts), axis=1)
    return mixed


class Mixtures(NamedTuple):
    """p of every token at some positions, in parts: what the LM says, and what is added.

    p(token) = shares[i] p_lm(token), plus extra[i, j] where tokens[i, j] is the token, for j below
    counts[i]; log p_lm(token) = logits[i, token] - normals[i]. `favourites` are the LM's most
    probable tokens. Nothing of the vocabulary's size is made but where it is needed.
    """

    shares: Floats
    logits: NDArray[np.float32]
    normals: Floats
    favourites: NDArray[np.int64]
    tokens: NDArray[np.int32]
    extra: Floats
    counts: Rows

    def dense(self) -> Floats:
        """p, [positions, vocabulary]."""
        p: Floats = self.logits.astype(np.float64)
        p -= self.normals[:, None]
        np.exp(p, out=p)
        add_extra(p, self.shares, self.tokens, self.extra, self.counts)
        return p

    def select(self, rows: Rows) -> "Mixtures":
        """The positions of these rows, in this order."""
        columns: list[NDArray[Any]] = [column[rows] for column in self]
        return Mixtures(*columns)

    def log_p(self, tokens: NDArray[np.int32]) -> tuple[Floats, Floats]:
        """Logarithms of p, and of p_lm, of a token per position."""
        log_lm: Floats = self.logits[np.arange(len(tokens)), tokens] - self.normals
        same = self.tokens == tokens[:, None]
        same &= np.arange(self.tokens.shape[1]) < self.counts[:, None]
        added = np.where(same, self.extra, 0.0).sum(axis=1)
        with np.errstate(divide="ignore"):
            return np.log(self.shares * np.exp(log_lm) + added), log_lm


def mixtures(
    log_shares: Floats,
    logits: NDArray[np.float32],
    normalised: Normalised,
    candidates: Distributions | None,
) -> Mixtures:
    """P of every token: `candidates` are the experts' distributions, None if there are none."""
    rows = len(logits)
    normals, favourites = normalised.normals.cpu().numpy(), normalised.favourites.cpu().numpy()
    shares = np.exp(log_shares)
    if candidates is None:
        nothing = np.empty((rows, 0), np.int32), np.empty((rows, 0)), np.zeros(rows, np.int64)
        return Mixtures(shares[:, 0], logits, normals, favourites, *nothing)
    # There is room for as many tokens as candidates, but few of these differ.
    most = int(candidates.counts.max(initial=0))
    extra = np.einsum("rv,rvc->rc", shares[:, 1:], candidates.probabilities[:, :, :most])
    tokens = np.ascontiguousarray(candidates.tokens[:, :most])
    lm = shares[:, 0].copy(), logits, normals, favourites
    return Mixtures(*lm, tokens, extra, candidates.counts)


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
