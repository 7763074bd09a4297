"""A mixing gives the whole distribution; a token's probability in it is what scoring says."""

import numpy as np
import pytest
import torch

from retomaton_dist.automaton.lanes import Distributions
from retomaton_dist.automaton.ngrams import NGrams
from retomaton_dist.automaton.suffixes import Suffixes
from retomaton_dist.engine.lm_output import LMOutput, normalise
from retomaton_dist.engine.mixture import (
    Candidates,
    ExpertDistributions,
    candidates_of,
    mixtures,
    temperatures_for,
)
from retomaton_dist.engine.online import OnlineMixing, log_target
from retomaton_dist.engine.retrieval import OpenRetrieval
from retomaton_dist.engine.text_models import TextModels
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
from tests.evaluation.scored import TEMPERATURES, random_walked, scores_of
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


class Texts:
    """The documents so far, and what models of text alone make of them."""

    def __init__(self, ngrams):
        self.models = TextModels(ngrams, True, VOCABULARY)
        self.tokens = np.zeros((DOCUMENTS, STEPS), np.int32)
        self.length = 0

    def append(self, tokens):
        self.tokens[:, self.length] = tokens
        self.length += 1

    def places(self):
        begins = np.arange(DOCUMENTS) * STEPS
        return self.tokens.ravel(), begins, begins + self.length

    def output(self, targets, favourites):
        return self.models.output(*self.places(), targets, favourites)

    def distributions(self):
        return self.models.distributions(*self.places())


def journey(spec, seed):
    """Positions of documents: what was read, its logits, the walker that has stepped, the texts."""
    random = np.random.default_rng(seed)
    made = make(random_corpus(random, ENTRIES, 40, VOCABULARY), "fp16", seed)
    suffixes = Suffixes.of(before_of(made.corpus.documents()), VOCABULARY, 3)
    values = np.asarray(made.corpus.values, np.int32)
    texts, walker = Texts(NGrams.of(suffixes, values, 3)), None
    if spec is not None:
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
        yield reading, logits, said, walker, texts
        previous = random.integers(0, VOCABULARY, DOCUMENTS).astype(np.int32)
        texts.append(previous)


def recorded(walker, spec, reading, grid):
    """What the walk came to if these were the tokens."""
    if walker is None:
        return WalkResult.empty((DOCUMENTS,), grid)
    return walker.results(grid, reading.tokens, reading.favourites)[spec]


def of_token(reading, logits, said, token, texts):
    """The same reading if every document's token was this one."""
    log_lm = logits[:, token] - said.normals.numpy()
    tokens = np.full(DOCUMENTS, token, np.int32)
    columns = {"tokens": tokens, "log_lm": log_lm.astype(np.float32)}
    return LMOutput(
        **vars(reading) | columns | {"text": texts and texts.output(tokens, reading.favourites)}
    )


def whole(mixing, spec, reading, logits, said, walker, walked, texts=None):
    """p of every token, from the same walk."""
    candidates, learned = (), None
    if walker is not None:
        versions = [(one.temperature, one.pointer_weight) for one in candidates_of(mixing.experts)]
        candidates = (walker.distributions(spec, versions),)
    if isinstance(mixing, OnlineMixing):
        learned = mixing.learned_shares(reading, walked)
        shares = mixing.shares(mixing.begin(DOCUMENTS), learned, walked)
    else:
        shares = mixing.shares(reading, walked)
    text = texts and texts.distributions()
    experts = ExpertDistributions(mixing.experts, candidates, text, learned)
    return mixtures(shares, logits, said, experts).dense()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_a_distribution_that_agrees_with_its_scores(name, scored, monkeypatch):
    # What is learned does not matter here.
    for module in (adaptret_network, mixture_network):
        monkeypatch.setattr(module, "EPOCHS", 1)
    method, each = METHODS[name], np.arange(DOCUMENTS, dtype=np.int32)
    points = list(method.points(SETUP, method.calibrate(scored, SETUP)))
    for number, point in enumerate({point.spec: point for point in points}.values()):
        mixing, grid = point.mixing, temperatures_for(point.mixing.experts)
        if isinstance(mixing, OnlineMixing):
            # Learned mixing looks at other temperatures, too.
            grid = TEMPERATURES
        for reading, logits, said, walker, texts in journey(point.spec, number):
            found = []
            for token in range(VOCABULARY):
                told = of_token(reading, logits, said, token, texts)
                walked = recorded(walker, point.spec, told, grid)
                found.append(log_target(mixing, told, walked, each))
            walked = WalkResult.empty((DOCUMENTS,), grid)
            if walker is not None:
                walked = walker.results(grid)[point.spec]
            p = whole(mixing, point.spec, told, logits, said, walker, walked, texts)
            assert p.sum(axis=1) == pytest.approx(1.0, abs=1e-7)
            assert np.allclose(p.T, np.exp(found), rtol=1e-5, atol=1e-9)


def test_lambda_0_and_no_candidates_are_the_lm_to_the_last_bit():
    random, each = np.random.default_rng(1), np.arange(DOCUMENTS, dtype=np.int32)
    constants = [ConstantMixing(Constants(weight, 2.0)) for weight in (0.0, 0.6)]
    for mixing in (LmAlone(), *constants):
        reading, logits, said = read(random, np.full(DOCUMENTS, -1, np.int32))
        told = of_token(reading, logits, said, 0, None)
        walked = WalkResult.empty((DOCUMENTS,), (2.0,))
        assert np.array_equal(log_target(mixing, told, walked, each), told.log_lm)
        p = whole(mixing, None, told, logits, said, None, walked)
        assert np.array_equal(p, np.exp(logits - said.normals.numpy()[:, None]))
    (spec,) = METHODS["knnlm"].walks(SETUP)
    for reading, logits, said, walker, _ in journey(spec, 3):
        told = of_token(reading, logits, said, 0, None)
        walked = recorded(walker, spec, told, (2.0,))
        assert np.array_equal(log_target(constants[0], told, walked, each), told.log_lm)
        p = whole(constants[0], spec, told, logits, said, walker, walked)
        assert np.array_equal(p, np.exp(logits - said.normals.numpy()[:, None]))


def test_candidates_of_several_stores_add_up_whatever_pads_their_lists():
    random, rows, vocabulary = np.random.default_rng(4), 3, 6
    stores = []
    for most in (4, 2):
        counts = random.integers(0, most + 1, rows)
        tokens = np.array([random.permutation(vocabulary)[:most] for _ in range(rows)], np.int32)
        p = random.random((rows, 1, most))
        stores.append(Distributions(tokens, p, counts))
    experts = ExpertDistributions((Candidates(1.0, 1.0), Candidates(1.0, 1.0, 1)), tuple(stores))
    shares = random.dirichlet(np.ones(3), rows)
    logits = random.normal(size=(rows, vocabulary)).astype(np.float32)
    said = normalise(torch.from_numpy(logits))
    mixed = mixtures(shares, logits, said, experts)
    expected = shares[:, :1] * np.exp(logits - said.normals.numpy()[:, None])
    for place, store in enumerate(stores, start=1):
        for row in range(rows):
            for j in range(store.counts[row]):
                given = shares[row, place] * store.probabilities[row, 0, j]
                expected[row, store.tokens[row, j]] += given
    assert mixed.dense() == pytest.approx(expected)
    for token in range(vocabulary):
        log_p, _ = mixed.log_p(np.full(rows, token, np.int32))
        assert np.exp(log_p) == pytest.approx(expected[:, token])
