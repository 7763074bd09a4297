"""Search parameters by name, on what is inside an index as well."""

import numpy as np
import pytest

from retomaton_dist.errors import BadInput
from retomaton_dist.search.library import faiss, ivf_of
from retomaton_dist.search.parameters import apply, parse, render, tuned_name, widened, widest


def test_text_and_parameters_are_the_same_thing():
    text = "nprobe=32,quantizer_efSearch=64,k_factor=1.5"
    assert parse(text) == {"nprobe": 32, "quantizer_efSearch": 64, "k_factor": 1.5}
    assert render(parse(text)) == text
    assert parse("") == {}


@pytest.mark.parametrize("text", ["nprobe", "nprobe=", "nprobe=many", "nprobe=nan"])
def test_other_text_is_refused_with_an_example(text):
    with pytest.raises(BadInput, match=r"for example nprobe=32"):
        parse(text)


@pytest.mark.parametrize("factory", ["IVF8,Flat", "PCA4,IVF8,SQ8", "OPQ2,IVF8,PQ2x4"])
def test_nprobe_reaches_the_cells_below_any_transform(factory):
    index = faiss.index_factory(8, factory)
    apply(index, {"nprobe": 5})
    assert ivf_of(index).nprobe == 5
    assert tuned_name(index) == "nprobe"


def test_nprobe_below_a_transform_changes_what_is_found():
    rows = np.random.default_rng(0).standard_normal((2000, 8)).astype(np.float32)
    index = faiss.index_factory(8, "PCA8,IVF32,Flat")
    index.train(rows)
    index.add(rows)
    truth = faiss.knn(rows[:50], rows, 20)[1]
    found = []
    for nprobe in (1, 32):
        apply(index, {"nprobe": nprobe})
        found.append(np.mean(index.search(rows[:50], 20)[1] == truth))
    assert found[0] < 0.6
    assert found[1] > 0.99


def test_parameters_of_the_quantizer_reach_it():
    index = faiss.index_factory(8, "IVF16_HNSW4,Flat")
    apply(index, {"quantizer_efSearch": 77})
    assert faiss.downcast_index(ivf_of(index).quantizer).hnsw.efSearch == 77


def test_an_unknown_parameter_is_refused_with_the_known_ones():
    with pytest.raises(BadInput, match=r"nprob=3: this index has no such.*it has nprobe"):
        apply(faiss.index_factory(8, "IVF8,Flat"), {"nprob": 3})


def test_widening_ends_where_all_cells_are_searched():
    assert widest(0, {}) == 1
    assert widest(100, {"nprobe": 8}) == 13
    assert widened(100, {"nprobe": 8}, 4) == {"nprobe": 32}
    assert widened(100, {"nprobe": 8}, 13) == {"nprobe": 100}
