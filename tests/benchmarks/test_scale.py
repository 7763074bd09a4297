"""The benchmark `scale`: its store is a real one, and what it measures is what processes used."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.verify import verify
from tests.benchmarks import scale, watching
from tests.benchmarks.scale_store import VOCABULARY, Synthetic, digest, lengths_of, make
from tests.benchmarks.scale_walk import walk
from tests.conftest import run_python

ENTRIES, DIMENSION = 10_000, 16
HERE = {"workers": 0, "progress": "none"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store of made-up entries, with every stage."""
    path = tmp_path_factory.mktemp("scale") / "s.store"
    make(path, Synthetic(ENTRIES, DIMENSION), **HERE)
    rd.cluster(path, iterations=3, **HERE)
    rd.index(path, recall_queries=16, recall_k=8, **HERE)
    rd.compile(path, **HERE)
    rd.suffix(path, **HERE)
    return path


def test_every_stage_takes_the_made_up_store_and_verify_finds_it_sound(made):
    checked = verify(Store.open(made))
    assert (checked.findings, checked.leftovers) == ([], [])
    assert rd.open(made).entries == ENTRIES
    assert rd.open(made).automaton("kmeans").entries == ENTRIES


def test_documents_differ_in_length_and_pointers_stay_within_them(made):
    store = Store.open(made)
    lengths, pointers = store.corpus().lengths, store.datastore().pointers
    assert lengths.tolist() == lengths_of(Synthetic(ENTRIES, DIMENSION)).tolist()
    assert lengths.sum() == ENTRIES
    assert len(np.unique(lengths)) > len(lengths) / 2
    ends = np.cumsum(lengths) - 1
    assert np.flatnonzero(np.asarray(pointers) < 0).tolist() == ends.tolist()


def test_all_documents_begin_with_one_and_the_same_key(made):
    store = Store.open(made)
    keys, first = store.datastore().keys, store.corpus().first_entries
    assert len(np.unique(keys[first], axis=0)) == 1
    assert len(np.unique(keys, axis=0)) == ENTRIES - len(first) + 1


def test_values_follow_zipfs_law_and_contexts_repeat(made):
    values = np.asarray(Store.open(made).datastore().values)
    counts = np.sort(np.bincount(values, minlength=VOCABULARY))[::-1]
    assert counts[0] > 5 * counts[20] > 25 * counts[400] > 0
    assert counts[counts > 0][-1] == 1
    fours = np.lib.stride_tricks.sliding_window_view(values, 4)
    assert len(np.unique(fours, axis=0)) < 0.8 * len(fours)


def test_keys_of_one_place_in_a_phrase_are_near_to_each_other(made):
    store = Store.open(made)
    keys, values = store.datastore().keys.astype(np.float32), store.datastore().values
    pairs = values[:-1].astype(np.int64) * VOCABULARY + values[1:]
    commonest = np.flatnonzero(pairs == np.bincount(pairs).argmax())
    after = keys[commonest[:-1] + 2]
    assert after.var(axis=0).sum() < 0.7 * keys.var(axis=0).sum()


def test_the_bytes_are_those_of_the_seed(made, tmp_path):
    again = make(tmp_path / "again.store", Synthetic(ENTRIES, DIMENSION), **HERE)
    other = make(tmp_path / "other.store", Synthetic(ENTRIES, DIMENSION, seed=2), **HERE)
    assert digest(again) == digest(made) != digest(other)


def test_entries_do_not_depend_on_how_many_there_are(made, tmp_path):
    more = make(tmp_path / "more.store", Synthetic(2 * ENTRIES, DIMENSION), **HERE)
    few, many = Store.open(made).datastore(), Store.open(more).datastore()
    assert np.array_equal(few.keys[:5000], many.keys[:5000])
    assert np.array_equal(few.values, many.values[:ENTRIES])


def test_a_walk_over_it_restarts_and_steps(made):
    walked = walk(made)
    assert walked["restart_us"] > 0 < walked["step_us"]
    assert 0 <= walked["searched"] < 1


def test_a_command_is_watched_with_all_processes_below_it(tmp_path):
    child = (
        f"import pathlib; held = bytes(range(256)) * (1 << 18); "
        f"pathlib.Path({str(tmp_path / 'f')!r}).write_bytes(held); import time; time.sleep(1)"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); print(7)"
    usage = watching.run_watched([sys.executable, "-c", parent])
    assert (usage.code, usage.output) == (0, "7\n")
    assert usage.processes == 2
    assert usage.peaks["ray"] > 1 << 26 > usage.peaks["driver"]
    assert 1 << 26 <= usage.bytes["wchar"] < 1 << 27


def test_growth_is_told_against_the_next_smaller_run_of_the_same_width(tmp_path):
    def run(entries, dimension, seconds):
        stage = {
            "seconds": seconds, "cpu_seconds": 1.0, "peaks": {"driver": 100 * entries},
            "bytes": dict.fromkeys(watching.COUNTED, 0), "resumed": False, "load_before": 0,
            "iterations": 3,
        }  # fmt: skip
        key = {"entries": entries, "dimension": dimension, "seed": 1, "settings": {}}
        return {**key, "machine": {"cores": 2}, "stages": {"cluster": stage}}

    path = tmp_path / "results.json"
    path.write_text(json.dumps([run(10, 64, 1.0), run(100, 64, 2.0), run(500, 32, 9.0)]))
    results = scale.Results(path)
    wanted = SimpleNamespace(entries=1000, dimension=64, seed=1, workers=None, unit_timeout=None)
    for stage, names in scale.CHOICES.items():
        for name in names:
            setattr(wanted, f"{stage}_{name}", None)
    now = results.run(wanted)
    now["stages"] = run(1000, 64, 22.0)["stages"]
    assert results.smaller(now)["entries"] == 100
    text = scale.table(now, results.smaller(now))
    assert "growth against 100" in text
    assert "| cluster | 22.0 s | 11.00x | 1 s |" in text
    assert "| 10.00x |" in text
    assert text.endswith("k-means took 3 iterations.")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--entries", "0"], "a whole number above 0 is needed"),
        (["--entries", "many"], "--entries"),
        ([], "--entries is needed"),
    ],
)
def test_bad_sizes_are_refused(monkeypatch, capsys, given, said):
    monkeypatch.setattr(sys, "argv", ["scale", *given])
    with pytest.raises(SystemExit) as refused:
        scale.main()
    assert refused.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_the_benchmark_measures_every_stage_and_goes_on_where_it_was(tmp_path):
    line = ["-m", "tests.benchmarks.scale", "--entries", "10000", "--dimension", "16"]
    line += ["--workers", "0", "--iterations", "2", "--folder", tmp_path]
    first = run_python(*line, "--keep", "--stages", *scale.STAGES[:3])
    assert first.returncode == 0, first.stderr
    before = json.loads((tmp_path / "results.json").read_text())[0]["stages"]
    second = run_python(*line)
    assert second.returncode == 0, second.stderr
    (run,) = json.loads((tmp_path / "results.json").read_text())
    assert list(run["stages"]) == list(scale.STAGES)
    assert {name: run["stages"][name] for name in before} == before
    assert run["settings"] == {"cluster --iterations": 2, "--workers": 0}
    assert "`cluster --iterations 2`" in second.stdout
    assert list(tmp_path.iterdir()) == [tmp_path / "results.json"]
