"""How long drafts should be: as long as they pay, by what was accepted and what passes took.

A step over a row's last token and n drafted ones gives 1 + (accepted ones) tokens. It takes a
forward pass, and walking, searching (some of it ahead, in vain) and drawing: the whole of it is
measured. The best n has the least seconds per expected token; n may be 0.
"""

from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

# Lengths that are tried: the best of them is within a few percent of the best of all.
LENGTHS = (0, 1, 2, 3, 4, 6, 8, 12, 16)
# What is believed before anything was seen, as if from so many drafted tokens: that a token stands
# as often as the share of its voters says, a little less; and by how much a token makes a pass
# dearer.
BELIEF, DISCOUNT = 4.0, 0.8
DEARER = 0.05
# Passes over one token before anything is drafted; passes that a width's cost is learnt from.
WARMING, LEARNT = 2, 4
# Weights of the newest observation: in what a unit is, and in a cost that is learnt.
NEWEST, SLOWLY = 0.1, 0.03
# How much of what was seen of acceptance is forgotten with every step.
FORGOTTEN = 0.01
# One strange pass (another process, a page fault) may not move the estimate further than this.
STRANGE = 2.0
# Where drafting does not pay, steps until it is tried again; they double as long as it fails.
FIRST_TRIAL, LAST_TRIAL = 16, 512
TRIAL_LENGTH = 4
# Borders between kinds of drafted tokens, by their support and by its share.
SUPPORTS = np.array([2, 3, 5, 9])
SHARES = np.array([0.1, 0.2, 0.4, 0.6, 0.8, 0.95])


class Acceptance:
    """How often a drafted token stood, and all before it, by what spoke for it."""

    def __init__(self) -> None:
        shape = len(SUPPORTS) + 1, len(SHARES) + 1
        self._believed = DISCOUNT * (np.append(SHARES, 1.0) + np.append(0.0, SHARES)) / 2
        self._tried, self._stood = np.zeros(shape), np.zeros(shape)

    def expected(self, support: Counts, shares: Floats) -> Floats:
        """Chance of every drafted token [rows, tokens] that it and all before it stand.

        It is 0 where nothing supports a token: none is drafted there.
        """
        known = (self._stood + BELIEF * self._believed) / (self._tried + BELIEF)
        chances = known[_kinds(support, shares)]
        # A longer draft cannot be likelier to stand than its beginning.
        found: Floats = np.where(support > 0, np.minimum.accumulate(chances, axis=1), 0.0)
        return found

    def learn(self, support: Counts, shares: Floats, drafted: Counts, accepted: Counts) -> None:
        """Take note of how many tokens of each row's draft were tried, and how many stood."""
        tried = np.arange(support.shape[1]) < drafted[:, None]
        if not tried.any():
            return
        stood = np.arange(support.shape[1]) < accepted[:, None]
        self._tried *= 1 - FORGOTTEN
        self._stood *= 1 - FORGOTTEN
        np.add.at(self._tried, _kinds(support[tried], shares[tried]), 1.0)
        np.add.at(self._stood, _kinds(support[stood], shares[stood]), 1.0)


def _kinds(support: Counts, shares: Floats) -> tuple[Counts, Counts]:
    return np.searchsorted(SUPPORTS, support, "right"), np.searchsorted(SHARES, shares, "right")


class PassCost:
    """What a forward pass takes by its width, in units of a pass over one token."""

    def __init__(self) -> None:
        self._ratios = {1: 1.0}
        self._passes: Counter[int] = Counter()
        self._unit = 0.0

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

    def learn(self, width: int, seconds: float) -> None:
        """Take note of a pass: of its width's ratio while that is new, then of the unit.

        So it is the unit that follows how fast the machine is now, whatever the width.
        """
        if width == 1 and not self.known:
            self._unit = seconds
        elif self.known:
            self._correct(width, seconds)
        self._passes[width] += 1

    def _correct(self, width: int, seconds: float) -> None:
        expected, passes = self.ratio(width), self._passes[width]
        off = seconds / self._unit / expected - 1
        if width > 1 and passes < LEARNT:
            self._ratios[width] = expected * (1 + off / (passes + 1))
            return
        off = min(max(off, 1 / STRANGE - 1), STRANGE - 1)
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

    def choose(self, chances: Floats) -> int:
        """How many tokens to draft, if those up to j stand with chance `chances[row, j]`."""
        if self._fixed is not None:
            return self._fixed
        self._on_trial = False
        if not self._cost.known:
            return 0
        longest = int(np.count_nonzero((chances > 0).any(axis=0)))
        chosen = best_length(chances, longest, self._cost.ratio)
        if chosen == 0 and longest:
            self._idle += 1
            if self._idle >= self._wait:
                self._on_trial, self._idle = True, 0
                chosen = min(TRIAL_LENGTH, longest)
        return chosen

    def learn(self, drafted: Counts, accepted: Counts, width: int, seconds: float) -> None:
        """Take note of a verified step; of one without drafts, too."""
        self._cost.learn(width, seconds)
        if self._on_trial and drafted.any():
            paid = (1 + accepted.mean()) / self._cost.ratio(width) > 1
            self._wait = FIRST_TRIAL if paid else min(2 * self._wait, LAST_TRIAL)


def best_length(chances: Floats, longest: int, cost: Callable[[int], float]) -> int:
    """The length of drafts that gives most tokens per time, the shortest among equals.

    `chances[row, j]` is that a row's tokens up to j all stand; `cost(width)` is what a pass takes.
    """
    gained = np.concatenate([[0.0], np.cumsum(chances.sum(axis=0))])
    tried = sorted({min(length, longest) for length in LENGTHS})
    speeds = [(len(chances) + gained[length]) / cost(1 + length) for length in tried]
    return tried[int(np.argmax(speeds))]
