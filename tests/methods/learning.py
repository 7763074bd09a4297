"""What networks learn from, made up."""

import numpy as np
import torch

from retomaton_dist.engine.lm_output import LMOutput
from retomaton_dist.methods.adaptret_network import AdaptRetNetwork, _Net
from retomaton_dist.methods.token_statistics import TokenStatistics

DIMENSION = 8
VOCABULARY = 9


def random_reading(random, rows, dimension):
    """What a model might have said; previous tokens are often a document's start."""
    tokens = random.integers(0, VOCABULARY, rows).astype(np.int32)
    return LMOutput(
        random.normal(size=(rows, dimension)).astype(np.float16),
        tokens,
        np.where(random.random(rows) < 0.2, -1, np.roll(tokens, 1)).astype(np.int32),
        np.log(random.random(rows)).astype(np.float32),
        random.random(rows).astype(np.float32),
        np.log(random.random(rows)).astype(np.float32),
        random.integers(0, VOCABULARY, rows).astype(np.int32),
    )


def random_statistics(random):
    """Numbers for every token and for a document's start."""
    return TokenStatistics(*random.random((2, VOCABULARY + 1)).astype(np.float32))


def random_network(seed=0):
    """A network that has learned nothing."""
    torch.manual_seed(seed)
    return AdaptRetNetwork(_Net(DIMENSION).eval(), random_statistics(np.random.default_rng(seed)))
