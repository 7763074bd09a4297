"""Checkpoints: what a long computation goes on from, or nothing, but never something else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from retomaton_dist.storage import checkpoint
from retomaton_dist.storage.errors import DamagedStore
from tests.storage.conftest import flip, run_script

ARRAYS = {"centroids": np.arange(6, dtype=np.float32).reshape(2, 3), "empty": np.empty(0, np.int64)}
FACTS = {"iteration": 3, "inertia": [1.5, 1.25]}


@given(
    arrays=st.dictionaries(
        st.sampled_from("abc"),
        hnp.arrays(st.sampled_from(["<f4", "<i8", "u1"]), hnp.array_shapes(min_side=0, max_side=4)),
    )
)
def test_a_checkpoint_is_loaded_as_it_was_saved_last(tmp_path_factory, arrays):
    path = tmp_path_factory.mktemp("checkpoint") / "a"
    checkpoint.save(path, "hash", ARRAYS, {})
    checkpoint.save(path, "hash", arrays, FACTS)
    found, facts = checkpoint.load(path, "hash")
    assert facts == FACTS
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()


def test_there_is_nothing_to_go_on_from_without_a_file_or_with_other_settings(tmp_path):
    assert checkpoint.load(tmp_path / "a", "hash") is None
    checkpoint.save(tmp_path / "a", "hash", ARRAYS, FACTS)
    assert checkpoint.load(tmp_path / "a", "other") is None


def test_a_foreign_or_truncated_checkpoint_is_damage(tmp_path):
    checkpoint.save(tmp_path / "a", "hash", ARRAYS, FACTS)
    whole = (tmp_path / "a").read_bytes()
    for damaged in (b"", b"dear", whole[:-1], whole[: len(whole) // 2]):
        (tmp_path / "a").write_bytes(damaged)
        with pytest.raises(DamagedStore):
            checkpoint.load(tmp_path / "a", "hash")


def test_an_altered_number_is_damage_with_a_remedy(tmp_path):
    checkpoint.save(tmp_path / "a", "hash", ARRAYS, FACTS)
    whole = (tmp_path / "a").read_bytes()
    flip(tmp_path / "a", 8 * whole.index(ARRAYS["centroids"].tobytes()) + 1)
    with pytest.raises(DamagedStore, match="was altered; delete it"):
        checkpoint.load(tmp_path / "a", "hash")


@pytest.mark.parametrize("fact", [b'"iteration": 3', b'"config_hash": "hash"', b"1.25"])
def test_an_altered_fact_is_damage_with_a_remedy(tmp_path, fact):
    checkpoint.save(tmp_path / "a", "hash", ARRAYS, FACTS)
    whole = (tmp_path / "a").read_bytes()
    assert fact in whole
    (tmp_path / "a").write_bytes(whole.replace(fact, fact[:-2] + b"7" + fact[-1:]))
    with pytest.raises(DamagedStore, match="delete it to begin the stage anew"):
        checkpoint.load(tmp_path / "a", "hash")


def test_no_flipped_bit_yields_anything_but_what_was_saved(tmp_path):
    """Every eleventh bit of the file, in a process of its own: a crash would end it."""
    checkpoint.save(tmp_path / "a", "hash", ARRAYS, FACTS)
    ended = run_script(
        """
        from retomaton_dist.storage import checkpoint
        from retomaton_dist.storage.errors import DamagedStore
        path = folder / "a"
        whole = path.read_bytes()
        expected = repr(checkpoint.load(path, "hash"))
        for bit in range(0, 8 * len(whole), 11):
            damaged = bytearray(whole)
            damaged[bit // 8] ^= 1 << bit % 8
            path.unlink()
            path.write_bytes(damaged)
            try:
                assert repr(checkpoint.load(path, "hash")) == expected, bit
            except DamagedStore:
                pass
        """,
        tmp_path,
    )
    assert ended == ""


def test_a_part_of_it_is_mapped_without_the_rest(tmp_path):
    arrays = {"a": np.arange(6).reshape(2, 3), "b": np.ones(2, np.float32)}
    checkpoint.save(tmp_path / "a", "hash", arrays, FACTS)
    found, facts = checkpoint.load_part(tmp_path / "a", ["b"])
    assert found.keys() == {"b"}
    np.testing.assert_array_equal(found["b"], arrays["b"])
    assert facts == FACTS
    with pytest.raises(DamagedStore, match="missing"):
        checkpoint.load_part(tmp_path / "other", [])
