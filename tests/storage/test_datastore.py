"""Keys, values and pointers against plain arrays, through memory maps and through Zarr."""

import itertools
import multiprocessing
import pickle
import random
from dataclasses import dataclass

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.storage import datastore
from retomaton_dist.storage.datastore import Datastore, Shape, choose_chunk_entries
from retomaton_dist.storage.errors import BadInput, DamagedStore
from retomaton_dist.storage.files import digest_of
from tests.conftest import contents
from tests.storage.conftest import flipped

NAMES = ("keys", "values", "pointers")
SHAPE = Shape(5000, 3, 2048)


@dataclass(frozen=True)
class Plain:
    """The oracle: three plain arrays."""

    keys: np.ndarray
    values: np.ndarray
    pointers: np.ndarray

    @classmethod
    def of(cls, shape, seed=0):
        draw = np.random.default_rng(seed)
        keys = draw.normal(size=(shape.entries, shape.dimension)).astype(np.float16)
        values = draw.integers(-(2**31), 2**31, shape.entries).astype(np.int32)
        return cls(keys, values, draw.integers(-1, 2**62, shape.entries))

    def rows(self, first, last):
        return [getattr(self, name)[first:last] for name in NAMES]


def write(folder, shape, plain, order=None):
    """Create a datastore and write its chunks in the order given."""
    written = datastore.create(folder, shape)
    for chunk in range(shape.chunks) if order is None else order:
        rows = plain.rows(*shape.chunk_range(chunk))
        written |= datastore.write_chunk(folder, chunk, *rows)
    return written


def write_rows(folder, chunk, rows):
    datastore.write_chunk(folder, chunk, *rows)


def assert_holds(folder, shape, plain):
    opened = Datastore.open(folder, shape)
    for name in NAMES:
        expected = getattr(plain, name)
        for found in (getattr(opened, name), opened.array(name)[:]):
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            np.testing.assert_array_equal(found, expected)


@pytest.fixture(scope="module")
def sample_datastore(tmp_path_factory):
    """A datastore of one chunk; what a test flips it restores."""
    folder, shape = tmp_path_factory.mktemp("sample"), Shape(2000, 1, 2048)
    write(folder, shape, Plain.of(shape))
    return Datastore.open(folder, shape)


@pytest.fixture
def made(tmp_path):
    """A datastore of three chunks that the test may damage."""
    write(tmp_path, SHAPE, Plain.of(SHAPE))
    return Datastore.open(tmp_path, SHAPE)


shapes = st.builds(
    Shape,
    entries=st.integers(1, 3 * 2048 + 1),
    dimension=st.integers(1, 8),
    chunk_entries=st.sampled_from([2048, 4096]),
)


@given(shape=shapes, seed=st.integers(0, 100), chaos=st.randoms(use_true_random=False))
def test_what_is_written_in_any_order_is_read_by_map_and_by_zarr(
    tmp_path_factory, shape, seed, chaos
):
    folder, plain = tmp_path_factory.mktemp("datastore"), Plain.of(shape, seed)
    order = list(range(shape.chunks))
    chaos.shuffle(order)
    written = write(folder, shape, plain, order)
    assert written == {name: digest_of(folder / name) for name in contents(folder)}
    assert_holds(folder, shape, plain)
    chosen = np.random.default_rng(seed).integers(0, shape.entries, 50)
    rows = Datastore.open(folder, shape).keys[chosen]
    np.testing.assert_array_equal(rows, plain.keys[chosen])


def test_several_processes_write_what_one_process_writes(tmp_path):
    shape = Shape(8 * 2048 - 5, 4, 2048)
    plain = Plain.of(shape)
    write(tmp_path / "one", shape, plain)
    datastore.create(tmp_path / "many", shape)
    jobs = [
        (tmp_path / "many", chunk, plain.rows(*shape.chunk_range(chunk)))
        for chunk in random.Random(1).sample(range(shape.chunks), shape.chunks)
    ]
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        pool.starmap(write_rows, jobs, chunksize=1)
    assert contents(tmp_path / "many") == contents(tmp_path / "one")
    assert_holds(tmp_path / "many", shape, plain)


