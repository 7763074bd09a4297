"""JSON files that notice any change to themselves."""

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from retomaton_dist.storage import canonical
from retomaton_dist.storage.errors import DamagedStore

PATH = Path("store.json")
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
VALUES = st.dictionaries(
    st.text(max_size=8).filter(lambda key: key != "digest"),
    st.recursive(
        LEAVES,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    max_size=4,
)


def flip(data, bit):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def is_damaged(data):
    try:
        canonical.parse(data, PATH, "do this")
    except DamagedStore:
        return True
    return False


@given(VALUES)
def test_what_is_written_is_what_is_read(value):
    assert canonical.parse(canonical.serialise(value), PATH, "") == value


@given(value=VALUES, data=st.data())
def test_any_flipped_bit_is_found(value, data):
    written = canonical.serialise(value)
    bit = data.draw(st.integers(0, 8 * len(written) - 1))
    assert is_damaged(flip(written, bit))


@pytest.mark.parametrize("name", ["store.json", "stages/extract/unit-00001.json"])
def test_every_single_flipped_bit_of_a_real_file_is_found(sample, name):
    written = (sample / name).read_bytes()
    assert not is_damaged(written)
    missed = [bit for bit in range(8 * len(written)) if not is_damaged(flip(written, bit))]
    assert missed == []


@given(value=VALUES, data=st.data())
def test_a_file_that_was_cut_off_is_found(value, data):
    written = canonical.serialise(value)
    assert is_damaged(written[: data.draw(st.integers(0, len(written) - 1))])


@given(value=VALUES, more=st.binary(min_size=1, max_size=5))
def test_a_file_with_something_behind_it_is_found(value, more):
    assert is_damaged(canonical.serialise(value) + more)


@given(st.binary(max_size=50) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_a_foreign_file_is_found(data):
    assert is_damaged(data)


def test_the_message_says_which_file_and_what_to_do(tmp_path):
    path = tmp_path / "store.json"
    canonical.write(path, {"a": 1})
    assert canonical.read(path, "") == {"a": 1}
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(DamagedStore, match=r"store.json is damaged: .*; restore it$"):
        canonical.read(path, "restore it")


@given(VALUES)
def test_the_hash_does_not_depend_on_the_order_of_keys(value):
    turned = dict(reversed(value.items()))
    assert canonical.content_hash(turned) == canonical.content_hash(value)


@given(one=VALUES, other=VALUES)
def test_the_hash_tells_values_apart(one, other):
    assume(json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True))
    assert canonical.content_hash(one) != canonical.content_hash(other)


def test_what_json_cannot_say_exactly_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical.serialise({"recall": float("nan")})
