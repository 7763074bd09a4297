"""Several stores at once: the experts of each, one LM, one cache, and weights that follow."""

import shutil

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.engine.mixture import Candidates, FurtherNgram, TextExpert
from retomaton_dist.errors import BadInput
from retomaton_dist.generation.loaded import with_settings
from retomaton_dist.settings import LoadSettings
from tests.cli.checks import check_refused
from tests.conftest import save_tiny_model
from tests.generation.stores import QUIET, save_model

SEARCHING = {"method": "retomaton+suffix+ngram+cache", "tau": 4.0, "sigma": 2.0}


@pytest.fixture(scope="module")
def build(lines, tmp_path_factory):
    """Stores of some lines."""
    folder = tmp_path_factory.mktemp("several")
    model = save_model("gpt2", folder / "model")

    def make(name, first, last, model=model, **chosen):
        corpus = folder / f"{name}.txt"
        corpus.write_text("\n".join(lines[first:last]) + "\n")
        parts = {"cluster": {"states": 10, "iterations": 2}, "index": {"factory": "Flat"}}
        given = {"corpus": str(corpus), "split": "line", "model": str(model), **QUIET}
        if not chosen:
            chosen = {"context": 16, "stride": 6, "compile": {"codec": "fp16"}, **parts}
        rd.build(folder / name, **given, **chosen)
        return folder / name

    return make


@pytest.fixture(scope="module")
def stores(build):
    return build("law", 0, 120), build("notes", 120, 260)


@pytest.fixture(scope="module")
def texts(lines):
    return [" ".join(lines[300:306]), " ".join(lines[130:140]), lines[20]]


def test_each_store_has_its_own_experts_and_there_is_one_cache(stores):
    lm = rd.load(stores)
    experts = lm.point.mixing.experts
    assert experts[:3] == (TextExpert.CACHE, TextExpert.NGRAM, FurtherNgram(1))
    assert [expert.store for expert in experts[3:]] == [0, 0, 1, 1]
    assert all(isinstance(expert, Candidates) for expert in experts[3:])
    assert str(stores[1]) in str(lm)


def test_the_columns_of_a_store_are_those_that_it_has_alone(stores, texts):
    """What further stores say is what each says when it is used alone."""
    both = rd.load(stores)
    alone = [rd.load(path) for path in stores]
    found = _columns(both, texts)
    experts = [None, *both.point.mixing.experts]
    for store, lm in enumerate(alone):
        own = [None, *lm.point.mixing.experts]
        for expert, column in zip(own, _columns(lm, texts).T, strict=True):
            wanted = expert
            if isinstance(expert, Candidates):
                wanted = expert._replace(store=store)
            elif expert is TextExpert.NGRAM and store:
                wanted = FurtherNgram(store)
            assert np.allclose(found[:, experts.index(wanted)], column, atol=1e-5), expert


def _columns(lm, texts):
    """Log-probabilities of the tokens of texts under the LM and every expert."""
    from retomaton_dist.engine.block_scores import BlockScorer, Pass
    from retomaton_dist.engine.mixture import temperatures_for
    from retomaton_dist.engine.text_reader import blocks
    from retomaton_dist.generation.score import reader_of, tokenised

    corpus, grid = tokenised(lm, texts), temperatures_for(lm.point.mixing.experts)
    chosen = Pass("score", (lm.point.spec,), live=True)
    scorer = BlockScorer(reader_of(lm, corpus), lm.retrieval, chosen, grid, lm.further)
    (block,) = blocks(range(len(texts)), corpus.lengths)
    parts = [
        lm.point.mixing.log_columns(part.lm, part.walks[lm.point.spec])
        for part in scorer.score(block)
    ]
    return np.concatenate(parts)


def test_text_that_either_store_knows_is_predicted_nearly_as_well_as_by_that_store(stores, lines):
    both = rd.load(stores)
    for path, line in zip(stores, (lines[20:30], lines[200:210]), strict=True):
        other = next(each for each in stores if each != path)
        text = [" ".join(line)]
        found, right, wrong = (
            lm.score(text)[0].perplexity for lm in (both, rd.load(path), rd.load(other))
        )
        assert found < 1.3 * right < wrong


