"""Calls on every node: answers, errors and silence are told apart, and nothing waits for ever."""

import os
import socket
import time

import pytest

from retomaton_dist.checkup.nodes import examine
from retomaton_dist.runtime import node_calls
from retomaton_dist.runtime.node_calls import alive_nodes, call_on_nodes

pytestmark = pytest.mark.usefixtures("ray_local")


def raises():
    raise ModuleNotFoundError("No module named 'faiss'")


def test_every_node_that_is_alive_answers_in_a_process_of_its_own():
    (node,) = alive_nodes()
    (answer,) = call_on_nodes([node], os.getpid, 60)
    assert socket.gethostname() in node.name
    assert (answer.problem, answer.answer == os.getpid()) == ("", False)


def test_an_error_on_a_node_is_its_problem():
    (answer,) = call_on_nodes(alive_nodes(), raises, 60)
    assert (answer.answer, answer.problem) == (None, "No module named 'faiss'")


def test_a_node_that_does_not_answer_in_time_is_not_waited_for():
    (answer,) = call_on_nodes(alive_nodes(), lambda: time.sleep(1000), 1)
    assert (answer.answer, answer.problem) == (None, "no answer within 1 s")


def test_a_node_that_takes_long_is_waited_for_and_named_meanwhile(monkeypatch, capfd):
    monkeypatch.setattr(node_calls, "NOTE_SECONDS", 1.0)
    (answer,) = call_on_nodes(alive_nodes(), lambda: time.sleep(5) or "late", 60)
    assert (answer.answer, answer.problem) == ("late", "")
    said = capfd.readouterr().err
    assert f"no answer from {answer.node.name} yet; waiting for up to 60 s" in said
    assert said.count("note:") == 1


def test_calls_are_made_beside_work_that_has_all_cpus(ray_local):
    busy = ray_local.remote(lambda: time.sleep(1000)).options(num_cpus=4).remote()
    try:
        (answer,) = call_on_nodes(alive_nodes(), os.getpid, 60)
    finally:
        ray_local.cancel(busy, force=True)
    assert answer.problem == ""


@pytest.mark.slow
def test_a_cluster_is_examined_node_by_node(tmp_path):
    (checkup,) = examine("auto", tmp_path / "a.store")
    assert checkup.problem == ""
    assert checkup.facts.folder.problem == ""
    assert all(outcome.passed for outcome in checkup.outcomes)
    assert abs(checkup.clock_offset) < 60
    assert list(tmp_path.iterdir()) == []
