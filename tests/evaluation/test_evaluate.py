"""Evaluating a text, end to end: all methods from one pass, the same whoever works and however."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.api.evaluate import run_report
from retomaton_dist.engine.scores import Scores
from retomaton_dist.evaluation.results import Evaluation, measure_evaluation
from retomaton_dist.settings import ReportSettings
from retomaton_dist.storage.errors import BadInput, ConfigMismatch, DamagedStore
from retomaton_dist.storage.store import Store, writing
from retomaton_dist.storage.verify import verify
from tests.cli.checks import Unchanged
from tests.conftest import contents
from tests.evaluation.evaluated import (
    SETTINGS,
    by_point,
    by_restart,
    evaluate,
    evaluate_here,
    measure_here,
    measured,
    score_digest,
    write_text,
    write_texts,
)
from tests.storage.conftest import flip

GIVEN = {"calibrate_on": (), "lambda_": 0.3, "knn_temperature": 2.0}
FRACTIONS = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def sweep(walkable_store, texts, tmp_path_factory):
    """All methods, in this process. Alter only copies."""
    return evaluate_here(walkable_store.path, tmp_path_factory.mktemp("out") / "sweep", texts)


@pytest.fixture(scope="module")
def scores(sweep):
    return Scores.open(sweep.text, "sweep")


def test_every_method_has_its_curve(sweep):
    walks = [(name, tau, None) for name in ("kmeans", "none") for tau in (1.0, 4.0, math.inf)]
    once = [(None, None, None)]
    searching = [(None, None, fraction) for fraction in FRACTIONS]
    mixed = {"lm": once, "knnlm": searching, "suffix": once, "retomaton": walks}
    curves = {
        "lm": once,
        **dict.fromkeys(("knnlm", "knnlm+wide", "knnlm+lambda", "adaptret"), searching),
        "suffix": once,
        **dict.fromkeys(("retomaton", "retomaton+pw", "retomaton+lambda"), walks),
        **dict.fromkeys(("ngram", "lm+cache", "lm+ngram"), once),
        **{f"{walk}+ngram+cache": points for walk, points in mixed.items()},
        "lm+cache+lambda": once,
        **{f"{walk}+ngram+cache+lambda": points for walk, points in mixed.items()},
    }
    expected = [(name, *point) for name, points in curves.items() for point in points]
    assert list(by_point(sweep)) == expected
    pairs = [(name, tau, sigma) for name, tau, _ in walks for sigma in (0.0, 2.0)]
    found = [key[:4] for key in by_restart(sweep) if key[0].startswith("retomaton")]
    more = ("", "+lambda", "+ngram+cache", "+ngram+cache+lambda")
    assert [key for key in found if key[0] != "retomaton+random"] == [
        (f"retomaton+suffix{kind}", *pair) for kind in more for pair in pairs
    ]
    assert len([key for key in found if key[0] == "retomaton+random"]) == len(pairs)


def test_ladders_are_made_of_the_same_rows_as_the_table(sweep):
    searching, never = sweep.ladders
    assert [line["name"] for line in searching["lines"]][-2:] == ["+ kNN", "+ automaton"]
    rows = by_point(sweep)
    last = rows["retomaton+ngram+cache", "kmeans", math.inf, None]
    automaton = searching["lines"][-1]["online"]
    assert automaton["perplexity"] == last["perplexity"]
    assert automaton["change"] == last["against"], "the line before is its matched baseline"
    assert all(line["learned"] for ladder in sweep.ladders for line in ladder["lines"])
    assert {line["online"]["foss"] for line in never["lines"]} == {1.0}


def test_claims_have_the_size_of_the_store_and_of_the_calibration_text_beside_them(
    sweep, walkable_store
):
    size = sweep.settings["size"]
    held = Store.open(sweep.path / "calibration").stage("score").facts["positions"]
    assert size == {
        "entries": Store.open(walkable_store.path).corpus().entries,
        "calibration_tokens": held,
    }
    result = (sweep.path / "report.md").read_text().split("\n\n")[2]
    claims = [line for line in result.splitlines() if "perplexity" in line or "searches" in line]
    assert claims
    assert all(f"store of {size['entries']:,} entries" in line for line in claims)
    assert "no calibration" in result
    assert f"{held:,} tokens of calibration text" in result


def test_rows_say_what_the_issue_asks_for(sweep):
    needed = {
        "method", "clustering", "tau", "foss", "searches", "positions", "perplexity", "interval",
        "perplexity_per_word", "lambda", "temperature", "seconds",
    }  # fmt: skip
    for row in sweep.rows:
        assert needed <= set(row)
        assert row["foss"] == 1 - row["searches"] / row["positions"]
        assert row["interval"][0] < row["perplexity"] < row["interval"][1]


def test_the_lm_row_is_the_exponential_of_the_mean_loss(sweep, scores, texts):
    row = by_point(sweep)["lm", None, None, None]
    losses = -scores.log_lm.astype(np.float64)
    assert row["perplexity"] == pytest.approx(math.exp(losses.mean()), rel=1e-12)
    lines = Path(texts["text"]).read_text().splitlines()
    words = sum(len(line.split()) for line in lines) + len(lines)
    assert row["perplexity_per_word"] == pytest.approx(math.exp(losses.sum() / words), rel=1e-12)


def test_every_position_of_the_text_is_scored_once_and_in_order(sweep, scores):
    corpus = sweep.text.corpus()
    assert np.array_equal(scores.token, corpus.values(0, corpus.entries))
    lengths = np.asarray(corpus.lengths)
    assert np.array_equal(scores.document, np.repeat(np.arange(len(lengths)), lengths))
    assert np.array_equal(scores.position, np.concatenate([np.arange(n) for n in lengths]))
    starts = scores.position == 0
    assert (scores.whole().previous[starts] == -1).all()
    assert np.array_equal(
        scores.whole().previous[~starts], scores.token[np.flatnonzero(~starts) - 1]
    )


def test_foss_falls_to_zero_as_tau_rises(sweep):
    rows = by_point(sweep)
    for method in ("retomaton", "retomaton+pw", "retomaton+lambda"):
        for name in ("kmeans", "none"):
            found = [rows[method, name, tau, None]["foss"] for tau in (1.0, 4.0, math.inf)]
            assert found == sorted(found, reverse=True)
            assert found[0] > 0.2
            assert found[-1] == 0.0


def test_without_searches_all_are_saved_and_a_larger_sigma_saves_fewer(sweep):
    rows = by_restart(sweep)
    for (method, name, tau, sigma, _), row in rows.items():
        if method.startswith("retomaton+suffix") and sigma == 0:
            assert row["foss"] == 1.0
            fewer = rows[method, name, tau, 2.0, None]
            assert 0.0 < fewer["foss"] < 1.0
            # Matches are the text's and not the walk's: who restarts less searches no more.
            assert fewer["foss"] >= rows[method, name, math.inf, 2.0, None]["foss"]


def test_at_random_about_as_many_are_searched_for_as_by_sigma(sweep):
    rows = by_restart(sweep)
    drawn = {key: row for key, row in rows.items() if key[0] == "retomaton+random"}
    assert {0.0 < share < 1.0 for *_, share in drawn} == {True, False}
    for (_, name, tau, _, share), row in drawn.items():
        by_sigma = rows["retomaton+suffix", name, tau, 2.0 if share else 0.0, None]
        assert row["foss"] == pytest.approx(by_sigma["foss"], abs=0.12)


def test_matches_are_written_down_where_a_walk_restarted_by_them(scores):
    walked = scores.walk("kmeans@4,2")
    assert not (walked.matched[walked.searched]).any()
    restarted = walked.matched > 0
    assert restarted.any()
    assert (walked.matched[restarted] >= 2).all(), "shorter ones are searched for"
    assert (walked.states[restarted | walked.searched] < 4).all()
    assert not scores.walk("kmeans@4").matched.any()
    alone = scores.walk("suffix")
    starts = scores.position == 0
    assert (alone.matched[starts] == 8).all(), "as the documents of the corpus begin"
    assert (alone.candidates[starts] == 32).all()
    assert (alone.matched[~starts] <= np.minimum(scores.position[~starts], 8)).all()


def test_the_corpus_is_of_use_and_every_method_better_than_the_lm_alone(sweep):
    rows = by_point(sweep)
    alone = rows["lm", None, None, None]["perplexity"]
    assert all(row["perplexity"] < alone for key, row in rows.items() if key[0] != "lm")


def test_constants_are_the_same_along_a_curve_and_on_the_grid_of_the_scores(sweep, scores):
    for method in ("knnlm", "retomaton", "retomaton+pw"):
        for name in (None, "kmeans", "none"):
            rows = [r for r in sweep.rows if (r["method"], r["clustering"]) == (method, name)]
            assert len({(r["lambda"], r["temperature"], r["pointer_weight"]) for r in rows}) <= 1
            assert all(r["temperature"] in scores.temperatures for r in rows)


def test_report_and_settings_lie_beside_the_results(sweep):
    names = {path.name for path in sweep.path.iterdir()}
    assert {
        "results.json",
        "settings.json",
        "report.html",
        "report.md",
        "calibration.json",
    } <= names
    settings = json.loads((sweep.path / "settings.json").read_bytes())
    assert settings["inputs"]["automata"].keys() == {"kmeans", "none"}
    assert {"torch", "numpy", "python"} <= settings["versions"].keys()
    for name in ("text", "calibration"):
        assert verify(Store.open(sweep.path / name)).findings == []


def test_the_number_of_workers_changes_no_bit(ray_local, walkable_store, tmp_path):
    texts = {"text": str(write_text(tmp_path / "long.txt", 8, 300))}
    given = {"methods": "lm,knnlm,retomaton", **GIVEN}
    alone = measure_here(walkable_store.path, tmp_path / "alone", texts, **given)
    several = evaluate(walkable_store.path, tmp_path / "several", texts, workers=2, **given)
    assert alone.text.stage("score").units > 1, "there is something to share out"
    assert contents(several.path / "text/scores") == contents(alone.path / "text/scores")
    assert score_digest(several) == score_digest(alone)
    assert several.rows == alone.rows


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_workers_changes_no_bit_of_calibration_either(
    ray_local, sweep, walkable_store, texts, tmp_path, workers
):
    other = evaluate(walkable_store.path, tmp_path / "out", texts, workers=workers)
    for name in ("text", "calibration"):
        assert score_digest(other, name) == score_digest(sweep, name)
        folder = f"{name}/scores"
        assert contents(other.path / folder) == contents(sweep.path / folder)
    assert other.rows == sweep.rows


def test_live_mode_searches_only_what_is_needed_and_gives_the_same_results(
    sweep, walkable_store, texts, tmp_path
):
    live = measure_here(walkable_store.path, tmp_path / "live", texts, mode="live")
    expected = by_point(sweep) | by_restart(sweep)
    found = by_point(live) | by_restart(live)
    assert list(found) == list(expected)
    for key, row in found.items():
        assert row["perplexity"] == pytest.approx(expected[key]["perplexity"], rel=1e-9), key
        assert row["searches"] == expected[key]["searches"], key
        parts = [row["seconds"][part] for part in ("lm", "search", "walk", "rest")]
        assert row["seconds"]["total"] == pytest.approx(sum(parts))
    assert found["lm", None, None, None]["seconds"]["search"] == 0
    assert found["suffix", None, None, None]["seconds"]["search"] == 0
    assert found["retomaton+suffix", "kmeans", 4.0, 0.0, None]["seconds"]["search"] == 0
    half = Scores.open(live.text, "knnlm-0.5")
    assert half.walks == ("knnlm",)
    assert half.searched("knnlm").sum() == found["knnlm", None, None, 0.5]["searches"]


@pytest.mark.slow
def test_another_batch_size_hardly_matters(walkable_store, texts, tmp_path):
    texts = {**texts, "text": str(write_text(tmp_path / "long.txt", 8, 200))}
    # So many neighbours that which of those tied with the last one are found does not matter.
    given = {"methods": "lm,knnlm,retomaton,retomaton+pw", "k": 2048, "tau": "4,inf"}
    one, other = (
        measure_here(walkable_store.path, tmp_path / str(size), texts, batch_tokens=size, **given)
        for size in (4096, 48)
    )
    assert score_digest(one) != score_digest(other), "batches were padded otherwise"
    expected = by_point(one)
    for key, row in by_point(other).items():
        assert row["perplexity"] == pytest.approx(expected[key]["perplexity"], rel=1e-4), key
        assert row["foss"] == pytest.approx(expected[key]["foss"], abs=0.002), key


def test_a_finished_evaluation_scores_nothing_again(sweep, walkable_store, texts, tmp_path):
    copy = shutil.copytree(sweep.path, tmp_path / "copy")
    before = times(copy)
    again = measure_here(walkable_store.path, copy, texts)
    kept = {name for name in before if name.startswith(("text/", "calibration"))}
    assert {name: time for name, time in times(copy).items() if name in kept} == {
        name: before[name] for name in kept
    }
    assert again.rows == sweep.rows


def times(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_mtime_ns for path in files}


def test_results_are_rebuilt_from_the_scores_alone(sweep, tmp_path):
    copy = shutil.copytree(sweep.path, tmp_path / "copy")
    (copy / "results.json").unlink()
    assert run_report(copy).rows == sweep.rows
    assert (copy / "results.json").read_bytes() == (sweep.path / "results.json").read_bytes()
    assert (copy / "report.html").exists()


def test_other_constants_change_the_methods_that_have_constants_and_no_other(sweep, tmp_path):
    copy = shutil.copytree(sweep.path, tmp_path / "copy")
    rows = by_point(measured(copy, ReportSettings(lambda_=0.5)))
    for key, row in by_point(sweep).items():
        if key[0] in ("knnlm", "knnlm+wide", "suffix", "retomaton", "retomaton+pw"):
            assert rows[key]["lambda"] == 0.5
            assert rows[key]["perplexity"] != row["perplexity"]
            assert rows[key]["foss"] == row["foss"]
        else:
            ratios = ("against", "against_knnlm", "without_duplicates")
            kept = {name: value for name, value in rows[key].items() if name not in ratios}
            assert kept == {name: row[name] for name in kept}


def test_networks_trained_anew_are_shown_beside_those_of_the_calibration(sweep, tmp_path):
    copy = shutil.copytree(sweep.path, tmp_path / "copy")
    assert run_report(copy, ReportSettings(retrain=1)).rows == sweep.rows
    found = json.loads((copy / "results.json").read_text())
    learned = {"knnlm+lambda", "retomaton+lambda", "suffix+lambda"}
    assert {one["method"] for one in found["retrained"]} == learned
    assert (
        found["recalibrated"]
        == json.loads((sweep.path / "results.json").read_text())["recalibrated"]
    )
    assert "Networks trained anew on documents" in (copy / "report.html").read_text()


def test_networks_cannot_be_trained_anew_without_the_text_that_they_learned_from(
    walkable_store, texts, tmp_path
):
    chosen = {"methods": "lm,knnlm", **GIVEN}
    made = measure_here(walkable_store.path, tmp_path / "out", texts, positions=100, **chosen)
    with pytest.raises(BadInput, match="no calibration text"):
        run_report(made.path, ReportSettings(retrain=1))


def test_a_wide_search_has_as_many_candidates_as_a_walk_may_score(scores):
    plain, wide = scores.walk("knnlm"), scores.walk("knnlm+wide")
    assert (plain.candidates == 32).all()
    assert (wide.candidates == 32 + 32).all()
    assert np.array_equal(plain.nearest, wide.nearest)
    assert max(scores.walk("kmeans@inf").candidates) <= 64


def test_targets_are_met_about_as_on_the_calibration_text(walkable_store, texts, tmp_path):
    chosen = {"tau": None, "target_foss": "0,0.4", "methods": "retomaton", "automata": "kmeans"}
    made = measure_here(walkable_store.path, tmp_path / "out", texts, **chosen)
    found = [row["foss"] for row in made.rows]
    assert found == pytest.approx([0.4, 0.0], abs=0.1)
    assert [row["tau"] for row in made.rows][1] == math.inf


def test_constants_that_are_given_need_no_calibration_text(walkable_store, texts, tmp_path):
    chosen = {"methods": "lm,knnlm", **GIVEN}
    made = measure_here(walkable_store.path, tmp_path / "out", texts, positions=100, **chosen)
    row = by_point(made)["knnlm", None, None, 0.0]
    assert (row["lambda"], row["temperature"]) == (0.3, 2.0)
    assert 100 <= row["positions"] < 150
    assert not (made.path / "calibration").exists()


def test_a_refused_change_of_settings_leaves_the_results_as_they_were(
    walkable_store, texts, tmp_path
):
    given = {"methods": "lm,knnlm", **GIVEN}
    made = measure_here(walkable_store.path, tmp_path / "out", texts, **given)
    said = "temperatures was .* or name another folder with --out"
    with Unchanged(made.path), pytest.raises(ConfigMismatch, match=said):
        measure_here(walkable_store.path, made.path, texts, **given | {"knn_temperature": 64.0})
    rows = made.rows
    assert measured(made.path).rows == rows


def test_another_lambda_and_methods_of_the_same_walks_need_no_new_scores(
    walkable_store, texts, tmp_path
):
    given = {"methods": "knnlm,retomaton", **GIVEN}
    made = measure_here(walkable_store.path, tmp_path / "out", texts, **given)
    before = times(made.path / "text/scores")
    changed = {**given, "methods": "lm,knnlm,retomaton", "lambda_": 0.6}
    again = measure_here(walkable_store.path, made.path, texts, **changed)
    assert times(made.path / "text/scores") == before
    assert by_point(again)["knnlm", None, None, 0.0]["lambda"] == 0.6
    assert measured(made.path).rows == again.rows


@pytest.fixture
def without_index(walkable_store, tmp_path):
    """A store that never had a search index."""
    store = walkable_store.copy(tmp_path).path
    with writing(store) as writer:
        writer.abandon("index/default")
    shutil.rmtree(store / "index", ignore_errors=True)
    return store


@pytest.mark.parametrize("mode", ["sweep", "live"])
def test_a_store_without_an_index_is_walked_by_suffixes_alone(
    sweep, without_index, texts, tmp_path, mode
):
    chosen = {"sigma": None, "no_index": True, "mode": mode, "tau": "1,inf"}
    made = evaluate_here(without_index, tmp_path / "out", texts, **chosen)
    methods = {row["method"] for row in made.rows}
    assert {"lm", "ngram", "suffix", "retomaton+suffix+ngram+cache+lambda"} < methods
    assert not any("knnlm" in name or name == "retomaton" for name in methods)
    assert all(row["searches"] == 0 for row in made.rows)
    assert by_point(made)["suffix", None, None, None]["perplexity"] == pytest.approx(
        by_point(sweep)["suffix", None, None, None]["perplexity"]
    )
    assert [ladder["title"] for ladder in made.ladders] == ["Without any search"]
    assert "Without any search, the automaton itself" in (made.path / "report.md").read_text()
    if mode == "sweep":
        rows = made.rows
        assert measured(made.path).rows == rows


def test_without_calibration_text_the_methods_that_need_none_are_evaluated(
    walkable_store, texts, tmp_path, capfd
):
    chosen = {"calibrate_on": (), "sigma": "0", "tau": "inf", "automata": "kmeans"}
    made = measure_here(walkable_store.path, tmp_path / "out", texts, **chosen)
    methods = {row["method"] for row in made.rows}
    assert {"lm", "ngram", "knnlm+ngram+cache", "retomaton+suffix+ngram+cache"} < methods
    assert not methods & {"knnlm", "retomaton", "retomaton+ngram+cache+lambda"}
    assert [len(ladder["lines"]) for ladder in made.ladders] == [5, 5]
    assert made.settings["size"]["calibration_tokens"] == 0
    assert "methods that learn from held-out text are left out" in capfd.readouterr().err


def test_a_store_without_keys_has_the_lines_of_the_ladder_that_need_none(
    small_store, texts, tmp_path
):
    store = tmp_path / "bare.store"
    rd.build(store, **small_store.settings, no_keys=True)
    made = evaluate_here(store, tmp_path / "out", texts)
    (ladder,) = made.ladders
    assert [line["name"] for line in ladder["lines"]] == ["LM alone", "+ cache", "+ n-grams"]
    assert all(line["learned"] for line in ladder["lines"])
    report = (made.path / "report.md").read_text()
    assert "n-grams alone" in report
    assert "automaton's own contribution" not in report


def test_walks_that_never_search_need_no_index_whoever_asks(without_index, texts, tmp_path):
    chosen = {"methods": "lm,suffix,retomaton+suffix", "sigma": "0", **GIVEN}
    made = measure_here(without_index, tmp_path / "out", texts, **chosen)
    assert {row["foss"] for row in made.rows} == {1.0}


def test_thresholds_that_nothing_names_are_pairs_that_none_beats(walkable_store, texts, tmp_path):
    chosen = {"tau": None, "sigma": None, "methods": "retomaton+suffix", "automata": "kmeans"}
    made = measure_here(walkable_store.path, tmp_path / "out", texts, **chosen)
    pairs = [(row["tau"], row["sigma"]) for row in made.rows]
    assert len(set(pairs)) == len(pairs) <= 8
    assert pairs[0][1] == 0.0, "from the largest FoSS"
    rows = made.rows
    assert measured(made.path).rows == rows


def test_constants_that_were_altered_are_refused(sweep, tmp_path):
    copy = shutil.copytree(sweep.path, tmp_path / "copy")
    flip(
        copy / "calibration.safetensors", 8 * (copy / "calibration.safetensors").stat().st_size - 5
    )
    with pytest.raises(DamagedStore, match=r"calibration\.safetensors: its contents were altered"):
        measure_evaluation(Evaluation.open(copy))


def test_scores_that_were_altered_are_refused_before_anything_is_measured(sweep, tmp_path):
    copy = shutil.copytree(sweep.path, tmp_path / "copy")
    scored = min((copy / "text/scores").rglob("*.parquet"))
    flip(scored, 4 * scored.stat().st_size)
    with pytest.raises(DamagedStore, match=rf"{scored.name}: its contents were altered"):
        measure_evaluation(Evaluation.open(copy))


def test_every_text_and_setting_has_a_folder_of_its_own_and_the_same_again_has_the_same(
    walkable_store, tmp_path
):
    store = walkable_store.copy(tmp_path).path
    given = {**SETTINGS, **GIVEN, "workers": 0, "methods": "lm,retomaton"}

    def folder(text, **changed):
        path = write_text(tmp_path / text, 8, 4)
        return rd.evaluate(store, text=str(path), **{**given, **changed}).path.name

    first = folder("notes.test.en")
    assert first.startswith("notes.test.en-sweep-")
    made = [first, folder("notes.x.en"), folder("notes.test.en", automata="none")]
    assert len({*made, folder("a b" * 80)}) == 4
    assert folder("notes.test.en", verify=True) == first
