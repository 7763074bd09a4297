"""Stores that all tests of generation share."""

import random

import pytest

from tests.conftest import TEXT
from tests.generation.stores import build_store, save_model


@pytest.fixture(scope="session")
def lines():
    """Lines of words; the corpus has the first half of them."""
    chosen, words = random.Random(7), TEXT.split()
    return [" ".join(chosen.choices(words, k=chosen.randint(1, 12))) for _ in range(600)]


@pytest.fixture(scope="session")
def store_of(lines, tmp_path_factory):
    """The path of a family's store, made when it is first asked for."""
    made = {}

    def find(family):
        if family not in made:
            folder = tmp_path_factory.mktemp(family)
            corpus = folder / "corpus.txt"
            corpus.write_text("\n".join(lines[:300]) + "\n")
            made[family] = build_store(folder, save_model(family, folder / "model"), corpus)
        return made[family]

    return find