@pytest.mark.parametrize("name", NAMES)
def test_chunk_files_are_raw_little_endian_rows_and_the_last_is_padded(made, name):
    plain = getattr(Plain.of(SHAPE), name)
    little = plain.astype(plain.dtype.newbyteorder("<"))
    for chunk in range(SHAPE.chunks):
        first, last = SHAPE.chunk_range(chunk)
        raw = little[first:last].tobytes()
        full = little[: SHAPE.chunk_entries].nbytes
        assert made.chunk_file(name, chunk).read_bytes() == raw.ljust(full, b"\0")


def test_any_zarr_reader_can_read_it(made):
    group = zarr.open_group(str(made.folder), mode="r")
    assert sorted(group.array_keys()) == sorted(NAMES)
    np.testing.assert_array_equal(group["keys"][:], Plain.of(SHAPE).keys)


def test_a_chunk_of_zeros_is_written_like_any_other(tmp_path):
    zeros = Plain(
        np.zeros((5000, 3), np.float16), np.zeros(5000, np.int32), np.zeros(5000, np.int64)
    )
    assert len(write(tmp_path, SHAPE, zeros)) == 4 + 3 * SHAPE.chunks
    assert_holds(tmp_path, SHAPE, zeros)


@pytest.mark.parametrize("chunk", [0, 2])
def test_a_chunk_written_again_has_the_same_bytes_whatever_was_there(made, chunk):
    folder = made.folder.parent
    before = contents(folder)
    for name in NAMES:
        path = made.chunk_file(name, chunk)
        path.write_bytes(b"\xff" * path.stat().st_size)
    datastore.write_chunk(folder, chunk, *Plain.of(SHAPE).rows(*SHAPE.chunk_range(chunk)))
    assert contents(folder) == before


