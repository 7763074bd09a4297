"""`retomaton verify`: exit code 0 if all is sound, 1 if anything is damaged, 2 if no store."""

import pytest

import retomaton_dist as rd
from retomaton_dist.storage.store import Store
from tests.cli.checks import Unchanged, check_refused
from tests.conftest import contents

CHUNK = "datastore.zarr/keys/c/2/0"
RECORD = "stages/extract/unit-00001.json"


def flip(path, place=100):
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)


def test_a_sound_store_is_exit_code_0(command, small_store):
    with Unchanged(small_store.path):
        result = command("verify", small_store.path, "--progress", "none")
    assert (result.returncode, result.stderr) == (0, "")
    files = [name for name in contents(small_store.path) if not name.startswith("st")]
    assert result.stdout.startswith(f"sound: {len(files)} files, ")


@pytest.mark.parametrize(
    "name", [CHUNK, RECORD, "corpus/tokens.arrow", "datastore.zarr/values/zarr.json"]
)
def test_a_flipped_bit_is_exit_code_1_and_named_with_what_to_do(
    command, small_store, tmp_path, name
):
    copied = small_store.copy(tmp_path).path
    flip(copied / name)
    with Unchanged(copied):
        result = command("verify", copied, "--progress", "none")
    stage = "tokenize" if name.startswith("corpus") else "extract"
    damaged, advice = result.stdout.splitlines()
    assert (result.returncode, result.stderr) == (1, "")
    assert damaged.startswith(f"damaged: {copied / name}: ")
    assert f"retomaton verify {copied} --repair" in advice
    assert f"`retomaton {stage} ...`" in advice


def test_a_damaged_manifest_is_exit_code_1(command, small_store, tmp_path):
    copied = small_store.copy(tmp_path).path
    flip(copied / "store.json")
    result = command("verify", copied, "--progress", "none")
    assert result.returncode == 1
    assert result.stdout.startswith(f"damaged: {copied / 'store.json'} ")


def test_missing_and_truncated_files_are_damage(command, small_store, tmp_path):
    copied = small_store.copy(tmp_path).path
    (copied / CHUNK).unlink()
    whole = (copied / "corpus/documents.arrow").read_bytes()
    (copied / "corpus/documents.arrow").write_bytes(whole[:-1])
    result = command("verify", copied, "--progress", "none")
    assert result.returncode == 1
    assert f"damaged: {copied / CHUNK}: cannot be read: No such file" in result.stdout
    assert f"documents.arrow: has {len(whole) - 1:,} bytes instead of {len(whole):,}" in (
        result.stdout
    )


def test_a_file_that_no_stage_knows_is_named_but_is_no_damage(command, small_store, tmp_path):
    copied = small_store.copy(tmp_path).path
    (copied / "notes.txt").write_text("mine")
    result = command("verify", copied, "--progress", "none")
    assert result.returncode == 0
    assert f"not part of the store: {copied / 'notes.txt'}" in result.stdout


def test_what_is_no_store_is_exit_code_2(command, tmp_path):
    check_refused(command("verify", tmp_path), "is not a store")
    check_refused(command("verify", tmp_path / "none"), "no such store")


def test_progress_comes_as_json_lines(command, small_store):
    result = command("verify", small_store.path, "--progress", "json")
    assert result.stderr.splitlines()[-1].startswith('{"stage": "verify", "done": ')


def test_repaired_and_extracted_again_it_has_the_old_digests(command, small_store, tmp_path):
    copied = small_store.copy(tmp_path)
    flip(copied.path / CHUNK)
    flip(copied.path / RECORD)
    result = command("verify", copied.path, "--repair", "--progress", "none")
    assert result.returncode == 1
    assert "run `retomaton extract ...` with the old settings again" in result.stdout
    facts = rd.open(copied.path).describe()["stages"]
    assert facts["extract"]["status"] == "running"
    assert facts["extract"]["units_done"] == facts["extract"]["units"] - 2

    assert command("extract", copied.path, *copied.flags()).returncode == 0
    assert contents(copied.path) == contents(small_store.path)
    assert command("verify", copied.path, "--progress", "none").returncode == 0


def test_a_repaired_corpus_is_tokenised_again_and_the_keys_are_kept(command, small_store, tmp_path):
    copied = small_store.copy(tmp_path)
    flip(copied.path / "corpus/documents.arrow", 1000)
    assert command("verify", copied.path, "--repair", "--progress", "none").returncode == 1
    keys = copied.path / CHUNK
    before = keys.stat().st_mtime_ns
    assert command("extract", copied.path, *copied.flags()).returncode == 0
    assert keys.stat().st_mtime_ns == before
    stages = [Store.open(path).manifest.stages for path in (copied.path, small_store.path)]
    assert {name: stage.digest for name, stage in stages[0].items()} == {
        name: stage.digest for name, stage in stages[1].items()
    }
    assert command("verify", copied.path, "--progress", "none").returncode == 0
