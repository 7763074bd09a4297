"""From the mixture to a token: the most probable one, or one drawn at random.

A draw is a race: every token finishes after an exponential time of rate p, and the first wins.
Each token's time depends on the seed, the text's number and the position alone, never on how the
position was come to. So a text is the same with and without drafts; and where rounding moves
probabilities by a millionth, about one draw in a million changes (that is not so if a single
random number is looked up in the cumulated probabilities, whose borders all move).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.compiled import Whole, compiled
from retomaton_dist.engine.mixture import Mixtures
from retomaton_dist.errors import BadInput

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Process = Callable[[NDArray[np.int32], Floats], Floats]
"""Other scores of a text so far and its scores."""
TextSoFar = tuple[NDArray[np.int32], int]
"""The tokens of a text, and how many of them are its prompt."""

_STEP = 0x9E3779B97F4A7C15


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How tokens are chosen from p; the names and meanings are those of transformers.

    Of equally probable tokens the one with the lowest id is the most probable. The repetition
    penalty divides or multiplies scores, which are log p shifted so that they are the LM's logits
    where the automaton has no share; `process` makes other scores of them and the text so far.
    As OpenAI has them, `presence_penalty` is taken from the scores of tokens behind the prompt, and
    `frequency_penalty` as often as they are there.
    """

    do_sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int = 0
    process: Process | None = None

    def __post_init__(self) -> None:
        _check("temperature", self.temperature, 0 < self.temperature < math.inf, "above 0")
        _check("top_k", self.top_k, self.top_k is None or self.top_k >= 1, "1 or more, or None")
        _check("top_p", self.top_p, 0 < self.top_p <= 1, "above 0, and 1 at most")
        penalty = self.repetition_penalty
        _check("repetition_penalty", penalty, 0 < penalty < math.inf, "above 0")
        for name in ("presence_penalty", "frequency_penalty"):
            value = getattr(self, name)
            _check(name, value, math.isfinite(value), "a finite number")
        whole = isinstance(self.seed, int | np.integer)
        _check("seed", self.seed, whole and 0 <= self.seed < 1 << 63, "a whole number, 0 or more")

    @property
    def looks_back(self) -> bool:
        """Whether it depends on the text so far."""
        by_count = self.presence_penalty or self.frequency_penalty
        return bool(self.repetition_penalty != 1 or by_count or self.process is not None)

    def scores(self, scores: Floats, before: TextSoFar) -> Floats:
        """The scores that take the text so far into account."""
        text, prompt = before
        if self.repetition_penalty != 1:
            penalise(scores, text, self.repetition_penalty)
        if self.presence_penalty or self.frequency_penalty:
            tokens, counts = np.unique(text[prompt:], return_counts=True)
            scores[tokens] -= self.presence_penalty + self.frequency_penalty * counts
        return scores if self.process is None else self.process(text, scores)


def _check(name: str, value: object, holds: bool, must: str) -> None:
    if not holds:
        raise BadInput(f"{name} = {value}: must be {must}")


@compiled
def most_probable(
    shares: Floats,
    logits: NDArray[np.float32],
    normals: Floats,
    favourites: NDArray[np.int64],
    tokens: NDArray[np.int32],
    extra: Floats,
    counts: NDArray[np.int64],
    base: Floats,
    chosen: NDArray[np.int32],
) -> None:
    """Fill in the most probable token: the LM's favourite, or one that something is added to."""
    added = np.zeros(base.shape[1])
    for i in range(shares.shape[0]):
        token: Whole = favourites[i]
        most = shares[i] * math.exp(np.float64(logits[i, token]) - normals[i])
        if base.shape[1] == 0:
            for j in range(counts[i]):
                other = np.int64(tokens[i, j])
                p = shares[i] * math.exp(np.float64(logits[i, other]) - normals[i]) + extra[i, j]
                if p > most or (p == most and other < token):
                    most, token = p, other
            chosen[i] = token
            continue
        added[:] = base[i]
        for j in range(counts[i]):
            added[tokens[i, j]] += extra[i, j]
        most += added[token]
        # One of its two parts must have half of what the most probable token has.
        least = np.inf
        if shares[i] > 0.0:
            least = normals[i] + math.log(most / (2.0 * shares[i]))
        for word in range(base.shape[1]):
            if logits[i, word] >= least or added[word] >= most / 2.0:
                p = shares[i] * math.exp(np.float64(logits[i, word]) - normals[i]) + added[word]
                if p > most or (p == most and word < token):
                    most, token = p, word
        chosen[i] = token