def test_creating_it_again_changes_nothing(made):
    folder = made.folder.parent
    before = contents(folder)
    again = datastore.create(folder, SHAPE)
    assert contents(folder) == before
    assert again == {name: digest_of(folder / name) for name in again}
    assert sorted(again) == sorted(name for name in before if name.endswith("zarr.json"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chunk", [0, 2])
def test_a_missing_chunk_is_damage_at_open_and_in_zarr_but_never_zeros(made, name, chunk):
    lazy = made.array(name)
    path = made.chunk_file(name, chunk)
    path.unlink()
    with pytest.raises(DamagedStore, match=f"{path} is missing"):
        Datastore.open(made.folder.parent, SHAPE)
    first, last = SHAPE.chunk_range(chunk)
    for selection in (slice(None), slice(first, last), first, slice(last - 1, None)):
        with pytest.raises(DamagedStore, match=f"{path} is missing"):
            lazy[selection]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", [-1, 1, -100_000])
def test_a_chunk_of_another_size_is_damage_at_open(made, name, change):
    path = made.chunk_file(name, 1)
    whole = path.read_bytes()
    size = max(0, len(whole) + change)
    path.write_bytes(whole[:size].ljust(size, b"\0"))
    with pytest.raises(DamagedStore) as refused:
        Datastore.open(made.folder.parent, SHAPE)
    assert str(refused.value).startswith(f"{path} has {size:,} bytes instead of {len(whole):,}")


@pytest.mark.parametrize(
    "other", [Shape(4999, 3, 2048), Shape(5000, 4, 2048), Shape(5000, 3, 4096)]
)
def test_another_shape_than_the_manifests_is_damage_at_open(made, other):
    with pytest.raises(DamagedStore, match="not the one its manifest describes"):
        Datastore.open(made.folder.parent, other)


@pytest.mark.parametrize("name", ["zarr.json", *(f"{name}/zarr.json" for name in NAMES)])
@pytest.mark.parametrize("damaged", [None, b"", b"[]", b"\xff"])
def test_damaged_metadata_is_damage_at_open(made, name, damaged):
    path = made.folder / name
    path.unlink()
    if damaged is not None:
        path.write_bytes(damaged)
    with pytest.raises(DamagedStore, match="no readable Zarr array"):
        Datastore.open(made.folder.parent, SHAPE)


@given(name=st.sampled_from(["zarr.json", "keys/zarr.json", "pointers/zarr.json"]), data=st.data())
@pytest.mark.filterwarnings("ignore")
def test_metadata_with_a_flipped_bit_opens_soundly_or_is_damage(sample_datastore, name, data):
    with flipped(sample_datastore.folder / name, data.draw(st.integers(0, 10**5))):
        try:
            opened = Datastore.open(sample_datastore.folder.parent, sample_datastore.shape)
        except DamagedStore:
            return
        np.testing.assert_array_equal(opened.keys, sample_datastore.keys)


def test_everything_is_read_only(made):
    before = contents(made.folder)
    for name in NAMES:
        with pytest.raises(ValueError, match="read-only"):
            getattr(made, name)[0] = 1
        with pytest.raises(ValueError, match="read-only"):
            made.array(name)[0] = 1
    assert contents(made.folder) == before


def test_a_datastore_that_is_sent_elsewhere_maps_its_files_there(made):
    assert made.keys[0, 0] == Plain.of(SHAPE).keys[0, 0]
    sent = pickle.dumps(made)
    assert len(sent) < 1000
    np.testing.assert_array_equal(pickle.loads(sent).keys, Plain.of(SHAPE).keys)


@pytest.mark.parametrize("chunk_entries", [0, -2048, 1, 2047, 3000])
def test_chunks_that_do_not_fill_whole_pages_are_refused(tmp_path, chunk_entries):
    with pytest.raises(BadInput, match=r"--chunk-entries .* multiple of 2048"):
        datastore.create(tmp_path, Shape(5000, 3, chunk_entries))
    assert contents(tmp_path) == {}


@given(shapes)
def test_chunks_cut_the_entries_without_gap_or_overlap(shape):
    ranges = [shape.chunk_range(chunk) for chunk in range(shape.chunks)]
    assert [first for first, _ in ranges] == [0, *(last for _, last in ranges[:-1])]
    assert ranges[-1][1] == shape.entries
    assert all(0 < last - first <= shape.chunk_entries for first, last in ranges)


@given(entries=st.integers(1, 10**10), dimension=st.integers(1, 2**14))
def test_a_chosen_chunk_size_is_mappable_and_neither_too_large_nor_too_small(entries, dimension):
    chosen = choose_chunk_entries(entries, dimension)
    chunks = -(-entries // chosen)
    datastore.check_chunk_entries(chosen)
    assert chosen & (chosen - 1) == 0
    assert chunks <= datastore.MOST_CHUNKS
    assert chunks >= min(datastore.LEAST_CHUNKS, entries // datastore.PAGE_ENTRIES)
    smaller_would_be_too_many = -(-entries // (chosen // 2)) > datastore.MOST_CHUNKS
    assert (
        2 * dimension * chosen <= datastore.TARGET_CHUNK_BYTES
        or chosen == datastore.PAGE_ENTRIES
        or smaller_would_be_too_many
    )


def test_the_chosen_chunk_size_of_a_given_corpus_never_changes():
    """It is in the config hash: another choice would refuse to resume older stores."""
    sizes = [1, 10**5, 10**6, 10**8, 10**10]
    chosen = [choose_chunk_entries(*pair) for pair in itertools.product(sizes, [32, 768])]
    assert chosen == [2048, 2048, 2048, 2048, 16384, 8192, 262144, 8192, 1048576, 1048576]
