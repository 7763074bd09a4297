"""The example files: each is a whole build and a whole evaluation, as their commands read them."""

import re

import pytest

from retomaton_dist.cli.main import COMMANDS
from retomaton_dist.settings import GROUPS, ClusterSettings, CompileSettings
from retomaton_dist.settings.parsing import (
    FLAGGED,
    make_groups,
    read_file,
    with_tables,
)
from tests.conftest import ROOT

EXAMPLES = sorted((ROOT / "docs/examples").glob("*.toml"))


def test_there_is_one_for_a_laptop_a_gpu_box_and_a_gpu_cluster():
    assert [path.stem for path in EXAMPLES] == ["gpu-box", "gpu-cluster", "laptop"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_says_all_that_a_build_and_an_evaluation_need(path):
    tables = read_file(path)
    groups = make_groups([GROUPS[name] for name in (*FLAGGED, "serve")], {}, tables)
    built = with_tables(groups[:-1], tables)
    assert tables["store"].endswith(".store")
    evaluate, walk = make_groups([GROUPS["evaluate"], GROUPS["walk"]], {}, tables)
    assert set(evaluate.text).isdisjoint(evaluate.calibrate_on)
    assert walk.k > 0
    assert built.of(CompileSettings).states == built.of(ClusterSettings).clustering
    assert built.workers.address == ""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_its_comments_call_commands_that_there_are(path):
    called = re.findall(r"^#   retomaton (?:submit )?(\S+)(.*)", path.read_text(), re.MULTILINE)
    assert {"build", "eval"} <= {name for name, _ in called} <= set(COMMANDS)
    files = re.findall(r"docs/examples/\S+\.toml", path.read_text())
    assert {ROOT / name for name in files} == {path}


def test_the_clusters_file_names_only_paths_that_a_job_finds():
    tables = read_file(ROOT / "docs/examples/gpu-cluster.toml")
    evaluate = tables["evaluate"]
    paths = [tables["store"], *tables["corpus"]["corpus"], *evaluate["text"]]
    assert all(path.startswith("/") for path in [*paths, *evaluate["calibrate_on"]])