def choose(
    mixtures: Mixtures,
    choosing: Sequence[SamplingParams],
    keys: NDArray[np.uint64],
    before: Sequence[TextSoFar],
) -> NDArray[np.int32]:
    """A token per position, each chosen its own way; `keys` are those of `position_keys`."""
    chosen = np.empty(len(mixtures.shares), np.int32)
    others = [row for row, how in enumerate(choosing) if how.do_sample or how.looks_back]
    if len(others) < len(chosen):
        lm = mixtures.shares, mixtures.logits, mixtures.normals, mixtures.favourites
        added = mixtures.tokens, mixtures.extra, mixtures.counts, mixtures.base
        most_probable(*lm, *added, chosen)
    if not others:
        return chosen
    whole = mixtures if len(others) == len(chosen) else mixtures.select(np.array(others))
    for row, weight in zip(others, whole.dense(), strict=True):
        how = choosing[row]
        if how.looks_back:
            with np.errstate(divide="ignore"):
                scores = np.log(weight) + mixtures.normals[row]
            scores = how.scores(scores, before[row])
            weight = np.exp(scores - scores.max())
        if how.do_sample:
            cut(weight, how)
            chosen[row] = race(weight, keys[row])
        else:
            chosen[row] = weight.argmax()
    return chosen


def most_likely(mixture: Mixtures, token: int, count: int) -> list[tuple[int, float]]:
    """The `count` most probable tokens of one position with their log p, the likeliest first.

    The token that was chosen is there, too; its log p is the one that is noted for it.
    """
    (p,) = mixture.dense()
    first = np.argpartition(-p, min(count, len(p)) - 1)[:count]
    tokens = np.union1d(first, [token]).astype(np.int32)
    logs = [float(mixture.log_p(tokens[i : i + 1])[0][0]) for i in range(len(tokens))]
    pairs = zip(tokens.tolist(), logs, strict=True)
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


def penalise(scores: Floats, before: NDArray[np.int32], penalty: float) -> None:
    """Make tokens of the text before less probable (more, if the penalty is below 1), in place."""
    tokens = np.unique(before)
    score = scores[tokens]
    scores[tokens] = np.where(score < 0, score * penalty, score / penalty)


def cut(weight: Floats, choosing: SamplingParams) -> None:
    """Heat, then leave the most probable tokens alone, in place; what is left need not sum to 1."""
    if choosing.temperature != 1:
        # Relative to the largest one, or all could vanish.
        np.power(weight / weight.max(), 1 / choosing.temperature, out=weight)
    if choosing.top_k is not None and choosing.top_k < len(weight):
        least = np.partition(weight, -choosing.top_k)[-choosing.top_k]
        weight[weight < least] = 0.0
    if choosing.top_p < 1:
        weight[weight < _least_of_top(weight, choosing.top_p)] = 0.0


def _least_of_top(weight: Floats, top_p: float) -> float:
    """The smallest of the largest weights that have a share of `top_p` together."""
    total = weight.sum()
    # Weights below this share of the rest have less than the rest together.
    heavy = np.sort(weight[weight >= (1 - top_p) * total / len(weight)])[::-1]
    place = int(np.searchsorted(np.cumsum(heavy), top_p * total))
    return float(heavy[min(place, len(heavy) - 1)])


@compiled
def race(weights: Floats, key: np.uint64) -> Whole:
    """The token that finishes first; its chance is its share of the weights."""
    best, token = 0.0, 0
    for i in range(weights.shape[0]):
        if weights[i] > 0.0:
            uniform = _uniform(key, i)
            # The time -log(uniform) is 1 - uniform at least: most need no logarithm.
            if weights[i] > best * (1.0 - uniform):
                speed = weights[i] / -math.log(uniform)
                if speed > best:
                    best, token = speed, i
    return token


@compiled
def _uniform(key: np.uint64, token: Whole) -> float:
    """A number in (0, 1), by SplitMix64."""
    mixed = key + np.uint64(token + 1) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    made: float = (np.float64(mixed >> np.uint64(11)) + 0.5) / 9007199254740992.0
    return made


def position_keys(
    seeds: NDArray[np.uint64], texts: NDArray[np.uint64], positions: Rows
) -> NDArray[np.uint64]:
    """What the random numbers of positions come from; `texts` tells texts apart."""
    mixed = texts + seeds * np.uint64(_STEP)
    for part in (positions.astype(np.uint64), np.uint64(1)):
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9) + part
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed
