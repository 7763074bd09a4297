"""Mixing p_lm with p_auto: shares that are known before the token, then p of one token or of all.

A mixing says which versions of p_auto it uses and how much it trusts each of them. What scoring
(one token per position) and generation (every token) make of that is the same for all mixings.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from retomaton_dist.automaton.lanes import Distributions
from retomaton_dist.automaton.summing import log_automaton
from retomaton_dist.methods.mixture import Floats
from retomaton_dist.scores.seen import Seen
from retomaton_dist.scores.walks import Walked


class Version(NamedTuple):
    """A way to weigh candidates: a version of p_auto."""

    temperature: float
    pointer_weight: float


class Mixing(Protocol):
    """Divides trust among p_lm and some versions of p_auto, position by position."""

    @property
    def versions(self) -> Sequence[Version]:
        """The versions of p_auto that it uses."""
        ...

    def log_shares(self, seen: Seen, walked: Walked) -> Floats:
        """Logarithms of the shares of p_lm and of each version: [rows, 1 + versions].

        They sum to 1, depend on nothing that only the token tells, and without candidates the LM
        has all.
        """
        ...


def temperatures_for(mixing: Mixing) -> tuple[float, ...]:
    """The temperatures that a walk's log-sums must be taken for, rising."""
    return tuple(sorted({version.temperature for version in mixing.versions}))


def trusting_the_lm(log_shares: Floats, walked: Walked) -> Floats:
    """The same shares; where there are no candidates, the LM has all."""
    alone = np.full(log_shares.shape[1], -np.inf)
    alone[0] = 0.0
    return np.where(np.isfinite(walked.nearest)[:, None], log_shares, alone)


def log_versions(seen: Seen, walked: Walked, versions: Sequence[Version]) -> Floats:
    """Log-probability of every row's token under p_lm and each version: [rows, 1 + versions].

    Without candidates, every version is p_lm.
    """
    log_lm = seen.log_lm.astype(np.float64)
    columns = [log_lm]
    for version in versions:
        sums = walked.sums[:, seen.temperatures.index(version.temperature)].astype(np.float64)
        log_auto = log_automaton(sums, version.pointer_weight)
        columns.append(np.where(np.isnan(log_auto), log_lm, log_auto))
    return np.stack(columns, axis=1)


def log_target(mixing: Mixing, seen: Seen, walked: Walked) -> Floats:
    """Log-probability of every row's token."""
    shares = mixing.log_shares(seen, walked)
    mixed: Floats = np.logaddexp.reduce(
        shares + log_versions(seen, walked, mixing.versions), axis=1
    )
    return mixed


def distribution(
    mixing: Mixing, seen: Seen, walked: Walked, p_lm: Floats, candidates: Distributions
) -> Floats:
    """Probability of every token of the vocabulary, [rows, vocabulary].

    `candidates` are p_auto of each version, as the lanes have it: `lanes.distributions(versions)`.
    """
    shares = np.exp(mixing.log_shares(seen, walked))
    mixed: Floats = shares[:, :1] * p_lm
    automaton = np.einsum("rv,rvc->rc", shares[:, 1:], candidates.probabilities)
    rows, places = np.nonzero(np.arange(candidates.tokens.shape[1]) < candidates.counts[:, None])
    mixed[rows, candidates.tokens[rows, places]] += automaton[rows, places]
    return mixed
