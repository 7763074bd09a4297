"""The actor of a shard, as an object: who went away does not cost others their answer."""

import asyncio

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.runtime.shard_server import ShardServer
from retomaton_dist.search.layout import IndexFiles
from retomaton_dist.search.parameters import NONE


@pytest.fixture
def server(walkable_store):
    opened = IndexFiles.open(rd.open(walkable_store.path).store, "default")
    return ShardServer(opened, 0, NONE, 1, gpu=False)


@pytest.mark.parametrize("width", [3, 32], ids=["failing", "sound"])
def test_a_caller_that_went_away_does_not_cost_others_their_answer(server, width):
    """Three numbers are no key of this store: the search that the calls become fails."""
    queries = np.zeros((2, width), np.float32)

    async def ask():
        first, gone, third = (asyncio.create_task(server.search(queries, 4, 1)) for _ in range(3))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        answered, left = await asyncio.wait([first, third], timeout=60)
        assert not left, "a call was never answered"
        return [task.exception() for task in answered]

    found = asyncio.run(ask())
    assert [error is None for error in found] == [width == 32] * 2
