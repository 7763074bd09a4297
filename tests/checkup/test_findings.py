"""What is found to be wrong with machines, and with which."""

from dataclasses import replace

import pytest

from retomaton_dist.checkup.findings import find
from retomaton_dist.checkup.nodes import NodeCheckup
from retomaton_dist.checkup.page import as_text
from retomaton_dist.storage.probe import FolderSeen
from tests.checkup.made import FACTS, GPU, PASSED, node


def said(*checkups):
    return [(finding.node, finding.message, finding.is_problem) for finding in find(checkups)]


def test_sound_machines_have_neither_problems_nor_notes():
    assert said(node("a"), node("b"), node("c", gpu=GPU, expected_gpus=1)) == []


@pytest.mark.parametrize(
    ("differs", "words"),
    [
        ({"python": "3.12.1"}, "has python 3.12.1 instead of 3.11.7"),
        ({"code": "ba9876543210"}, "has retomaton_dist ba9876543210 instead of 0123456789ab"),
        ({"packages": FACTS.packages | {"ray": "2.50.0"}}, "has ray 2.50.0 instead of 2.60.0"),
        ({"packages": FACTS.packages | {"torch": "none"}}, "has torch none instead of 2.13.0"),
        ({"faiss": ("faiss-cpu 1.14.0",)}, "has faiss 1.14.0 instead of 1.15.1"),
    ],
)
def test_the_node_with_another_version_than_most_is_named(differs, words):
    ((name, text, is_problem),) = said(node("a"), node("odd", **differs), node("c"))
    assert (name, is_problem) == ("odd", True)
    assert words in text


def test_faiss_for_gpus_beside_faiss_for_cpus_is_no_difference():
    assert said(node("a"), node("b", faiss=("faiss-gpu 1.15.1",))) == []


@pytest.mark.parametrize(
    ("spoiled", "words"),
    [
        (node(faiss=()), "FAISS is not installed"),
        (node(faiss=("faiss-cpu 1.15.1", "faiss-gpu 1.15.1")), "overwrite each other"),
        (node(folder=FolderSeen(problem="/x is not there")), "/x is not there"),
        (node(model_problem="the model has other weights"), "other weights"),
        (node(problem="no answer within 900 s"), "no answer within 900 s"),
        (
            node(gpu=replace(GPU, cuda=None, names=(), memory=(), outcomes=()), expected_gpus=2),
            "torch without CUDA sees 0 GPUs, Ray 2",
        ),
        (node(outcomes=(replace(PASSED, error=0.5),)), "is wrong: error 5.0e-01, 0 is allowed"),
        (node(outcomes=(replace(PASSED, problem="RuntimeError: no"),)), "failed: RuntimeError: no"),
        (
            node(gpu=replace(GPU, outcomes=(replace(PASSED, device="cuda:0", error=1.0),))),
            "nearest states on cuda:0 is wrong",
        ),
    ],
)
def test_what_keeps_a_node_from_working_is_a_problem(spoiled, words):
    ((name, text, is_problem),) = said(spoiled)
    assert (name, is_problem) == ("a", True)
    assert words in text


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (node(offset=-60.0), "its clock differs by -60 s"),
        (node(memory_free=1 << 30), "1.1 GB of memory are free"),
        (node(folder=FolderSeen(free=1 << 20)), "0.0 GB of disk are free"),
        (node(open_files=256), "ulimit -n"),
        (node(page_size=65536), "--chunk-entries 16384"),
        (node(gpu=replace(GPU, faiss_gpus=0), expected_gpus=1), "searches run on the CPU"),
    ],
)
def test_what_is_only_worth_knowing_is_a_note(odd, words):
    ((_, text, is_problem),) = said(odd)
    assert not is_problem
    assert words in text


def test_a_node_that_did_not_answer_spoils_no_comparison():
    silent = NodeCheckup("silent", None, (), None, 0.0, 0, "no answer within 900 s")
    assert said(silent, node("b")) == [("silent", "no answer within 900 s", True)]


def test_the_page_names_every_node_what_it_has_and_what_was_found():
    checkups = [
        node("a"),
        node("b", gpu=GPU, expected_gpus=1, offset=60.0),
        node("c", faiss=()),
    ]
    page = as_text(checkups, find(checkups))
    assert "H100, 85.9 GB (torch for CUDA 12.6, FAISS sees 1)" in page
    assert "seen, writable, locks hold, 107.4 GB free" in page
    assert "clock       1970-01-01 00:00:00 UTC, the same as whoever asked" in page
    assert "clock       1970-01-01 00:00:00 UTC, +60 s from whoever asked" in page
    assert "note: b: its clock differs by +60 s" in page
    assert "PROBLEM: c: FAISS is not installed" in page
    assert page.endswith("3 machines, 2 problems")
    assert as_text([node()], []).endswith("1 machine: all is well")
