"""A loaded store scores as an evaluation does, whatever the method; bad input gets one line."""

import math
import shutil

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.engine.online import log_target
from retomaton_dist.errors import BadInput, RetomatonError
from retomaton_dist.evaluation.measure import walked_by
from retomaton_dist.methods.registry import METHODS
from retomaton_dist.storage import scores as parquet
from tests.cli.checks import check_refused
from tests.generation.calibrated import make_calibrated
from tests.lm.tiny import byte_level_tokenizer

CONSTANT = {"method": "retomaton", "lambda_": 0.3, "knn_temperature": 4.0}


@pytest.fixture(scope="module")
def calibrated(walkable_store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrated")
    return make_calibrated(walkable_store.copy(folder).path, folder)


def asked_for(point):
    """What `load` is told to come to a point of an evaluation."""
    spec, facts = point.spec, point.facts
    if spec is None or (spec.stateless and not spec.searches):
        return {}
    if spec.stateless:
        return {"foss": facts["fraction"]}
    sigma = {"sigma": facts["sigma"]} if "sigma" in facts else {}
    if "share" in facts:
        sigma = {"sigma": 0.0 if spec.sigma == 0 else 2.0}
    return {"automaton": spec.automaton, "tau": spec.tau, **sigma}


def shown(method, points):
    """Some of a method's points: those in the middle of its curves."""
    return [
        point
        for point, _ in points
        if point.method == method
        and point.facts.get("fraction", 0.5) == 0.5
        and (point.spec is None or point.spec.stateless or point.spec.tau == 4.0)
    ]


@pytest.mark.parametrize("method", METHODS)
def test_a_score_is_what_an_evaluation_has_for_the_same_text(calibrated, method):
    points = list(calibrated.evaluation.points())
    scores, chosen = points[0][1], shown(method, points)
    assert chosen, "a method that is not compared is not tested"
    for point in chosen:
        lm = rd.load(calibrated.path, method=method, **asked_for(point))
        assert lm.point.spec == point.spec
        found = lm.score(calibrated.documents)
        walked = walked_by(point, scores)
        expected = log_target(point.mixing, scores, walked, scores.document)
        assert np.allclose(np.concatenate([one.log_p for one in found]), expected, atol=1e-5)
        assert np.allclose(np.concatenate([one.log_lm for one in found]), scores.log_lm, atol=1e-5)
        searched = np.concatenate([one.searched for one in found])
        assert np.array_equal(searched, walked.searched)
        assert np.array_equal(np.concatenate([one.states for one in found]), walked.states)
        assert np.array_equal(np.concatenate([one.tokens for one in found]), scores.token)
        assert sum(one.total for one in found) == pytest.approx(expected.sum(), abs=1e-2)


def test_by_default_the_walk_saves_what_the_calibration_aimed_at(calibrated):
    learned = {"method": "retomaton+lambda"}
    lm = rd.load(calibrated.path, **learned)
    assert (lm.method, lm.calibration) == ("retomaton+lambda", "default")
    assert lm.point.spec.automaton == "kmeans"
    told = rd.load(calibrated.path, foss=0.4, **learned)
    assert told.point.spec == lm.point.spec
    fewer, most = (
        rd.load(calibrated.path, foss=foss, **learned).point.spec.tau for foss in (0.1, 0.0)
    )
    assert lm.point.spec.tau <= fewer < most == math.inf
    assert "calibration 'default'" in str(lm)
    assert repr(lm) == f"<RetomatonLM: {lm}>"


def test_by_default_all_is_mixed_that_needs_no_search_and_what_was_learned_with_it(
    calibrated, walkable_store
):
    lm = rd.load(calibrated.path)
    assert (lm.method, lm.calibration) == ("retomaton+suffix+ngram+cache+lambda", "default")
    lm = rd.load(walkable_store.path)
    assert (lm.method, lm.calibration) == ("retomaton+suffix+ngram+cache", None)
    assert lm.retrieval.index is None
    assert not np.concatenate([one.searched for one in lm.score(calibrated.documents)]).any()


def test_the_lm_alone_is_there_whatever_was_calibrated(calibrated, tmp_path):
    copy = shutil.copytree(calibrated.path, tmp_path / "copy.store")
    held_out = tmp_path / "held-out.txt"
    held_out.write_text("a key and a pointer\nwalk the states\n" * 20)
    methods = {"methods": "retomaton", "name": "other", "workers": 0, "progress": "none"}
    rd.calibrate(copy, on=held_out, **methods)
    assert rd.load(copy, method="lm").calibration is None


def test_lambda_0_is_the_lm_to_the_last_bit(calibrated):
    text = calibrated.documents[:5]
    plain = rd.load(calibrated.path, method="lm").score(text)
    for found, expected in zip(
        rd.load(calibrated.path, method="retomaton", lambda_=0.0).score(text), plain, strict=True
    ):
        assert np.array_equal(found.log_p, found.log_lm)
        assert np.array_equal(found.log_p, expected.log_p)
        assert found.perplexity == found.perplexity_of_lm


def test_tokens_score_as_their_text_and_texts_alone_as_together(calibrated):
    lm = rd.load(calibrated.path)
    texts = calibrated.documents[:4]
    together = lm.score(texts)
    for text, scored in zip(texts, together, strict=True):
        (alone,) = lm.score([text])
        (tokens,) = lm.score([lm.encode(text).tolist()])
        for other in (alone, tokens):
            assert np.array_equal(other.tokens, scored.tokens)
            assert np.allclose(other.log_p, scored.log_p, atol=1e-4)


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"method": "retomaten"}, "--method retomaten: choose from lm, knnlm"),
        ({"tau": 0.5}, "--tau 0.5: at least 1"),
        ({"tau": 2, "foss": 0.2}, "give --tau or --foss, not both"),
        ({"foss": 1.5}, "--foss 1.5: must be at least 0, at most 1"),
        ({"method": "retomaton+lambda", "foss": 0.999}, "saved at most 0."),
        ({"method": "retomaton+lambda", "sigma": 2}, "retomaton+lambda has no sigma"),
        ({"method": "lm", "tau": 2}, "lm has no tau"),
        ({"method": "adaptret", "foss": 0.33}, "adaptret was calibrated for 0.0, 0.1"),
        ({"method": "retomaton+suffix", "tau": 2, "sigma": 3}, "sigma"),
        ({"method": "retomaton+suffix", "sigma": -1}, "--sigma -1"),
        ({"method": "retomaton+suffix+lambda", "tau": 2, "sigma": 9}, "sigma 9: the suffix index"),
        ({"lambda_": 0.5}, "retomaton+suffix+ngram+cache+lambda takes no lambda"),
        ({"method": "retomaton", "lambda_": 1.0}, "--lambda 1: must be at least 0 and below 1"),
        ({"method": "retomaton", "knn_temperature": 0.0}, "--knn-temperature 0: must be above 0"),
        ({"automaton": "greedy"}, "has no automaton 'greedy'; make it"),
        ({"calibration": "other"}, "stage calibrate/other has not been run; run `retomaton calib"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(calibrated, chosen, said):
    with pytest.raises(RetomatonError) as caught:
        rd.load(calibrated.path, **chosen)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_text_and_foreign_tokens_are_refused(calibrated):
    lm = rd.load(calibrated.path, method="lm")
    with pytest.raises(BadInput, match="text 1 has no token to score"):
        lm.score(["a key", "  "])
    with pytest.raises(BadInput, match="text 0 has a token outside 0"):
        lm.score([[1, 1_000_000]])


def test_without_a_calibration_constants_or_the_command_that_makes_one(walkable_store):
    with pytest.raises(BadInput, match="no calibration: make one with `retomaton calibrate"):
        rd.load(walkable_store.path, method="retomaton+pw")
    with pytest.raises(BadInput, match="foss is met with a calibration"):
        rd.load(walkable_store.path, foss=0.5, **CONSTANT)
    with pytest.raises(BadInput, match="retomaton\\+lambda learns from held-out text"):
        rd.load(walkable_store.path, **{**CONSTANT, "method": "retomaton+lambda"})
    (scored,) = rd.load(walkable_store.path, tau=4, **CONSTANT).score(["the key walks"])
    assert math.isfinite(scored.perplexity)
    assert rd.load(walkable_store.path, method="lm").calibration is None


def test_an_unfinished_store_says_which_command_finishes_it(small_store):
    with pytest.raises(RetomatonError, match="has no automaton; make one: `retomaton compile"):
        rd.load(small_store.path, **CONSTANT)


@pytest.mark.parametrize(
    ("chosen", "done", "command"),
    [
        (CONSTANT, {}, "compile"),
        (CONSTANT, {"codec": "fp16"}, "index"),
        (CONSTANT | {"method": "retomaton+suffix", "sigma": 0}, {"codec": "fp16"}, "suffix"),
    ],
)
def test_what_a_walk_needs_and_the_store_lacks_is_said_with_its_command(
    small_store, tmp_path, chosen, done, command
):
    path, quiet = small_store.copy(tmp_path).path, {"workers": 0, "progress": "none"}
    rd.cluster(path, states=20, iterations=2, **quiet)
    if done:
        rd.compile(path, **done, **quiet)
    with pytest.raises(RetomatonError, match=f"`retomaton {command} ") as refused:
        rd.load(path, **chosen)
    assert "\n" not in str(refused.value)


def test_the_same_weights_with_another_tokenizer_are_refused(walkable_store, tmp_path):
    made = rd.load(walkable_store.path, method="lm").model.identity.place
    other = shutil.copytree(made, tmp_path / "other")
    byte_level_tokenizer(None).save_pretrained(other)
    with pytest.raises(BadInput, match=r"tokenizer of .* is not .*token 0 is '!' here and"):
        rd.load(walkable_store.path, model=str(other), **CONSTANT)


def test_the_command_prints_documents_and_writes_tokens(calibrated, command, tmp_path):
    text, out = tmp_path / "text.txt", tmp_path / "tokens.parquet"
    text.write_text("\n".join([*calibrated.documents[:3], "", "  "]) + "\n")
    result = command("score", calibrated.path, "--text", text, "--out", out)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert "calibration 'default'" in lines[0]
    assert [line.split()[-1] for line in lines[2:5]] == [
        f"text.txt@{offset}" for offset in _offsets(calibrated.documents[:3])
    ]
    found = parquet.read_columns([out], ["document", "position", "token", "log_p", "log_lm"])
    scored = rd.load(calibrated.path).score(calibrated.documents[:3])
    assert np.allclose(found["log_p"], np.concatenate([one.log_p for one in scored]), atol=1e-5)
    assert found["document"].tolist() == [n for n, one in enumerate(scored) for _ in one.tokens]
    again = command("score", calibrated.path, "--text", text, "--out", out)
    check_refused(again, "is there already")
    check_refused(command("score", calibrated.path, "--text", tmp_path / "no.txt"), "--text")
    check_refused(command("score", calibrated.path, "--text", text, "--tau", "0"), "--tau 0")


def _offsets(documents):
    sizes = [len(document.encode()) + 1 for document in documents]
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).tolist()
