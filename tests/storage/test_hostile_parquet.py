"""Parquet files with bytes changed or cut off: scores and corpora give a result or our own error.

Digests would tell; whoever insists on not looking (`--no-verify`), and whoever brings a corpus,
which has none, must not fall over them either.
"""

import contextlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from retomaton_dist.storage import scores
from retomaton_dist.storage.errors import RetomatonError
from tests.corpus.reading import read_corpus
from tests.storage.test_scores import columns, write

FUZZED = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@contextlib.contextmanager
def ours():
    """Whatever is refused is refused by us, in one line."""
    said = ""
    try:
        yield
    except RetomatonError as error:
        said = str(error)
    assert "\n" not in said


@st.composite
def spoiled(draw, data):
    """The bytes with some of them changed, most often in the footer, and perhaps cut off."""
    found = bytearray(data)
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for _ in range(draw(st.integers(1, 6))):
        first = draw(st.sampled_from([0, footer, footer]))
        found[draw(st.integers(first, len(found) - 1))] = draw(st.integers(0, 255))
    return bytes(found[: draw(st.integers(0, len(found)))] if draw(st.booleans()) else found)


@pytest.fixture(scope="module")
def score_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("scores") / "a.parquet"
    write(path, columns(5), columns(4, 1))
    return path.read_bytes()


@pytest.fixture(scope="module")
def corpus_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "a.parquet"
    table = pa.table({"text": ["one", "two", None, "vier é"], "id": [1, 2, 3, 4]})
    parquet.write_table(table, path, row_group_size=2)
    return path.read_bytes()


@FUZZED
@given(data=st.data())
def test_scores_with_bytes_changed(score_bytes, tmp_path, data):
    path = tmp_path / "a.parquet"
    path.write_bytes(data.draw(spoiled(score_bytes)))
    for read in (scores.read_facts, scores.column_names, _read_all):
        with ours():
            read(path)


def _read_all(path):
    found = scores.read_columns([path], list(columns(1)))
    assert all(isinstance(column, np.ndarray) for column in found.values())


@FUZZED
@given(data=st.data())
def test_a_corpus_with_bytes_changed(corpus_bytes, tmp_path, data):
    path = tmp_path / "a.parquet"
    path.write_bytes(data.draw(spoiled(corpus_bytes)))
    with ours():
        assert all(isinstance(text, str) for *_, text in read_corpus(path))
