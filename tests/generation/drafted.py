"""A source of drafts for tests: it knows the texts, and is wrong now and then."""

import numpy as np

MOST = 5
WRONG = 0.3


class Guessing:
    """Drafts of 0 to MOST tokens of known texts, some of them altered."""

    def __init__(self, texts, seed=0):
        self._texts = [np.array(text, np.int32) for text in texts]
        self._random = np.random.default_rng(seed)
        self.stood = 0

    def draft(self, standing):
        made = np.full((len(standing.lengths), MOST), -1, np.int32)
        for row, (length, room) in enumerate(zip(standing.lengths, standing.room, strict=True)):
            so_far = standing.texts[row, :length]
            known = next(t for t in self._texts if np.array_equal(t[:length], so_far))
            size = min(self._random.integers(0, MOST + 1), room)
            guess = known[length : length + size]
            wrong = self._random.random(len(guess)) < WRONG
            made[row, : len(guess)] = np.where(wrong, (guess + 1) % 200, guess)
        return made

    def learn(self, verified):
        assert (verified.accepted <= verified.drafted).all()
        assert verified.width > verified.drafted.max()
        self.stood += int(verified.accepted.sum())
