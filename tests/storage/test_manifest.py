"""The manifest: what a store was made from; anything else in its place is refused at open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.storage import canonical, manifest
from retomaton_dist.storage.errors import ConfigMismatch, DamagedStore, NotAStore, StageMissing
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.manifest import MANIFEST_NAME, Manifest, Stage
from retomaton_dist.storage.store import Store
from tests.storage.conftest import run_script

DONE = Stage(
    "done",
    {"batch": {"tokens": 4}, "é": None},
    2,
    digest="d",
    bytes=7,
    files={"a/b": FileDigest("x", 7)},
    facts={"entries": 1},
    made_with={"numpy": "2"},
)
RUNNING = Stage("running", {}, 1)


def refusal(error, folder):
    """The one line that opening the folder is refused with."""
    with pytest.raises(error) as refused:
        Store.open(folder)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_manifest_is_read_as_it_was_written_with_its_stages_in_order(tmp_path):
    stages = {"tokenize": DONE, "extract": RUNNING, "cluster/a": DONE}
    manifest.write(tmp_path, Manifest(stages))
    found = manifest.read(tmp_path)
    assert found == Manifest(stages)
    assert list(found.stages) == list(stages)


def test_a_missing_store_is_refused_with_the_command_that_makes_one(tmp_path):
    message = refusal(NotAStore, tmp_path / "no.store")
    assert message.startswith(f"{tmp_path / 'no.store'}: no such store; `retomaton extract")


def test_a_foreign_folder_is_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    assert "is not a store: it has no store.json" in refusal(NotAStore, tmp_path)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "my.store").write_text("")
    refusal(NotAStore, tmp_path / "my.store")


def test_a_folder_in_place_of_the_manifest_is_refused(tmp_path):
    (tmp_path / MANIFEST_NAME).mkdir()
    assert "Is a directory" in refusal(NotAStore, tmp_path)


def test_a_manifest_of_another_program_is_refused(tmp_path):
    canonical.write(tmp_path / MANIFEST_NAME, {"format": "shop-store", "version": 1})
    assert "is not the manifest of a retomaton-store" in refusal(NotAStore, tmp_path)


def test_a_newer_version_is_refused_with_both_versions(tmp_path):
    newer = {"format": manifest.FORMAT, "version": manifest.VERSION + 1, "more": "than we know"}
    canonical.write(tmp_path / MANIFEST_NAME, newer)
    message = refusal(NotAStore, tmp_path)
    assert (
        f"format version {manifest.VERSION + 1}, this program knows {manifest.VERSION}" in message
    )
    assert "upgrade" in message


@pytest.mark.parametrize("unreadable", [".", MANIFEST_NAME])
def test_an_unreadable_store_is_refused_in_one_line(tmp_path, unreadable):
    folder = tmp_path / "my.store"
    manifest.write(folder, Manifest())
    (folder / unreadable).chmod(0)
    try:
        message = run_script("Store.open(folder)", folder, unprivileged=True)
    finally:
        (folder / unreadable).chmod(0o755)
    assert message == f"NotAStore: cannot read {folder / MANIFEST_NAME}: Permission denied"


@given(kept=st.integers(0, 10**6))
def test_a_truncated_manifest_is_damage_with_a_remedy(tmp_path_factory, kept):
    folder = tmp_path_factory.mktemp("manifest")
    manifest.write(folder, Manifest({"tokenize": DONE}))
    whole = (folder / MANIFEST_NAME).read_bytes()
    (folder / MANIFEST_NAME).write_bytes(whole[: kept % len(whole)])
    message = refusal(DamagedStore, folder)
    assert message.startswith(f"{folder / MANIFEST_NAME} is damaged")
    assert "restore store.json from a copy" in message


@pytest.mark.parametrize(
    ("stages", "reason"), [({}, "has not been run"), ({"index/a": RUNNING}, "is not finished")]
)
def test_a_stage_that_is_needed_is_named_with_its_command(tmp_path, stages, reason):
    with pytest.raises(StageMissing) as refused:
        Store(tmp_path, Manifest(stages)).stage("index/a")
    expected = f"{tmp_path}: stage index/a {reason}; run `retomaton index {tmp_path} ...` first"
    assert str(refused.value) == expected


CONFIG = {"model": "a", "batch": {"tokens": 4, "threads": 1}, "sizes": [1, 2], "end": None}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"model": "b"}, "model was a, now b"),
        ({"batch": {"tokens": 8, "threads": 1}}, "batch.tokens was 4, now 8"),
        ({"sizes": [1, 3]}, "sizes was [1, 2], now [1, 3]"),
        ({"batch": 4}, "batch was {'tokens': 4, 'threads': 1}, now 4"),
        ({"batch": {"tokens": 4, "threads": True}}, "batch.threads was 1, now True"),
        ({"split": "line"}, "split was (absent), now line"),
        ({"split": None}, "split was (absent), now None"),
        ({"end": "eos"}, "end was None, now eos"),
        ({"model": "b", "end": 0}, "end was None, now 0; model was a, now b"),
        ({"model": "m" * 200}, "model was a, now " + "m" * 57 + "..."),
    ],
)
def test_another_config_is_refused_and_each_difference_named(tmp_path, changed, named):
    stage = Stage("running", CONFIG, 1)
    with pytest.raises(ConfigMismatch) as refused:
        manifest.check_config(tmp_path, "extract", stage, {**CONFIG, **changed})
    assert str(refused.value) == (
        f"{tmp_path}: stage extract was begun with other settings: {named}. "
        f"Repeat the old settings, or use another store"
    )


@pytest.mark.parametrize("name", ["cluster/kmeans", "index/default", "compile/a", "calibrate/b"])
def test_of_what_has_a_name_there_may_be_two(tmp_path, name):
    own = name.split("/")[1]
    with pytest.raises(ConfigMismatch, match=f"old settings, or keep both: --name {own}-2"):
        manifest.check_config(tmp_path, name, Stage("done", {"k": 1}, 1), {"k": 2})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2)
    ),
)


@given(
    old=st.dictionaries(st.sampled_from("abc"), JSON),
    new=st.dictionaries(st.sampled_from("abc"), JSON),
)
def test_a_config_is_accepted_exactly_if_its_hash_is_the_same(tmp_path_factory, old, new):
    accepted = True
    try:
        manifest.check_config(tmp_path_factory.getbasetemp(), "x", Stage("running", old, 1), new)
    except ConfigMismatch:
        accepted = False
    assert accepted == (canonical.content_hash(old) == canonical.content_hash(new))


def test_tuples_are_the_lists_that_they_become_in_the_file(tmp_path):
    manifest.check_config(tmp_path, "x", Stage("done", {"sizes": [1, 2]}, 1), {"sizes": (1, 2)})


HOSTILE = ["../../x", "..", ".", "", "/etc", "a/../b", "a/b/c", "a//b", "a b", "a\0", "x" * 300, 7]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_stage_whose_name_leads_elsewhere_is_refused_when_the_manifest_is_read(tmp_path, name):
    manifest.write(tmp_path, Manifest({name: RUNNING}))
    assert "name cannot be" in refusal(DamagedStore, tmp_path)


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "a/../../x", "", "a//b", "a\0", "a\\..\\b"]
)
def test_a_file_outside_the_store_is_refused_when_the_manifest_is_read(tmp_path, path):
    stage = Stage("done", {}, 0, files={path: FileDigest("x", 1)})
    manifest.write(tmp_path, Manifest({"extract": stage}))
    assert "files cannot be" in refusal(DamagedStore, tmp_path)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"units": -1}, "units cannot be -1"),
        ({"units": 10**12}, "units cannot be"),
        ({"units": True}, "units cannot be True"),
        ({"status": "eaten"}, "status cannot be 'eaten'"),
        ({"bytes": "many"}, "bytes cannot be 'many'"),
        ({"config": []}, "config cannot be"),
        ({"made_with": {"numpy": 2}}, "made_with cannot be"),
        ({"facts": {"entries": -5}}, "facts of stage extract: entries cannot be -5"),
        ({"facts": {"dimension": 1.5}}, "dimension cannot be 1.5"),
        ({"config": {"unit_chunks": 0}}, "config of stage extract: unit_chunks cannot be 0"),
        ({"more": 1}, "a stage holds"),
    ],
)
def test_what_no_stage_writes_is_refused_when_the_manifest_is_read(tmp_path, changed, named):
    manifest.write(tmp_path, Manifest({"extract": DONE}))
    value = canonical.read(tmp_path / MANIFEST_NAME, "")
    value["stages"][0] |= changed
    canonical.write(tmp_path / MANIFEST_NAME, value)
    assert named in refusal(DamagedStore, tmp_path)


def test_a_fact_that_a_reader_relies_on_and_that_is_not_there_is_damage(tmp_path):
    manifest.write(tmp_path, Manifest({"extract": DONE}))
    with pytest.raises(DamagedStore, match="lacks 'dimension'"):
        Store.open(tmp_path).shape()
