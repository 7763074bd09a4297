"""What a method makes better and what it makes worse, token by token, against a baseline.

A gain is the logarithm of how much more probable the token became: the perplexity's ratio is
exp(-mean gain). So gains and losses can be told apart, by token and by group of tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.analysis.bootstrap import Floats, Resampling
from retomaton_dist.analysis.groups import Grouping, Mask, by_restart
from retomaton_dist.engine.walks import WalkResult
from retomaton_dist.storage.canonical import Json

# A token whose probability changed by less than this (in logarithms) counts as unchanged.
UNCHANGED = 0.01
# Losses and gains are counted by how many times less or more probable tokens became.
FACTORS = (2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Compared:
    """A point of a method beside a baseline's: what both gave every token, and how it walked.

    `facts` say which they are.
    """

    facts: Json
    log_p: Floats
    baseline: Floats
    walked: WalkResult

    @property
    def gains(self) -> Floats:
        """Row by row; 0 where both are equal, impossible tokens included."""
        gains = np.zeros(len(self.log_p))
        np.subtract(self.log_p, self.baseline, out=gains, where=self.log_p != self.baseline)
        return gains


def describe_gains(
    compared: Compared, groupings: Sequence[Grouping], resampling: Resampling
) -> Json:
    """Gains and losses over all tokens, and group by group."""
    gains = compared.gains
    everything = np.ones(len(gains), np.bool_)
    return {
        **compared.facts,
        "all": _described(compared, gains, everything, resampling),
        "better": _one_side(gains[gains > UNCHANGED], len(gains)),
        "worse": _one_side(-gains[gains < -UNCHANGED], len(gains)),
        "groupings": [
            {
                "title": grouping.title,
                "groups": [
                    {"name": name, **_described(compared, gains, rows, resampling)}
                    for name, rows in grouping.groups.items()
                    if rows.any()
                ],
            }
            for grouping in [*groupings, by_restart(compared.walked)]
        ],
    }


def _described(compared: Compared, gains: Floats, rows: Mask, resampling: Resampling) -> Json:
    """One group: its size, both perplexities, their ratio, and shares of better and worse."""
    chosen = gains[rows]
    return {
        "tokens": len(chosen),
        "baseline": float(np.exp(-compared.baseline[rows].mean())),
        "perplexity": float(np.exp(-compared.log_p[rows].mean())),
        "ratio": float(np.exp(-chosen.mean())),
        "interval": resampling.ratio_among(-gains, rows),
        "better": float((chosen > UNCHANGED).mean()),
        "worse": float((chosen < -UNCHANGED).mean()),
    }


def _one_side(sizes: NDArray[np.float64], tokens: int) -> Json:
    """The gains, or the losses: how many, how large, and what they do to the perplexity alone."""
    return {
        "share": len(sizes) / tokens,
        "factor": float(np.exp(sizes.sum() / tokens)),
        "by_at_least": [
            [factor, float((sizes >= np.log(factor)).sum() / tokens)] for factor in FACTORS
        ],
    }
