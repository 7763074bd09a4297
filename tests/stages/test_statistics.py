"""The stage `statistics`: a corpus is counted in units, once, and what is kept says it all."""

import numpy as np
import pytest

from retomaton_dist.cli.main import main
from retomaton_dist.errors import DamagedStore
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import WorkerSettings
from retomaton_dist.stages import statistics
from retomaton_dist.stages.runner import run_stage
from retomaton_dist.stages.statistics import StatisticsPlan, is_counted, read_statistics
from retomaton_dist.storage.corpus import TOKENS
from retomaton_dist.storage.store import Store, writing
from retomaton_dist.storage.verify import verify
from tests.storage import make

HERE = WorkerSettings(workers=0, progress="none")
ENTRIES = 5000


def tokenised(path):
    with writing(path) as writer:
        make.tokenize(writer, make.sample_documents(ENTRIES))
    return path


def count(store, holder=None):
    """Run the stage in this process; return its digest."""
    with writing(holder or store) as writer, Session(HERE) as session:
        plan = StatisticsPlan(Store.open(store), writer.path.resolve())
        return run_stage(writer, plan, session).digest


def test_a_token_is_followed_as_often_and_in_as_many_ways_as_in_the_corpus(tmp_path):
    store = tokenised(tmp_path / "a.store")
    count(store)
    corpus = Store.open(store).corpus()
    before, after = corpus.before(0, ENTRIES), corpus.values(0, ENTRIES)
    found = read_statistics(Store.open(store), corpus.vocabulary)
    for token in (-1, *np.unique(after).tolist()):
        mine = after[before == token]
        expected = np.log1p([len(mine), len(set(mine.tolist()))])
        assert found.of(np.array([token]))[0] == pytest.approx(expected)


def test_bytes_depend_neither_on_the_units_nor_on_which_store_holds_them(tmp_path, monkeypatch):
    store = tokenised(tmp_path / "a.store")
    elsewhere = count(store, tmp_path / "b.store")
    assert not is_counted(Store.open(store))
    monkeypatch.setattr(statistics, "UNIT_ENTRIES", 700)
    assert count(store) == elsewhere
    assert not (store / "statistics/parts").exists()
    assert not verify(Store.open(store)).findings


def test_a_corpus_that_was_altered_is_not_counted(tmp_path):
    store = tokenised(tmp_path / "a.store")
    data = bytearray((store / TOKENS).read_bytes())
    data[len(data) // 2] ^= 1
    (store / TOKENS).write_bytes(data)
    with pytest.raises(DamagedStore, match="altered"):
        count(store)


def test_the_command_says_what_was_counted(tmp_path, capsys):
    store = tokenised(tmp_path / "a.store")
    assert main(["statistics", str(store), "--workers", "0", "--progress", "none"]) == 0
    assert "ways" in capsys.readouterr().out
    assert is_counted(Store.open(store))
