"""Artifacts whose files are whole and say what nobody wrote: a result or our own error."""

import contextlib
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import retomaton_dist as rd
from retomaton_dist.errors import BadInput, RetomatonError
from retomaton_dist.settings.parsing import read_file, with_tables
from retomaton_dist.storage import canonical
from tests.storage.hostile import altered, signed

FUZZED = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def copied(walkable_store, tmp_path_factory):
    """A store whose descriptions the tests alter and put back."""
    return shutil.copytree(walkable_store.path, tmp_path_factory.mktemp("hostile") / "a.store")


@contextlib.contextmanager
def put_back(path):
    before = path.read_bytes()
    try:
        yield
    finally:
        path.write_bytes(before)


def use_automaton(store):
    automaton = store.automaton("kmeans", verify=False)
    automaton.transitions(0, 3)
    automaton.weights([0], np.zeros(automaton.dimension))


def use_suffixes(store):
    suffixes = store.suffixes(verify=False)
    suffixes.look_up(np.zeros((2, suffixes.longest), np.int32), 4)


def use_ngrams(store):
    ngrams = store.ngrams(verify=False)
    recent = np.zeros((2, ngrams.order - 1), np.int32)
    ngrams.log_p(recent, np.zeros(2, np.int32))
    ngrams.distributions(recent)


def use_index(store):
    searcher = store.searcher(verify=False)
    searcher.search(np.zeros((1, store.dimension)), 2)


USED = {
    "automata/kmeans/automaton.json": use_automaton,
    "suffixes/default/suffixes.json": use_suffixes,
    "ngrams/default/ngrams.json": use_ngrams,
    "index/default/index.json": use_index,
}


@pytest.mark.parametrize("name", USED)
@FUZZED
@given(data=st.data())
def test_a_description_that_nobody_wrote(copied, name, data):
    with put_back(copied / name):
        signed(copied / name, data.draw(altered(canonical.read(copied / name, ""))))
        with contextlib.suppress(RetomatonError):
            USED[name](rd.open(copied))


def test_descriptions_as_they_are(copied):
    for use in USED.values():
        use(rd.open(copied))


LINES = ["[cluster]", "[index]", "[extract]", "[x]", "states = ", "seed = ", "store = ", "field = "]
RIGHT = ["1", "-1", "1e400", "nan", "inf", '"a\\u0000b"', "[]", "[[]]", "{}", "true", "'é'", '"""',
         "0x" + "f" * 99, "0x" + "f" * 9000, "9" * 5000, "1979-05-27", "[" * 3000]  # fmt: skip


@FUZZED
@given(lines=st.lists(st.sampled_from(LINES), max_size=5), values=st.data())
def test_a_toml_file_that_nobody_should_write(tmp_path, lines, values):
    path = tmp_path / "a.toml"
    full = [line + values.draw(st.sampled_from(RIGHT)) if "=" in line else line for line in lines]
    path.write_text("\n".join(full))
    with contextlib.suppress(BadInput):
        with_tables([None] * 5, read_file(path))


@FUZZED
@given(data=st.binary(max_size=60))
def test_bytes_in_place_of_a_toml_file(tmp_path, data):
    (tmp_path / "a.toml").write_bytes(data)
    with contextlib.suppress(BadInput):
        read_file(tmp_path / "a.toml")
