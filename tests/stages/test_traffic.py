"""Bytes that `compile` and `suffix` read and write: a fixed number per entry, for any units."""

import pytest

from retomaton_dist.storage.store import Store
from tests.stages.made import compile_here, make_store, random_states, suffix_here, write_clustering

ENTRIES = 60_000
FEW, MANY = 4, 32


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = make_store(tmp_path_factory.mktemp("traffic") / "a.store", ENTRIES)
    write_clustering(path, random_states(ENTRIES))
    return path


def compiled(path, name, unit_entries):
    compile_here(path, name=name, codec="fp16", unit_entries=unit_entries)


def indexed(path, name, unit_entries):
    suffix_here(path, name=name, unit_entries=unit_entries)


@pytest.mark.parametrize(("stage", "run"), [("compile", compiled), ("suffix", indexed)])
def test_bytes_read_and_written_do_not_grow_with_the_number_of_units(store, stage, run):
    found = []
    for units in (FEW, MANY):
        run(store, f"of{units}", ENTRIES // units)
        done = Store.open(store).stage(f"{stage}/of{units}")
        found.append((done.facts["bytes_read"] + done.facts["bytes_written"]) / done.bytes)
    few, many = found
    assert few / 1.2 < many < 1.2 * few
    assert 3 < few < 8, "times the columns made"
