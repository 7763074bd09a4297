"""Stores whose files are whole and say what nobody wrote: a result or our own error, never more.

Nothing outside the store is written or removed, whatever is done with it.
"""

import contextlib
import os
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retomaton_dist.api.describe import as_text, describe
from retomaton_dist.storage import canonical
from retomaton_dist.storage.checked import check_stage
from retomaton_dist.storage.errors import RetomatonError
from retomaton_dist.storage.lock import LOCK_NAME
from retomaton_dist.storage.manifest import MANIFEST_NAME
from retomaton_dist.storage.prune import prune_keys
from retomaton_dist.storage.store import Store, writing
from retomaton_dist.storage.verify import repair, verify
from tests.conftest import contents
from tests.storage import make
from tests.storage.hostile import altered, signed

FUZZED = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A store of one chunk, and something precious where hostile names lead to."""
    root = tmp_path_factory.mktemp("hostile")
    (root / "x").mkdir()
    (root / "x/precious").write_text("data")
    return make.build(root / "deep/small.store", [[1, 2, 3], [4, 5]])


@contextlib.contextmanager
def ours():
    """Whatever is refused is refused by us."""
    with contextlib.suppress(RetomatonError):
        yield


def use(path):
    """Do with a store whatever the storage layer does."""
    with ours():
        print(as_text(describe(Store.open(path))))
    with ours():
        store = Store.open(path)
        for name in store.manifest.stages:
            with ours():
                check_stage(store, name)
        with ours():
            corpus = store.corpus()
            corpus.values(0, corpus.entries)
            corpus.pointers(0, corpus.entries)
            _ = [corpus[number] for number in range(len(corpus))]
        with ours():
            store.datastore().keys[0]
        with ours():
            repair(path, verify(store))
    with ours(), writing(path) as writer:
        with ours():
            prune_keys(writer, ["pq"])
        for name in list(writer.manifest.stages):
            with ours():
                writer.begin(name, writer.manifest.stages[name].config, 2, {}, merges=True)
        for name in list(writer.manifest.stages):
            writer.abandon(name)


@contextlib.contextmanager
def hostile_copy(small):
    """A store to alter; beside it everything is as it was in the end."""
    root = small.parent.parent
    before = contents(root)
    path = root / "deep/copy.store"
    shutil.copytree(small, path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
    assert contents(root) == before


@FUZZED
@given(data=st.data())
def test_a_manifest_that_nobody_wrote(small, data):
    with hostile_copy(small) as path:
        value = canonical.read(path / MANIFEST_NAME, "")
        signed(path / MANIFEST_NAME, data.draw(altered(value)))
        use(path)


@FUZZED
@given(data=st.data())
def test_a_record_that_nobody_wrote(small, data):
    with hostile_copy(small) as path:
        record = path / "stages/extract/unit-00000.json"
        signed(record, data.draw(altered(canonical.read(record, ""))))
        use(path)


@FUZZED
@given(data=st.binary(max_size=200), name=st.sampled_from([MANIFEST_NAME, "stages/extract"]))
def test_bytes_in_place_of_a_manifest_or_record(small, data, name):
    with hostile_copy(small) as path:
        place = path / name if name == MANIFEST_NAME else path / name / "unit-00000.json"
        place.write_bytes(data)
        use(path)


@FUZZED
@given(data=st.data())
def test_arrow_files_and_zarr_metadata_with_bytes_changed(small, data):
    """Their digests no longer fit; whoever does not look must not fall over them either."""
    with hostile_copy(small) as path:
        names = ["corpus/tokens.arrow", "corpus/documents.arrow", "corpus/sources.arrow",
                 "datastore.zarr/zarr.json", "datastore.zarr/values/zarr.json"]  # fmt: skip
        place = path / data.draw(st.sampled_from(names))
        found = bytearray(place.read_bytes())
        for _ in range(data.draw(st.integers(1, 8))):
            found[data.draw(st.integers(0, len(found) - 1))] = data.draw(st.integers(0, 255))
        place.write_bytes(found)
        use(path)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_pipe_or_a_folder_in_place_of_any_file(small, kind):
    """A pipe that nobody writes to would be waited for for ever."""
    for name in [*sorted(contents(small)), LOCK_NAME]:
        with hostile_copy(small) as path:
            (path / name).unlink(missing_ok=True)
            (os.mkfifo if kind == "pipe" else os.mkdir)(path / name)
            use(path)


@pytest.mark.parametrize("name", [".a.tmp", "corpus/.a.tmp", "stages", "stages/extract"])
def test_folders_where_files_are_and_files_where_folders_are(small, name):
    with hostile_copy(small) as path:
        if name.endswith(".tmp"):
            (path / name / "below").mkdir(parents=True)
        else:
            shutil.rmtree(path / name)
            (path / name).write_text("no folder")
        use(path)


@pytest.mark.parametrize("deep", [100_000, 5])
def test_brackets_inside_brackets_without_end(small, deep):
    with hostile_copy(small) as path:
        (path / MANIFEST_NAME).write_bytes(b"[" * deep + b"]" * deep)
        use(path)


@pytest.mark.parametrize(
    ("column", "wrong"), [("length", [0, 5]), ("first_entry", [0, 9]), ("length", [2**62, 2**62])]
)
@pytest.mark.parametrize("block", [1, 1 << 18])
def test_documents_that_do_not_follow_each_other(small, column, wrong, block, monkeypatch):
    """Written by a stage of its own, so that every digest fits."""
    import pyarrow as pa

    from retomaton_dist.storage import columns, corpus

    monkeypatch.setattr(corpus, "BLOCK_DOCUMENTS", block)
    with hostile_copy(small) as path:
        batch = columns.map_batch(path / corpus.DOCUMENTS)
        place = batch.schema.get_field_index(column)
        changed = batch.set_column(place, column, pa.array(wrong, pa.int64()))
        columns.write_batch(path / corpus.DOCUMENTS, changed)
        with pytest.raises(RetomatonError, match="do not follow each other"):
            _ = Store.open(path).corpus().entries
