"""A mixing gives the whole distribution; a token's probability in it is what scoring says."""

import numpy as np
import pytest

from retomaton_dist.automaton.lanes import Distributions
from retomaton_dist.evaluation.walking import RestartEntries, Track
from retomaton_dist.methods import adaptret_network, mixture_network
from retomaton_dist.methods.constant import ConstantMixing
from retomaton_dist.methods.lm import LmAlone
from retomaton_dist.methods.mixing import distribution, log_target, temperatures_for
from retomaton_dist.methods.mixture import Constants
from retomaton_dist.methods.registry import METHODS
from retomaton_dist.scores.reading import Reading
from retomaton_dist.scores.seen import SeenRows
from retomaton_dist.scores.walks import Walked
from retomaton_dist.settings import WalkSettings
from tests.automaton.make import make, random_corpus
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
    """What an LM might say at one position of every document, and its whole distribution."""
    p_lm = random.dirichlet(np.ones(VOCABULARY), DOCUMENTS)
    logs = np.log(p_lm)
    reading = Reading(
        random.normal(size=(DOCUMENTS, DIMENSION)).astype(np.float16),
        np.zeros(DOCUMENTS, np.int32),
        previous,
        logs[:, 0].astype(np.float32),
        -(p_lm * logs).sum(axis=1).astype(np.float32),
        logs.max(axis=1).astype(np.float32),
        p_lm.argmax(axis=1).astype(np.int32),
    )
    return reading, p_lm


def journey(spec, seed):
    """Positions of documents: what was read, its p_lm, and the track that has just joined."""
    random = np.random.default_rng(seed)
    automaton = make(random_corpus(random, ENTRIES, 40, VOCABULARY), "fp16", seed).automaton
    track = Track(automaton, [spec], WALK, np.arange(DOCUMENTS), 1) if spec else None
    previous = np.full(DOCUMENTS, -1, np.int32)
    for _ in range(STEPS):
        reading, p_lm = read(random, previous)
        if track is not None:
            # A closed gate leaves a forgetful walk without candidates.
            track.advance(DOCUMENTS, previous, random.random(DOCUMENTS) < 0.7)
            lengths = random.integers(0, 4, DOCUMENTS).astype(np.int32)
            track.restart(lengths, random.random(DOCUMENTS))
            ready = automaton.ready(reading.queries)
            found = [random.integers(0, ENTRIES, (DOCUMENTS, WALK.k)) for _ in range(2)]
            track.join(ready, *(RestartEntries(ready, entries) for entries in found))
        yield reading, p_lm, track
        previous = random.integers(0, VOCABULARY, DOCUMENTS).astype(np.int32)


def recorded(track, reading, targets, temperatures):
    """What the walk came to if these were the tokens."""
    found = Walked.empty((1, DOCUMENTS), len(temperatures))
    if track is not None:
        rows = np.arange(DOCUMENTS)
        track.record(rows, targets, reading.favourites, np.array(temperatures), found)
    return found.of_walk(0)


def of_token(reading, p_lm, token):
    """The same reading if every document's token was this one."""
    columns = vars(reading) | {
        "tokens": np.full(DOCUMENTS, token, np.int32),
        "log_lm": np.log(p_lm[:, token]).astype(np.float32),
    }
    return Reading(**columns)


def whole(mixing, seen, walked, p_lm, track):
    """p of every token, from the lanes that were walked; those with closed gates stay out."""
    if track is None:
        return distribution(mixing, seen, walked, p_lm, nothing())
    found = track.lanes.distributions(mixing.versions)
    found.counts[~np.isfinite(walked.nearest)] = 0
    return distribution(mixing, seen, walked, p_lm, found)


def nothing():
    """The distribution of lanes without candidates."""
    return Distributions(
        np.zeros((DOCUMENTS, 0), np.int32),
        np.zeros((DOCUMENTS, 0, 0)),
        np.zeros(DOCUMENTS, np.int64),
    )


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_a_distribution_that_agrees_with_its_scores(name, scored, monkeypatch):
    # What is learned does not matter here.
    for module in (adaptret_network, mixture_network):
        monkeypatch.setattr(module, "EPOCHS", 1)
    method = METHODS[name]
    points = list(method.points(SETUP, method.calibrate(scored, SETUP)))
    for number, point in enumerate({point.spec: point for point in points}.values()):
        mixing, carried = point.mixing, np.zeros(DOCUMENTS, np.int64)
        grid = temperatures_for(mixing) or (1.0,)
        for reading, p_lm, track in journey(point.spec, number):
            found = []
            for token in range(VOCABULARY):
                told = of_token(reading, p_lm, token)
                seen = SeenRows(grid, told, np.arange(DOCUMENTS), carried)
                walked = recorded(track, told, told.tokens, grid)
                found.append(log_target(mixing, seen, walked))
            p = whole(mixing, seen, walked, p_lm, track)
            assert p.sum(axis=1) == pytest.approx(1.0, abs=1e-9)
            assert np.allclose(p.T, np.exp(found), rtol=1e-5, atol=1e-9)
            carried = seen.since_restart(walked.searched | (walked.matched > 0)) + 1


def test_lambda_0_and_no_candidates_are_the_lm_to_the_last_bit():
    random = np.random.default_rng(1)
    constants = [ConstantMixing(Constants(weight, 2.0)) for weight in (0.0, 0.6)]
    for mixing in (LmAlone(), *constants):
        reading, p_lm = read(random, np.full(DOCUMENTS, -1, np.int32))
        seen = SeenRows((2.0,), reading, np.arange(DOCUMENTS), np.zeros(DOCUMENTS))
        walked = Walked.empty((DOCUMENTS,), 1)
        assert np.array_equal(log_target(mixing, seen, walked), reading.log_lm)
        assert np.array_equal(distribution(mixing, seen, walked, p_lm, nothing()), p_lm)
    (spec,) = METHODS["knnlm"].walks(SETUP)
    for reading, p_lm, track in journey(spec, 3):
        seen = SeenRows((2.0,), reading, np.arange(DOCUMENTS), np.zeros(DOCUMENTS))
        walked = recorded(track, reading, reading.tokens, (2.0,))
        assert np.array_equal(log_target(constants[0], seen, walked), reading.log_lm)
        assert np.array_equal(whole(constants[0], seen, walked, p_lm, track), p_lm)
