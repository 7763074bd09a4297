"""Codebooks are trained and keys encoded the same way every time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retomaton_dist.codec.codec import CodecSizes
from retomaton_dist.codec.pq import PqCodec, choose_cells, choose_code_size
from retomaton_dist.errors import BadInput


@given(st.integers(0, 50), st.sampled_from([1, 2, 8]))
@settings(max_examples=8)
def test_codes_are_the_same_every_time_and_close_to_the_keys(seed, code_size):
    random = np.random.default_rng(seed)
    centres = random.normal(size=(5, 8)) * 4
    keys = (centres[random.integers(0, 5, 600)] + random.normal(size=(600, 8))).astype(np.float16)
    codec, sizes = PqCodec(), CodecSizes(8, code_size, cells=4)
    books, again = (codec.train(keys, sizes, seed=0) for _ in range(2))
    assert np.array_equal(books["codebooks"], again["codebooks"])
    made = codec.encode(keys, sizes, books)
    assert np.array_equal(made["codes"], codec.encode(keys, sizes, again)["codes"])
    lost = ((codec.decode(made, sizes, books) - keys.astype(np.float64)) ** 2).sum()
    spread = ((keys - keys.mean(axis=0, dtype=np.float64)) ** 2).sum()
    assert lost < {1: 0.2, 2: 0.1, 8: 0.01}[code_size] * spread


def test_code_size_is_the_largest_divisor_up_to_64():
    sizes = {768: 64, 288: 48, 100: 50, 127: 1, 7: 7, 64: 64, 1024: 64}
    assert {width: choose_code_size(width, None) for width in sizes} == sizes
    with pytest.raises(BadInput, match="divisor of 10"):
        choose_code_size(10, 3)
    assert [choose_cells(n) for n in (1, 255, 1024, 10**9)] == [1, 1, 4, 1024]
