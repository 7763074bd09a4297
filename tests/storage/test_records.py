"""Completion records: a unit is done when its record says so, for these settings."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retomaton_dist.storage import records
from retomaton_dist.storage.errors import BadInput, DamagedStore
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.records import Record

RECORD = Record(3, "hash", {"a/b": FileDigest("digest", 7)}, {"tokens": 12})


def test_a_record_is_read_as_it_was_written(tmp_path):
    records.write(tmp_path, "cluster/kmeans", RECORD)
    assert records.read(tmp_path, "cluster/kmeans", 3, "hash") == RECORD


@given(units=st.sets(st.integers(0, 10**6), max_size=5))
@settings(max_examples=20)
def test_the_finished_units_are_those_with_a_record(tmp_path_factory, units):
    store = tmp_path_factory.mktemp("records")
    for unit in units:
        records.write(store, "extract", Record(unit, "hash", {}))
    assert records.finished(store, "extract") == units
    assert records.finished(store, "tokenize") == set()


def test_what_a_killed_writer_left_is_no_record(tmp_path):
    folder = records.folder(tmp_path, "extract")
    folder.mkdir(parents=True)
    for name in (".unit-00001.json.0123.tmp", "unit-00001.json.tmp", "unit-1x.json", "notes"):
        (folder / name).write_bytes(b"")
    assert records.finished(tmp_path, "extract") == set()


@pytest.mark.parametrize(("unit", "config_hash"), [(3, "other"), (4, "hash")])
def test_a_record_of_other_settings_or_of_another_unit_is_damage(tmp_path, unit, config_hash):
    records.write(tmp_path, "extract", RECORD)
    folder = records.folder(tmp_path, "extract")
    (folder / "unit-00004.json").write_bytes((folder / "unit-00003.json").read_bytes())
    with pytest.raises(DamagedStore, match="another unit or other settings; delete it"):
        records.read(tmp_path, "extract", unit, config_hash)


def test_a_missing_record_is_damage_where_it_must_exist(tmp_path):
    with pytest.raises(DamagedStore, match="is missing although its stage is done"):
        records.read(tmp_path, "extract", 0, "hash")


def test_a_removed_unit_counts_as_not_done(tmp_path):
    records.write(tmp_path, "extract", RECORD)
    records.remove(tmp_path, "extract", 3)
    records.remove(tmp_path, "extract", 3)
    assert records.finished(tmp_path, "extract") == set()


def test_a_discarded_stage_leaves_nothing_and_other_stages_alone(tmp_path):
    records.write(tmp_path, "cluster/a", RECORD)
    records.write(tmp_path, "cluster/b", RECORD)
    records.discard(tmp_path, "cluster/a")
    assert not records.folder(tmp_path, "cluster/a").exists()
    assert records.finished(tmp_path, "cluster/b") == {3}


@pytest.mark.parametrize("stage", ["..", "", "calibrate/..", "calibrate/", "/tmp", "a/b/c"])
def test_records_of_what_is_no_name_of_a_stage_are_never_removed(tmp_path, stage):
    records.write(tmp_path, "extract", Record(0, "hash", {}))
    with pytest.raises(BadInput, match="not the name of a stage"):
        records.discard(tmp_path, stage)
    assert records.finished(tmp_path, "extract") == {0}
