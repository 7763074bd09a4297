"""Where AdaptRet's counts of the corpus come from: the store, or units kept with its text."""

import shutil

import retomaton_dist as rd
from retomaton_dist.stages.statistics import is_counted
from retomaton_dist.storage import canonical
from retomaton_dist.storage.store import Store, writing
from tests.evaluation.evaluated import measure_here, write_texts

ASKED = {"methods": "lm,knnlm,adaptret", "tau": "inf"}


def constants(out):
    """What calibration found, without times."""
    found = canonical.read(out / "calibration.json", "")["methods"]["adaptret"]
    return {name: value for name, value in found.items() if name != "seconds"}


def test_the_corpus_is_counted_once_and_the_counts_are_the_same_wherever_they_lie(
    walkable_store, tmp_path
):
    store = shutil.copytree(
        walkable_store.path, tmp_path / "a.store", ignore=shutil.ignore_patterns("evaluations")
    )
    with writing(store) as writer:
        writer.abandon("statistics")
    texts = write_texts(tmp_path)
    measure_here(store, tmp_path / "without", texts, **ASKED)
    assert is_counted(Store.open(tmp_path / "without/calibration"))
    assert not is_counted(Store.open(store)), "an evaluation does not write into the store"
    rd.statistics(store, workers=0, progress="none")
    measure_here(store, tmp_path / "with", texts, **ASKED)
    assert not is_counted(Store.open(tmp_path / "with/calibration"))
    assert constants(tmp_path / "with") == constants(tmp_path / "without")
