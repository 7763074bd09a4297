"""Verify finds a single flipped bit in every kind of file, and contents that cannot be right."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retomaton_dist.storage import canonical, corpus, datastore, files, records
from retomaton_dist.storage.errors import DamagedStore, StageMissing
from retomaton_dist.storage.store import Store, digest_of_files, writing
from retomaton_dist.storage.verify import repair, total_bytes, verify
from tests.conftest import contents
from tests.storage import make
from tests.storage.conftest import flip, flipped, only
from tests.storage.make import Oracle

ZARR = datastore.FOLDER
OWNERS = {
    "corpus/tokens.arrow": ("tokenize", None),
    "corpus/documents.arrow": ("tokenize", None),
    "corpus/sources.arrow": ("tokenize", None),
    f"{ZARR}/zarr.json": ("extract", None),
    f"{ZARR}/keys/zarr.json": ("extract", None),
    f"{ZARR}/values/zarr.json": ("extract", None),
    f"{ZARR}/pointers/zarr.json": ("extract", None),
    f"{ZARR}/keys/c/0/0": ("extract", 0),
    f"{ZARR}/keys/c/2/0": ("extract", 1),
    f"{ZARR}/values/c/1": ("extract", 0),
    f"{ZARR}/values/c/2": ("extract", 1),
    f"{ZARR}/pointers/c/0": ("extract", 0),
    f"{ZARR}/pointers/c/2": ("extract", 1),
    "stages/extract/unit-00000.json": ("extract", 0),
    "stages/extract/unit-00001.json": ("extract", 1),
}
BITS = st.integers(0, 2**20)


def found(path):
    return verify(Store.open(path)).findings


def test_a_sound_store_is_sound_and_read_to_the_last_byte(sample):
    read = []
    checked = verify(Store.open(sample), read.append)
    assert checked.findings == []
    assert checked.leftovers == []
    named = {path: data for path, data in contents(sample).items() if not is_signed(path)}
    assert checked.files == len(named)
    assert checked.bytes == sum(map(len, named.values()))
    assert checked.bytes == sum(read) == total_bytes(Store.open(sample))


def is_signed(path):
    """Whether a file vouches for itself, so that no other file names it."""
    return path == "store.json" or path.startswith("stages/")


def test_this_page_names_every_kind_of_file(sample):
    def kind(path):
        return "".join("#" if part.isdigit() else part for part in path.split("/")[:3])

    assert {kind(path) for path in contents(sample)} == {
        kind(path) for path in [*OWNERS, "store.json"]
    }


@pytest.mark.parametrize("name", OWNERS)
@given(bit=BITS)
@settings(max_examples=15)
def test_a_flipped_bit_is_found_with_its_file_stage_and_unit(sample, name, bit):
    with flipped(sample / name, bit):
        finding = only(found(sample))
    assert (finding.path, (finding.stage, finding.unit)) == (name, OWNERS[name])
    assert finding.problem


@given(bit=BITS)
def test_a_flipped_bit_of_the_manifest_is_found_at_open(sample, bit):
    with flipped(sample / "store.json", bit), pytest.raises(DamagedStore, match="restore"):
        Store.open(sample)


def test_all_damage_is_found_not_only_the_first(store_copy):
    """Except in files of a unit whose own record is lost: nothing says how they should be."""
    names = {name for name, (_, unit) in OWNERS.items() if unit != 1}
    lost = {"stages/extract/unit-00001.json"}
    names -= {"stages/extract/unit-00000.json"}
    for name in names | lost:
        flip(store_copy / name, 7)
    assert {finding.path for finding in found(store_copy)} == names | lost


@pytest.mark.parametrize("name", OWNERS)
@pytest.mark.parametrize("damage", ["deleted", "truncated", "longer"])
def test_a_deleted_truncated_or_longer_file_is_found(store_copy, name, damage):
    path = store_copy / name
    whole = path.read_bytes()
    path.unlink()
    if damage != "deleted":
        path.write_bytes(whole[:-1] if damage == "truncated" else whole + b"\0")
    finding = only(found(store_copy))
    assert (finding.path, (finding.stage, finding.unit)) == (name, OWNERS[name])


def test_swapped_files_are_found(store_copy):
    one, other = store_copy / f"{ZARR}/keys/c/0/0", store_copy / f"{ZARR}/keys/c/1/0"
    one.rename(store_copy / "x")
    other.rename(one)
    (store_copy / "x").rename(other)
    assert {finding.problem for finding in found(store_copy)} == {"its contents were altered"}
    assert len(found(store_copy)) == 2


def test_a_record_of_another_build_is_found_by_the_stages_digest(store_copy):
    """Sound in itself, with sound files, but not what the manifest was signed for."""
    stage = Store.open(store_copy).stage("extract")
    record = records.read(store_copy, "extract", 1, stage.config_hash)
    name = f"{ZARR}/keys/c/2/0"
    altered = files.write(store_copy / name, bytes(record.files[name].bytes))
    files_named = {**record.files, name: altered}
    records.write(store_copy, "extract", records.Record(1, stage.config_hash, files_named))
    finding = only(found(store_copy))
    assert (finding.path, finding.stage) == ("stages/extract", "extract")


def test_what_no_stage_knows_is_a_leftover_and_no_damage(store_copy):
    extra = ["notes.txt", "corpus/parts/unit-00000.tokens.arrow", "stages/extract/unit-00009.json"]
    for name in extra:
        (store_copy / name).parent.mkdir(exist_ok=True)
        (store_copy / name).write_bytes(b"x")
    checked = verify(Store.open(store_copy))
    assert checked.findings == []
    assert checked.leftovers == sorted(extra)


def test_a_lock_left_by_a_killed_writer_is_no_leftover(store_copy):
    (store_copy / "store.lock").write_bytes(b"{}")
    assert verify(Store.open(store_copy)).leftovers == []


def test_finished_units_of_a_running_stage_are_checked_as_well(tmp_path):
    with writing(tmp_path) as writer:
        make.tokenize(writer, make.sample_documents())
        make.extract(writer)
        writer.forget("extract", 1)
    assert found(tmp_path) == []
    with flipped(tmp_path / f"{ZARR}/values/c/0", 5):
        assert only(found(tmp_path)).unit == 0
    checked = verify(Store.open(tmp_path))
    assert sorted(checked.leftovers) == [
        f"{ZARR}/{name}" for name in ("keys/c/2/0", "pointers/c/2", "values/c/2")
    ]


@pytest.mark.parametrize("name", OWNERS)
def test_a_repaired_store_does_the_damage_anew_to_the_same_bytes(sample, store_copy, name):
    flip(store_copy / name, 3)
    repair(store_copy, verify(Store.open(store_copy)))
    with pytest.raises(StageMissing):
        Store.open(store_copy).stage(OWNERS[name][0])
    make.build(store_copy)
    assert found(store_copy) == []
    assert contents(store_copy) == contents(sample)


ORACLE = Oracle.of(make.sample_documents(), make.PREFIX)
INSIDE = next(entry for entry in range(2500, 5000) if ORACLE.pointers[entry] != -1)
END = next(entry for entry in range(3000, 5000) if ORACLE.pointers[entry] == -1)


@pytest.mark.parametrize(
    ("entry", "pointer"),
    [
        pytest.param(INSIDE, 5000, id="out of range"),
        pytest.param(INSIDE, 2**40, id="far out of range"),
        pytest.param(4998, 5000, id="out of range in the last document"),
        pytest.param(INSIDE, -2, id="negative"),
        pytest.param(INSIDE, -(2**40), id="very negative"),
        pytest.param(INSIDE, 0, id="into an earlier document"),
        pytest.param(INSIDE, 4999, id="into a later document"),
        pytest.param(INSIDE, -1, id="an end inside a document"),
        pytest.param(END, END + 1, id="no end where a document ends"),
        pytest.param(END, END, id="a document's end that points back"),
        pytest.param(4999, 4998, id="no end where the corpus ends"),
        pytest.param(0, 1, id="no end in a document of one entry"),
    ],
)
def test_a_wrong_pointer_with_right_digests_is_found(tmp_path, entry, pointer):
    pointers = np.array(ORACLE.pointers)
    assert pointers[entry] != pointer
    pointers[entry] = pointer
    finding = only(found(make.build(tmp_path, pointers=pointers)))
    chunk = entry // make.CHUNK_ENTRIES
    assert finding.path == f"{ZARR}/pointers/c/{chunk}"
    assert finding.problem.startswith(f"entry {entry} points to {pointer}, ")
    assert (finding.stage, finding.unit) == ("extract", chunk // make.UNIT_CHUNKS)


@pytest.mark.parametrize("value", [-1, make.VOCABULARY, 2**31 - 1, 42])
@pytest.mark.parametrize("entry", [0, 3000, 4999])
def test_a_wrong_value_with_right_digests_is_found(tmp_path, entry, value):
    values = np.array(ORACLE.values, np.int32)
    assert values[entry] != value
    values[entry] = value
    finding = only(found(make.build(tmp_path, values=values)))
    assert finding.path == f"{ZARR}/values/c/{entry // make.CHUNK_ENTRIES}"
    assert finding.problem.startswith(f"entry {entry} has value {value}, ")


def test_wrong_contents_are_repaired_by_the_unit_that_wrote_them(sample, tmp_path):
    pointers = np.array(ORACLE.pointers)
    pointers[3000] = 4999
    make.build(tmp_path / "my.store", pointers=pointers)
    repair(tmp_path / "my.store", verify(Store.open(tmp_path / "my.store")))
    make.build(tmp_path / "my.store")
    assert contents(tmp_path / "my.store") == contents(sample)


def test_a_datastore_of_another_corpus_is_found(tmp_path):
    """Both are sound, but the entries of one are not those of the other."""
    with writing(tmp_path) as writer:
        make.tokenize(writer, make.sample_documents())
        make.extract(writer)
        writer.abandon("tokenize")
        make.tokenize(writer, make.sample_documents(4990))
    finding = only(found(tmp_path))
    assert (finding.path, finding.stage) == (corpus.DOCUMENTS, "tokenize")
    assert "4,990" in finding.problem
    assert "5,000" in finding.problem


def test_the_digest_of_a_stage_is_that_of_all_its_files(sample):
    store = Store.open(sample)
    for name, stage in store.manifest.stages.items():
        folder = "corpus/" if name == "tokenize" else f"{ZARR}/"
        paths = [path for path in contents(sample) if path.startswith(folder)]
        assert stage.digest == digest_of_files(
            {path: files.digest_of(sample / path) for path in paths}
        )


def test_repairing_a_store_whose_manifest_names_a_folder_outside_removes_nothing(store_copy):
    """`../../x` as a stage's name would have its records, stages/../../x, deleted."""
    outside = store_copy.parent / "x"
    outside.mkdir()
    (outside / "precious").write_text("data")
    value = canonical.read(store_copy / "store.json", "")
    hostile = {**value["stages"][0], "name": "../../x", "units": 0, "digest": "wrong"}
    value["stages"].append(hostile)
    canonical.write(store_copy / "store.json", value)
    with pytest.raises(DamagedStore, match="name cannot be"):
        repair(store_copy, verify(Store.open(store_copy)))
    assert (outside / "precious").read_text() == "data"
