"""Blocks merged into a shard: the very bytes of one FAISS index, and little of it in memory."""

import tracemalloc

import numpy as np
import pytest

from retomaton_dist.errors import DamagedStore
from retomaton_dist.search.blocks import encode, merge_blocks, runs_of_cells, write_block
from retomaton_dist.search.library import faiss, ivf_of

DIMENSION, PER_BLOCK, FIRST = 16, 300, 1000


def some_keys(count, seed=0):
    """A third of the keys are equal: one list is much longer than the others."""
    keys = np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
    keys[::3] = keys[0]
    return keys


def trained_index(factory):
    index = faiss.index_factory(DIMENSION, factory)
    index.train(some_keys(3000, seed=1))
    return index


def write_blocks(folder, index, keys):
    """Blocks of 300 entries, each encoded in two parts, as chunks are."""
    blocks = {}
    for start in range(0, len(keys), PER_BLOCK):
        some = keys[start : start + PER_BLOCK]
        parts = [encode(index, some[:100]), encode(index, some[100:])]
        path = folder / f"block-{start:06d}"
        blocks[path] = write_block(path, ivf_of(index).nlist, FIRST + start, parts)
    return blocks


@pytest.mark.parametrize(
    "factory",
    [
        "IVF32,Flat", "IVF32,SQ8", "IVF32,SQ4", "IVF32,SQfp16", "IVF32,PQ4x5np", "IVF32_HNSW8,SQ8",
        "PCA8,IVF32,SQ8", "RR16,IVF32,PQ4x4np",
    ],
)  # fmt: skip
def test_a_shard_is_what_faiss_writes_for_one_index_with_all_entries(tmp_path, factory):
    index, keys = trained_index(factory), some_keys(1000)
    merge_blocks(tmp_path / "shard", index, write_blocks(tmp_path, index, keys))
    index.add_with_ids(keys, np.arange(FIRST, FIRST + len(keys)))
    assert (tmp_path / "shard").read_bytes() == faiss.serialize_index(index).tobytes()


@pytest.mark.parametrize("entries", [1, 12])
def test_a_shard_whose_cells_are_mostly_empty_is_written_as_faiss_writes_it(tmp_path, entries):
    index, keys = trained_index("IVF32,SQ8"), some_keys(entries)
    merge_blocks(tmp_path / "shard", index, write_blocks(tmp_path, index, keys))
    index.add_with_ids(keys, np.arange(FIRST, FIRST + entries))
    assert (tmp_path / "shard").read_bytes() == faiss.serialize_index(index).tobytes()


@pytest.mark.parametrize("run_bytes", [1, 500, 20_000])
def test_how_much_is_merged_at_once_changes_nothing(tmp_path, run_bytes):
    index = trained_index("IVF32,SQ8")
    blocks = write_blocks(tmp_path, index, some_keys(1000))
    whole = merge_blocks(tmp_path / "whole", index, blocks)
    assert merge_blocks(tmp_path / "shard", index, blocks, run_bytes) == whole


def test_the_trained_index_is_as_empty_after_merging_as_before(tmp_path):
    index = trained_index("PCA8,IVF32,SQ8")
    before = faiss.serialize_index(index).tobytes()
    merge_blocks(tmp_path / "shard", index, write_blocks(tmp_path, index, some_keys(600)))
    assert faiss.serialize_index(index).tobytes() == before


def test_a_mapped_shard_finds_what_the_index_in_memory_finds(tmp_path):
    index, keys = trained_index("IVF32,SQ8"), some_keys(2000)
    merge_blocks(tmp_path / "shard", index, write_blocks(tmp_path, index, keys))
    mapped = faiss.read_index(str(tmp_path / "shard"), faiss.IO_FLAG_MMAP_IFC)
    index.add_with_ids(keys, np.arange(FIRST, FIRST + len(keys)))
    index.nprobe = mapped.nprobe = 5
    expected, found = index.search(keys[:50], 20), mapped.search(keys[:50], 20)
    assert all(map(np.array_equal, found, expected))


def test_a_shard_of_many_blocks_is_never_in_memory_whole(tmp_path):
    index = trained_index("IVF256,Flat")
    keys = np.random.default_rng(2).standard_normal((18_000, DIMENSION)).astype(np.float32)
    blocks = write_blocks(tmp_path, index, keys)
    assert len(blocks) == 60
    tracemalloc.start()
    written = merge_blocks(tmp_path / "shard", index, blocks, run_bytes=30_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert written.bytes > 1_200_000
    assert peak < 400_000


@pytest.mark.parametrize("limit", [1, 10, 100])
def test_runs_of_cells_cover_all_and_exceed_the_limit_only_as_single_cells(limit):
    lengths = np.array([0, 3, 3, 4, 0, 50, 1, 1, 9, 0, 0, 0])
    runs = list(runs_of_cells(lengths, limit))
    assert [cell for first, last in runs for cell in range(first, last)] == list(range(12))
    for first, last in runs:
        assert lengths[first:last].sum() <= limit or last == first + 1


@pytest.mark.parametrize("place", [0, 40, -1])
def test_an_altered_block_is_refused_and_removed_to_be_made_anew(tmp_path, place):
    index = trained_index("IVF32,SQ8")
    blocks = write_blocks(tmp_path, index, some_keys(900))
    path = list(blocks)[1]
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedStore, match=f"{path.name}: its contents were altered"):
        merge_blocks(tmp_path / "shard", index, blocks)
    assert not path.exists()
    assert not (tmp_path / "shard").exists()


def test_a_block_that_lacks_its_end_is_refused(tmp_path):
    index = trained_index("IVF32,SQ8")
    blocks = write_blocks(tmp_path, index, some_keys(900))
    path = list(blocks)[2]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedStore, match="run the same command again"):
        merge_blocks(tmp_path / "shard", index, blocks)
