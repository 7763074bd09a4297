"""A stage is declared once: its command, its `rd.` function and its turn in a build follow."""

import pytest

import retomaton_dist as rd
from retomaton_dist.cli.main import COMMANDS
from retomaton_dist.errors import BadInput
from retomaton_dist.settings import GROUPS
from retomaton_dist.settings.parsing import TABLES
from retomaton_dist.settings.stages import STAGES, command_for, declared
from retomaton_dist.stages.build import all_stages
from retomaton_dist.stages.stage import BuildStage


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_every_stage_has_a_command_a_function_and_code(stage):
    assert COMMANDS[stage.name].summary == stage.summary
    assert stage.name in rd.__all__
    assert f"`retomaton {stage.name}`" in getattr(rd, stage.name).__doc__
    assert isinstance(stage.load(), BuildStage)


def test_a_build_runs_them_in_the_order_in_which_they_are_declared():
    names = [name for name, _ in all_stages()]
    first = ["tokenize", "extract", "cluster", "index", "compile"]
    assert names == [*first, "suffix", "ngram", "statistics"]
    assert set(TABLES) == {"cluster", "index", "compile", "suffix", "ngram"} <= set(GROUPS)


def test_a_stage_of_the_manifest_is_known_by_what_stands_before_its_name():
    assert declared("suffix/long").name == "suffix"
    assert declared("calibrate/default") is None


def test_damage_is_mended_by_a_command_that_there_is():
    assert command_for("codec/pq64") == "compile"
    assert command_for("suffix/default") == "suffix"
    assert command_for("calibrate/default") in COMMANDS


def test_what_a_stage_makes_is_stored_under_the_name_that_its_settings_give():
    suffix, statistics = declared("suffix"), declared("statistics")
    assert suffix.stored(suffix.settings(name="long")) == "suffix/long"
    assert declared("cluster").stored(declared("cluster").settings()) == "cluster/kmeans"
    assert statistics.stored(None) == "statistics"


def test_a_keyword_that_a_stage_does_not_know_is_refused_with_the_nearest():
    with pytest.raises(BadInput, match="nearest known one is 'longest'"):
        rd.suffix("no.store", longst=3)
