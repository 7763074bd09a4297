"""Exchanges: every destination gets what was sent to it, in order, from files of bounded runs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.errors import DamagedStore
from retomaton_dist.storage.exchange import Exchange

RECORD = np.dtype([("sender", np.uint8), ("number", np.int64)])
DESTINATIONS = 5


def records_of(sender, count):
    records = np.zeros(count, RECORD)
    records["sender"], records["number"] = sender, np.arange(count)
    return records


def send(exchange, sender, destinations, size):
    """Send records in parts of so many; return them."""
    chosen, records = np.array(destinations, np.int64), records_of(sender, len(destinations))
    parts = range(0, len(records), size)
    exchange.send(sender, ((chosen[at : at + size], records[at : at + size]) for at in parts))
    return records


def received(exchange, destination):
    parts = [part.tolist() for part in exchange.read(exchange.slices(destination))]
    return [record for part in parts for record in part]


sent = st.lists(st.integers(0, DESTINATIONS - 1), max_size=30)


@given(st.lists(sent, min_size=1, max_size=4), st.integers(1, 12), st.integers(1, 12))
def test_a_destination_gets_its_records_in_the_order_they_were_sent(
    tmp_path_factory, senders, most, size
):
    folder = tmp_path_factory.mktemp("sent")
    exchange = Exchange(folder, RECORD, len(senders), DESTINATIONS, most)
    every = [send(exchange, sender, chosen, size) for sender, chosen in enumerate(senders)]
    before = 0
    for destination in range(DESTINATIONS):
        expected = [
            record
            for records, chosen in zip(every, senders, strict=True)
            for record, where in zip(records.tolist(), chosen, strict=True)
            if where == destination
        ]
        assert received(exchange, destination) == expected
        slices = exchange.slices(destination)
        assert sum(part.before for part in slices) == before
        before += len(expected)
    exchange.remove()
    assert not folder.exists()


def test_every_record_is_written_once_and_read_once(tmp_path):
    exchange = Exchange(tmp_path, RECORD, 1, DESTINATIONS, 100)
    send(exchange, 0, list(range(DESTINATIONS)) * 20, 100)
    table = 4 * (DESTINATIONS + 1)
    assert exchange.traffic.written == 100 * RECORD.itemsize + table
    for destination in range(DESTINATIONS):
        received(exchange, destination)
    assert exchange.traffic.read == 100 * RECORD.itemsize + 12 * DESTINATIONS


def test_missing_and_truncated_files_are_damage(tmp_path):
    exchange = Exchange(tmp_path, RECORD, 1, DESTINATIONS, 100)
    with pytest.raises(DamagedStore, match="from-00000 is missing"):
        exchange.slices(0)
    send(exchange, 0, [0, 4, 4], 3)
    path = tmp_path / "from-00000"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedStore, match="cut short"):
        received(exchange, 4)
