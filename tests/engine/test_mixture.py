"""A mixing gives the whole distribution; a token's probability in it is what scoring says."""

import numpy as np
import pytest
import torch

from retomaton_dist.automaton.suffixes import Suffixes
from retomaton_dist.engine.lm_output import LMOutput, normalise
from retomaton_dist.engine.mixture import log_target, mixtures, temperatures_for
from retomaton_dist.engine.retrieval import OpenRetrieval
from retomaton_dist.engine.walker import Walker
from retomaton_dist.engine.walks import WalkResult
from retomaton_dist.methods import adaptret_network, mixture_network
from retomaton_dist.methods.constant import ConstantMixing, Constants
from retomaton_dist.methods.lm import LmAlone
from retomaton_dist.methods.registry import METHODS
from retomaton_dist.settings import WalkSettings
from tests.automaton.make import make, random_corpus
from tests.automaton.suffix_oracle import before_of
from tests.codec.make import DIMENSION
from tests.evaluation.scored import random_walked, scores_of
from tests.methods.test_registry import LABELS, RESTARTS, SETUP

VOCABULARY, ENTRIES, DOCUMENTS, STEPS = 9, 300, 6, 5
WALK = WalkSettings(k=4, max_knns=9, max_states=6)


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A made-up calibration text."""
    random = np.random.default_rng(0)
    walks = {label: random_walked(random, 200) for label in (*LABELS, *RESTARTS)}
    for label in ("knnlm", "knnlm+wide"):
        walks[label] = random_walked(random, 200, searched=1.0, empty=0.0)
    queries = random.normal(size=(200, DIMENSION)).astype(np.float16)
    folder = tmp_path_factory.mktemp("scores")
    return scores_of(folder, np.repeat(np.arange(10), 20), walks, random, queries)


def read(random, previous):
    """What an LM might say at one position of every document, with its logits."""
    logits = np.log(random.dirichlet(np.ones(VOCABULARY), DOCUMENTS)).astype(np.float32)
    said = normalise(torch.from_numpy(logits))
    reading = LMOutput(
        random.normal(size=(DOCUMENTS, DIMENSION)).astype(np.float16),
        np.zeros(DOCUMENTS, np.int32),
        previous,
        np.zeros(DOCUMENTS, np.float32),
        said.entropy.numpy(),
        said.confidence.numpy(),
        said.favourites.numpy().astype(np.int32),
    )
    return reading, logits, said


def journey(spec, seed):
    """Positions of documents: what was read, its logits, and the walker that has just stepped."""
    random = np.random.default_rng(seed)
    made = make(random_corpus(random, ENTRIES, 40, VOCABULARY), "fp16", seed)
    before = before_of(made.corpus.documents())
    walker = None
    if spec is not None:
        suffixes = Suffixes.of(before, VOCABULARY, 3)
        retrieval = OpenRetrieval(WALK, {spec.automaton: made.automaton}, suffixes=suffixes)
        walker = Walker(retrieval, [spec], DOCUMENTS)
        walker.begin(np.arange(DOCUMENTS), np.arange(DOCUMENTS))
    previous = np.full(DOCUMENTS, -1, np.int32)
    for _ in range(STEPS):
        reading, logits, said = read(random, previous)
        if walker is not None:
            count = retrieval.neighbours([spec])
            # A closed gate leaves a stateless walk without candidates.
            gate = random.random(DOCUMENTS) < 0.7
            walker.step(
                np.arange(DOCUMENTS),
                previous,
                reading.queries,
                lambda places, count=count: random.integers(0, ENTRIES, (len(places), count)),
                gate,
            )
        yield reading, logits, said, walker
        previous = random.integers(0, VOCABULARY, DOCUMENTS).astype(np.int32)


def recorded(walker, spec, reading, grid):
    """What the walk came to if these were the tokens."""
    if walker is None:
        return WalkResult.empty((DOCUMENTS,), grid)
    return walker.results(grid, reading.tokens, reading.favourites)[spec]


def of_token(reading, logits, said, token):
    """The same reading if every document's token was this one."""
    log_lm = logits[:, token] - said.normals.numpy()
    columns = {"tokens": np.full(DOCUMENTS, token, np.int32), "log_lm": log_lm.astype(np.float32)}
    return LMOutput(**vars(reading) | columns)


def whole(point_mixing, spec, reading, logits, said, walker, walked):
    """p of every token, from the same walk."""
    found = None
    if walker is not None:
        found = walker.distributions(spec, point_mixing.experts)
    return mixtures(point_mixing.log_shares(reading, walked), logits, said, found).dense()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_a_distribution_that_agrees_with_its_scores(name, scored, monkeypatch):
    # What is learned does not matter here.
    for module in (adaptret_network, mixture_network):
        monkeypatch.setattr(module, "EPOCHS", 1)
    method = METHODS[name]
    points = list(method.points(SETUP, method.calibrate(scored, SETUP)))
    for number, point in enumerate({point.spec: point for point in points}.values()):
        mixing, grid = point.mixing, temperatures_for(point.mixing)
        for reading, logits, said, walker in journey(point.spec, number):
            found = []
            for token in range(VOCABULARY):
                told = of_token(reading, logits, said, token)
                found.append(log_target(mixing, told, recorded(walker, point.spec, told, grid)))
            walked = WalkResult.empty((DOCUMENTS,), grid)
            if walker is not None:
                walked = walker.results(grid)[point.spec]
            p = whole(mixing, point.spec, reading, logits, said, walker, walked)
            assert p.sum(axis=1) == pytest.approx(1.0, abs=1e-7)
            assert np.allclose(p.T, np.exp(found), rtol=1e-5, atol=1e-9)


def test_lambda_0_and_no_candidates_are_the_lm_to_the_last_bit():
    random = np.random.default_rng(1)
    constants = [ConstantMixing(Constants(weight, 2.0)) for weight in (0.0, 0.6)]
    for mixing in (LmAlone(), *constants):
        reading, logits, said = read(random, np.full(DOCUMENTS, -1, np.int32))
        walked, told = WalkResult.empty((DOCUMENTS,), (2.0,)), of_token(reading, logits, said, 0)
        assert np.array_equal(log_target(mixing, told, walked), told.log_lm)
        p = whole(mixing, None, told, logits, said, None, walked)
        assert np.array_equal(p, np.exp(logits - said.normals.numpy()[:, None]))
    (spec,) = METHODS["knnlm"].walks(SETUP)
    for reading, logits, said, walker in journey(spec, 3):
        told = of_token(reading, logits, said, 0)
        walked = recorded(walker, spec, told, (2.0,))
        assert np.array_equal(log_target(constants[0], told, walked), told.log_lm)
        p = whole(constants[0], spec, told, logits, said, walker, walked)
        assert np.array_equal(p, np.exp(logits - said.normals.numpy()[:, None]))
