"""One cluster of three raylets for all of these tests; nodes that are lost are made good."""

import pytest

from tests.nodes.raylets import raylets


@pytest.fixture(scope="package")
def cluster():
    """A head without CPUs and two nodes of two; what a test adds it also kills."""
    with raylets() as made:
        for name in ("one", "two"):
            made.add(name)
        yield made