@pytest.mark.parametrize("chosen", [{}, SEARCHING, {"method": "knnlm+ngram+cache"}])
def test_generation_reports_what_scoring_gives_and_drafts_change_nothing(stores, lines, chosen):
    lm = rd.load(stores, **chosen)
    prompts = [" ".join(lines[130:133]), lines[310][:12]]
    drafted = lm.generate(prompts, max_new_tokens=24)
    undrafted = lm.generate(prompts, max_new_tokens=24, draft=0)
    for one, other in zip(drafted, undrafted, strict=True):
        assert np.array_equal(one.tokens, other.tokens)
        assert one.log_p == pytest.approx(other.log_p, abs=1e-4)
        (scored,) = lm.score([np.concatenate([one.prompt_tokens, one.tokens])])
        for name in ("log_p", "log_lm"):
            whole = getattr(scored, name)[-len(one.tokens) :]
            assert getattr(one, name) == pytest.approx(whole, abs=1e-4), name
        for name in ("states", "searched", "matched"):
            whole = getattr(scored, name)[-len(one.tokens) :]
            assert np.array_equal(getattr(one, name), whole), name


def test_the_same_store_twice_is_walked_alike_twice(stores, texts):
    once, twice = rd.load(stores[0]), rd.load([stores[0], stores[0]])
    for one, two in zip(once.score(texts), twice.score(texts), strict=True):
        assert np.array_equal(2 * one.states, two.states)
        assert np.array_equal(one.searched, two.searched)


def test_a_store_without_keys_adds_its_n_grams(stores, build, texts):
    bare = build("bare", 120, 260, no_keys=True)
    lm = rd.load([bare, stores[0]])
    assert lm.store.path == stores[0].resolve(), "the main store is one that is walked"
    kinds = [type(expert) for expert in lm.point.mixing.experts]
    assert kinds.count(Candidates) == 2
    assert kinds.count(FurtherNgram) == 1
    assert lm.score(texts)[1].perplexity < rd.load(stores[0]).score(texts)[1].perplexity


def test_another_tokenizer_is_refused_by_its_first_difference(stores, build, tmp_path):
    model = save_tiny_model(tmp_path / "model", end="<|end|>")
    other = build("other", 0, 40, model=model, no_keys=True)
    with pytest.raises(BadInput, match=r"token 0 is '<\|end\|>' here and '<\|endoftext\|>' there"):
        rd.load([stores[0], other])


def test_keys_of_another_model_are_refused_unless_nothing_is_walked(stores, build, tmp_path):
    place = rd.load(stores[0], method="lm").model.identity.place
    model = shutil.copytree(place, tmp_path / "model")
    config = model / "config.json"
    config.write_text(config.read_text().replace("{", '{"another": true,', 1))
    other = build("elsewhere", 120, 160, model=model)
    with pytest.raises(BadInput, match=r"come from another model .* --method lm\+ngram\+cache"):
        rd.load([stores[0], other])
    assert rd.load([stores[0], other], method="lm+ngram+cache").further


@pytest.mark.parametrize("method", ["ngram", "knnlm", "retomaton+suffix+ngram+cache+lambda"])
def test_methods_that_do_not_follow_the_text_are_refused(stores, method):
    with pytest.raises(BadInput, match="cannot mix several stores: choose a method"):
        rd.load(stores, method=method)


def test_loaded_stores_can_be_used_by_another_method(stores, texts):
    both = rd.load(stores)
    plain = with_settings(both, LoadSettings(method="lm"))
    assert plain.lm is both.lm
    assert plain.further == ()
    for one, other in zip(plain.score(texts), both.score(texts), strict=True):
        assert np.array_equal(one.log_p, other.log_lm)
    bare = with_settings(both, LoadSettings(method="lm+ngram+cache"))
    wanted = rd.load(stores, method="lm+ngram+cache").score(texts)
    for one, other in zip(bare.score(texts), wanted, strict=True):
        assert np.array_equal(one.log_p, other.log_p)


def test_the_command_takes_further_stores(stores, lines, tmp_path, command):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(lines[130:134]) + "\n")
    run = command("score", stores[0], "--with", stores[1], "--text", text)
    scored = rd.load(stores).score(lines[130:134])
    total = np.exp(-sum(one.total for one in scored) / sum(len(one.tokens) for one in scored))
    assert f"{total:12.2f}" in run.stdout
    missing = command("score", stores[0], "--with", tmp_path / "none", "--text", text)
    check_refused(missing, "none")
