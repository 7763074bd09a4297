"""How long drafts should be: as long as they pay, by what was accepted and what passes took.

A step over a row's last token and n drafted ones gives 1 + (accepted ones) tokens. It takes a
forward pass, and walking, searching (some of it ahead, in vain) and drawing: the whole of it is
measured. The best n has the least seconds per expected token; n may be 0.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.compiled import Whole, compiled
from retomaton_dist.generation.drafts import Verified

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

# Lengths that are tried: the best of them is within a few percent of the best of all.
LENGTHS = (0, 1, 2, 3, 4, 6, 8, 12, 16)
# What is believed before anything was seen, as if from so many drafted tokens: that a token stands
# as often as the share of its voters says, but for a discount; and by how much a token makes a
# pass dearer.
BELIEF, DISCOUNT = 4.0, 0.6
SUREST = 0.98
DEARER = 0.08
# Passes over one token before anything is drafted; passes that a width's cost is learnt from.
WARMING, LEARNT = 4, 4
# Weights of the newest observation: in what a unit is, and in a cost that is learnt.
NEWEST, SLOWLY = 0.1, 0.03
# How much of what was seen of acceptance is forgotten with every step.
FORGOTTEN = 0.01
# One strange pass (another process, a page fault) may not move the estimate further than this.
STRANGE = 2.0
# Drafts must promise so much more speed: estimates err, and nothing may get slower for them.
GAIN = 1.08
# Where drafts would pay if wider passes were so much less dear, it is tried out whether they are,
# after so many steps; these double as long as it fails.
HOPE = 0.5
FIRST_TRIAL, LAST_TRIAL = 16, 512
# Borders between kinds of drafted tokens, by their support and by its share.
SUPPORTS = np.array([2, 3, 5, 9])
SHARES = np.array([0.1, 0.2, 0.4, 0.6, 0.8, 0.95])
MIDDLES = (np.append(SHARES, 1.0) + np.append(0.0, SHARES)) / 2
# Where nothing was drafted for so many steps, guesses are made at every second step only, and so
# on, up to every so many steps.
IDLE, SELDOM = 8, 8


class Acceptance:
    """How often a guessed token stood where all before it did, by what spoke for it.

    Kinds that were not seen yet are believed to stand as their shares say, times what all kinds
    together turned out to.
    """

    def __init__(self) -> None:
        shape = len(SUPPORTS) + 1, len(SHARES) + 1
        self._tried, self._stood = np.zeros(shape), np.zeros(shape)

    def expected(self, support: Counts, shares: Floats) -> Floats:
        """Chance of every guessed token [rows, tokens] that it and all before it stand.

        It is 0 where nothing supports a token: none is drafted there.
        """
        found = np.zeros(support.shape)
        _expect(self._tried, self._stood, support, shares, found)
        return found

    def learn(self, support: Counts, shares: Floats, tried: Counts, stood: Counts) -> None:
        """Take note of the first `tried` tokens of each row, of which the first `stood` stood."""
        if tried.any():
            self._tried *= 1 - FORGOTTEN
            self._stood *= 1 - FORGOTTEN
            _count(self._tried, self._stood, support, shares, tried, stood)


@compiled
def _expect(tried: Floats, stood: Floats, support: Counts, shares: Floats, found: Floats) -> None:
    promised = (tried.sum(axis=0) * MIDDLES).sum()
    factor = (stood.sum() + BELIEF * DISCOUNT) / (promised + BELIEF)
    for row in range(support.shape[0]):
        chance = 1.0
        for place in range(support.shape[1]):
            if support[row, place] <= 0:
                break
            kind, share = _kind(SUPPORTS, support[row, place]), _kind(SHARES, shares[row, place])
            believed = min(factor * MIDDLES[share], SUREST)
            chance *= (stood[kind, share] + BELIEF * believed) / (tried[kind, share] + BELIEF)
            found[row, place] = chance


@compiled
def _count(
    tried: Floats, stood: Floats, support: Counts, shares: Floats, first: Counts, kept: Counts
) -> None:
    for row in range(support.shape[0]):
        for place in range(first[row]):
            kind, share = _kind(SUPPORTS, support[row, place]), _kind(SHARES, shares[row, place])
            tried[kind, share] += 1.0
            if place < kept[row]:
                stood[kind, share] += 1.0


@compiled
def _kind(borders: NDArray[Any], value: float) -> Whole:
    kind = 0
    while kind < borders.shape[0] and borders[kind] <= value:
        kind += 1
    return kind


class PassCost:
    """What a step takes by the width of its pass, in units of a step over one token of each row.

    What accepted tokens take besides the pass they would take undrafted, too: it is `more` of
    `rest`, and no part of a width's cost.
    """

    def __init__(self) -> None:
        self._ratios = {1: 1.0}
        self._passes: Counter[int] = Counter()
        self._unit = np.inf
        self._rest = 0.0

    @property
    def known(self) -> bool:
        """Whether there is a unit: the very first passes are slower than others."""
        return self._passes[1] >= WARMING

    def ratio(self, width: int) -> float:
        """What a pass over so many tokens of a row takes; guessed from the nearest width seen."""
        if width in self._ratios:
            return self._ratios[width]
        wide = [seen for seen in self._ratios if seen > 1]
        nearest = min(wide, key=lambda seen: abs(seen - width), default=None)
        dearer = DEARER if nearest is None else (self._ratios[nearest] - 1) / (nearest - 1)
        return 1 + max(dearer, 0.0) * (width - 1)

    def step(self, width: int, more: float) -> float:
        """What a step takes if each row has so many accepted tokens, on average."""
        return self.ratio(width) + more * self._rest

    def learn(self, width: int, seconds: float, rest: float, more: float) -> None:
        """Take note of a step: of its width's ratio while that is new, then of the unit.

        So it is the unit that follows how fast the machine is now, whatever the width.
        """
        whole = seconds + rest
        if width == 1 and not self.known:
            # Whatever comes between makes a step longer, never shorter.
            if whole < self._unit:
                self._unit, self._rest = whole, rest / whole
        elif self.known:
            self._correct(width, max(whole - more * self._rest * self._unit, seconds))
        self._passes[width] += 1

    def _correct(self, width: int, seconds: float) -> None:
        expected, passes = self.ratio(width), self._passes[width]
        off = seconds / self._unit / expected - 1
        off = min(max(off, 1 / STRANGE - 1), STRANGE - 1)
        if width > 1 and passes < LEARNT:
            # What was believed counts like one pass.
            self._ratios[width] = expected * (1 + off / (passes + 2))
            return
        self._unit *= 1 + NEWEST * off
        if width > 1:
            self._ratios[width] = expected * (1 + SLOWLY * off)


class DraftLength:
    """Chooses the length of drafts: `fixed`, or what pays best by the running estimates."""

    def __init__(self, fixed: int | None = None) -> None:
        self.most = LENGTHS[-1] if fixed is None else fixed
        self._fixed = fixed
        self._cost = PassCost()
        self._idle, self._wait = 0, FIRST_TRIAL
        self._on_trial = False
        # Steps since something was drafted, and until it is looked again what could be.
        self._since = self._until = 0

    @property
    def looks(self) -> bool:
        """Whether guesses are worth making at this step: they take time, too."""
        return self._fixed is not None or self._until <= 0

    def choose(self, chances: Floats) -> int:
        """How many tokens to draft, if those up to j stand with chance `chances[row, j]`."""
        if self._fixed is not None:
            return self._fixed
        self._on_trial = False
        if not self._cost.known:
            return 0
        longest = int(np.count_nonzero((chances > 0).any(axis=0)))
        chosen = best_length(chances, longest, self._cost.step)
        if chosen or not longest:
            return chosen
        self._idle += 1
        if self._idle >= self._wait and (hoped := best_length(chances, longest, self._hoped)):
            self._on_trial, self._idle = True, 0
            return hoped
        return 0

    def learn(self, verified: Verified) -> None:
        """Take note of a verified step; of one without drafts, too."""
        self._since = 0 if verified.drafted.any() else self._since + 1
        self._until = min(self._since // IDLE, SELDOM - 1) if self.looks else self._until - 1
        more = float(verified.accepted.mean())
        self._cost.learn(verified.width, verified.seconds, verified.rest, more)
        if self._on_trial and verified.drafted.any():
            paid = (1 + more) / self._cost.step(verified.width, more) > 1
            self._wait = FIRST_TRIAL if paid else min(2 * self._wait, LAST_TRIAL)

    def _hoped(self, width: int, more: float) -> float:
        cost = self._cost.step(width, more)
        return cost - (1 - HOPE) * (self._cost.ratio(width) - 1)


def best_length(chances: Floats, longest: int, cost: Callable[[int, float], float]) -> int:
    """The length of drafts that gives most tokens per time, if that is more than none gives.

    `chances[row, j]` is that a row's tokens up to j all stand; `cost(width, more)` is what a step
    takes with so many accepted tokens per row.
    """
    rows = len(chances)
    gained = np.concatenate([[0.0], np.cumsum(chances.sum(axis=0))]) / rows
    tried = sorted({min(length, longest) for length in LENGTHS})
    speeds = [(1 + gained[length]) / cost(1 + length, gained[length]) for length in tried]
    best = int(np.argmax(speeds))
    return tried[best] if speeds[best] >= GAIN * speeds[0] else 0
