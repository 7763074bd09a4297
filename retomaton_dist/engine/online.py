"""Online mixing: weights that follow how well each source predicted the text so far.

Sources are taken in one after the other. Step s has what came before it, p, and options to mix in
a source q by a fixed weight:

    option 0: p      option k: (1 - w_k) p + w_k q_k

Its result, the options' average by their present weights, is what the next step begins with. After
each token a step's weights are those of Bayes, of which a small share returns to the prior (a fixed
share), so that what was useless may become useful. Weights begin anew with every text.

So a step never costs more than ln(1 / prior of option 0) in all, and ln(1 / (1 - share (1 - that
prior))) per token, against leaving its source out: whatever the text, and whatever the source says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.compiled import compiled
from retomaton_dist.engine.mixture import (
    Expert,
    Floats,
    LMFeatures,
    Mixing,
    log_experts,
    log_mixed,
    without_candidates,
)
from retomaton_dist.engine.walks import WalkResult

Whole = NDArray[np.int64]

# What the first option of a step has at first, and what returns to the prior after each token.
PRIOR, SHARE = 0.5, 0.005


class Step(NamedTuple):
    """Sources of a step, each of which may be mixed in by any of the weights."""

    experts: tuple[Expert, ...]
    weights: tuple[float, ...]


class Options(NamedTuple):
    """The options of all steps: those of step s are bounds[s]..bounds[s + 1] - 1.

    `sources` are columns of the experts' probabilities, 0 being the LM.
    """

    bounds: Whole
    sources: Whole
    weights: Floats
    prior: Floats


@dataclass(frozen=True)
class OnlineMixing:
    """Mixes the sources of steps; if one was learned, the last step's source is that mixing."""

    steps: tuple[Step, ...]
    learned: Mixing | None = None
    prior: float = PRIOR
    share: float = SHARE

    @cached_property
    def experts(self) -> tuple[Expert, ...]:
        """All sources, those of the learned mixing included, each once."""
        listed = [expert for step in self.steps for expert in step.experts]
        if self.learned is not None:
            listed += self.learned.experts
        return tuple(dict.fromkeys(listed))

    @cached_property
    def options(self) -> Options:
        """The options of all steps as kernels take them."""
        steps: list[tuple[Sequence[int], Sequence[float]]] = [
            ([1 + self.experts.index(expert) for expert in step.experts], step.weights)
            for step in self.steps
        ]
        if self.learned is not None:
            steps.append(([1 + len(self.experts)], (1.0,)))
        bounds, sources, weights, prior = [0], [], [], []
        for columns, by in steps:
            pairs = [(column, weight) for column in columns for weight in by]
            sources += [0, *(column for column, _ in pairs)]
            weights += [0.0, *(weight for _, weight in pairs)]
            prior += [self.prior, *[(1 - self.prior) / len(pairs)] * len(pairs)]
            bounds.append(len(sources))
        return Options(np.array(bounds), np.array(sources), np.array(weights), np.array(prior))

    def begin(self, rows: int) -> Floats:
        """Weights of texts that begin, [rows, options]."""
        return np.tile(self.options.prior, (rows, 1))

    def learned_shares(self, lm: LMFeatures, walked: WalkResult) -> Floats | None:
        """The learned mixing's shares of the LM and of every expert, [rows, 1 + experts]."""
        if self.learned is None:
            return None
        shares = np.zeros((len(walked.nearest), 1 + len(self.experts)))
        columns = [0, *(1 + self.experts.index(expert) for expert in self.learned.experts)]
        shares[:, columns] = self.learned.shares(lm, walked)
        return shares

    def shares(self, weights: Floats, learned: Floats | None, walked: WalkResult) -> Floats:
        """Shares of the LM and of every expert by the present weights, [rows, 1 + experts]."""
        made = np.zeros((len(weights), 2 + len(self.experts)))
        divide(self.options, weights, made)
        shares = made[:, :-1].copy()
        if learned is not None:
            shares += made[:, -1:] * learned
        return without_candidates(shares, self.experts, walked)

    def follow(self, weights: Floats, learned: Floats | None, p: Floats) -> None:
        """Have weights follow a token per row, in place.

        `p` are its probabilities under the LM and every expert, `learned` the learned shares.
        """
        if learned is not None:
            p = np.concatenate([p, (learned * p).sum(axis=1, keepdims=True)], axis=1)
        for row in range(len(weights)):
            take_token(self.options, p[row], self.share, weights[row])

    def follow_text(self, weights: Floats, logs: Floats) -> None:
        """Have the weights of one row follow a text of which these are the columns, in place."""
        for p in np.exp(logs - logs.max(axis=1, keepdims=True)):
            take_token(self.options, p, self.share, weights)

    def log_columns(self, lm: LMFeatures, walked: WalkResult) -> Floats:
        """Log-probability of every row's token in all columns that options may mix."""
        logs = log_experts(lm, walked, self.experts)
        learned = self.learned_shares(lm, walked)
        if learned is None:
            return logs
        return np.concatenate([logs, log_mixed(learned, logs)[:, None]], axis=1)

    def log_mixed(
        self, logs: Floats, documents: NDArray[np.int32], wanted: Floats | None = None
    ) -> Floats:
        """Log-probability of every row's token, by weights that follow the columns `logs`.

        Rows are whole documents, in order. `wanted` are the columns of other tokens, if those are
        asked for.
        """
        mixed = np.empty(len(logs))
        asked = logs if wanted is None else wanted
        follow_documents(self.options, logs, asked, documents, self.share, mixed)
        return mixed


Asked = tuple[LMFeatures, WalkResult]


def log_target(
    mixing: Mixing | OnlineMixing,
    lm: LMFeatures,
    walked: WalkResult,
    documents: NDArray[np.int32],
    asked: Asked | None = None,
) -> Floats:
    """Log-probability of every row's token, or of those that are asked for instead.

    Rows are whole documents, in order; `asked` is the same with other tokens.
    """
    other = asked or (lm, walked)
    if not isinstance(mixing, OnlineMixing):
        return log_mixed(mixing.shares(lm, walked), log_experts(*other, mixing.experts))
    wanted = None if asked is None else mixing.log_columns(*asked)
    return mixing.log_mixed(mixing.log_columns(lm, walked), documents, wanted)


@compiled
def divide(options: Options, weights: Floats, shares: Floats) -> None:
    """Fill in the shares of all columns, [rows, columns]: zeros at first."""
    for row in range(weights.shape[0]):
        # From the last step to the first: what is left is what came before.
        left = 1.0
        for step in range(options.bounds.shape[0] - 2, -1, -1):
            kept = 0.0
            for k in range(options.bounds[step], options.bounds[step + 1]):
                given = options.weights[k] * weights[row, k]
                shares[row, options.sources[k]] += left * given
                kept += weights[row, k] - given
            left *= kept
        shares[row, 0] += left


@compiled
def take_token(options: Options, p: Floats, share: float, weights: Floats) -> float:
    """Mix the probabilities of a token, [columns], and have the weights follow; return p."""
    mixed: float = p[0]
    for step in range(options.bounds.shape[0] - 1):
        before, total = mixed, 0.0
        first, last = options.bounds[step], options.bounds[step + 1]
        for k in range(first, last):
            by = options.weights[k]
            total += weights[k] * ((1.0 - by) * before + by * p[options.sources[k]])
        if total > 0.0:
            for k in range(first, last):
                by = options.weights[k]
                likely = ((1.0 - by) * before + by * p[options.sources[k]]) / total
                weights[k] = (1.0 - share) * weights[k] * likely + share * options.prior[k]
        mixed = total
    return mixed


@compiled
def follow_documents(
    options: Options,
    logs: Floats,
    wanted: Floats,
    documents: NDArray[np.int32],
    share: float,
    mixed: Floats,
) -> None:
    """Fill in the log-probability of the wanted tokens, with weights that follow the text.

    They begin anew with every document.
    """
    weights = options.prior.copy()
    for row in range(logs.shape[0]):
        if row == 0 or documents[row] != documents[row - 1]:
            weights[:] = options.prior
        # Relative to the likeliest, or all might vanish.
        most = wanted[row].max()
        p = np.exp(wanted[row] - most)
        mixed[row] = most + np.log(take_token(options, p, share, weights.copy()))
        take_token(options, np.exp(logs[row] - logs[row].max()), share, weights)
