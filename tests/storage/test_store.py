"""The life of a stage: it begins, does its units, finishes, resumes, and is repaired."""

import itertools

import pytest

from retomaton_dist.storage import records
from retomaton_dist.storage.errors import ConfigMismatch, DamagedStore, StageMissing
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.store import Store, digest_of_files, writing
from tests.conftest import contents
from tests.storage.units import CONFIG, MADE_WITH, do_unit, run


def test_a_stage_goes_from_absent_through_running_to_done(tmp_path):
    with writing(tmp_path) as writer:
        assert writer.begin("index/a", CONFIG, 2, MADE_WITH) == {0, 1}
        with pytest.raises(StageMissing, match="is not finished"):
            Store.open(tmp_path).stage("index/a")
    done = run(tmp_path, [0, 1])
    found = Store.open(tmp_path)
    assert found.stage("index/a") == done
    assert (done.status, done.config, done.units, done.facts, done.made_with) == (
        "done",
        CONFIG,
        2,
        {"recall": 0.5},
        MADE_WITH,
    )
    assert done.bytes == len(b"part 0" + b"part 1" + b"all")
    assert list(done.files) == ["index/whole"]
    assert found.units("index/a") == {0, 1}


def test_a_later_run_gets_only_the_units_without_a_record(tmp_path):
    with writing(tmp_path) as writer:
        writer.begin("index/a", CONFIG, 4, MADE_WITH)
        do_unit(tmp_path, 1)
        do_unit(tmp_path, 2)
    assert Store.open(tmp_path).units("index/a") == {1, 2}
    with writing(tmp_path) as writer:
        assert writer.begin("index/a", CONFIG, 4, MADE_WITH) == {0, 3}


def test_a_finished_stage_has_no_units_left_and_stays_as_it_is(tmp_path):
    run(tmp_path, [0, 1])
    before = contents(tmp_path)
    with writing(tmp_path) as writer:
        assert writer.begin("index/a", CONFIG, 2, {"numpy": "3"}) == set()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("done", [False, True])
def test_another_config_is_refused_and_changes_nothing(tmp_path, done):
    with writing(tmp_path) as writer:
        writer.begin("index/a", CONFIG, 2, MADE_WITH)
    if done:
        run(tmp_path, [0, 1])
    before = contents(tmp_path)
    with pytest.raises(ConfigMismatch, match="k was 4, now 5"), writing(tmp_path) as writer:
        writer.begin("index/a", {"k": 5}, 2, MADE_WITH)
    assert contents(tmp_path) == before


def test_stages_of_other_names_coexist(tmp_path):
    first = run(tmp_path, [0], stage="index/a")
    run(tmp_path, [0], stage="index/b")
    assert list(Store.open(tmp_path).manifest.stages) == ["index/a", "index/b"]
    assert Store.open(tmp_path).stage("index/a") == first


def test_a_stage_with_a_unit_not_done_cannot_be_finished(tmp_path):
    with writing(tmp_path) as writer:
        writer.begin("index/a", CONFIG, 2, MADE_WITH)
        do_unit(tmp_path, 1)
        with pytest.raises(DamagedStore, match=r"unit-00000\.json is missing"):
            writer.finish("index/a", {}, {})
    assert not Store.open(tmp_path).manifest.stages["index/a"].done


def test_records_of_other_settings_are_never_mixed_in(tmp_path):
    with writing(tmp_path) as writer:
        writer.begin("index/a", CONFIG, 2, MADE_WITH)
        do_unit(tmp_path, 0)
        do_unit(tmp_path, 1, config={"k": 5})
        with pytest.raises(DamagedStore, match=r"unit-00001\.json belongs to"):
            writer.finish("index/a", {}, {})


def test_the_digest_of_a_stage_does_not_depend_on_the_order_of_its_units(tmp_path):
    orders = itertools.permutations(range(3))
    digests = {
        run(tmp_path / f"{number}.store", order).digest for number, order in enumerate(orders)
    }
    assert len(digests) == 1


def test_the_digest_covers_every_path_and_content():
    listed = {"a": FileDigest("1", 1), "b": FileDigest("2", 1)}
    variants = [
        listed,
        {"a": FileDigest("2", 1), "b": FileDigest("1", 1)},
        {"a": FileDigest("1", 1)},
        {"a": FileDigest("1", 1), "c": FileDigest("2", 1)},
        {},
    ]
    assert len({digest_of_files(variant) for variant in variants}) == len(variants)
    assert digest_of_files(dict(reversed(listed.items()))) == digest_of_files(listed)


def test_a_merged_stage_keeps_only_its_files(tmp_path):
    done = run(tmp_path, [0, 1], merged=True)
    assert done.units == 0
    assert done.digest == digest_of_files(done.files)
    assert done.bytes == len(b"all")
    assert Store.open(tmp_path).units("index/a") == set()
    assert not records.folder(tmp_path, "index/a").exists()


def test_records_that_a_killed_merge_left_are_removed_by_the_next_run(tmp_path):
    run(tmp_path, [0, 1], merged=True)
    before = contents(tmp_path)
    do_unit(tmp_path, 1)
    with writing(tmp_path) as writer:
        assert writer.begin("index/a", CONFIG, 2, MADE_WITH) == set()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("undo", ["forget", "abandon"])
def test_records_that_a_killed_merge_left_do_not_count_when_it_is_done_anew(tmp_path, undo):
    run(tmp_path, [0, 1], merged=True)
    do_unit(tmp_path, 1)
    with writing(tmp_path) as writer:
        writer.forget("index/a", None) if undo == "forget" else writer.abandon("index/a")
        assert writer.begin("index/a", CONFIG, 2, MADE_WITH) == {0, 1}


@pytest.mark.parametrize("merged", [False, True])
def test_a_forgotten_stage_stays_bound_to_its_config(tmp_path, merged):
    run(tmp_path, [0, 1], merged=merged)
    with writing(tmp_path) as writer:
        writer.forget("index/a", None)
        with pytest.raises(ConfigMismatch):
            writer.begin("index/a", {"k": 5}, 2, MADE_WITH)


@pytest.mark.parametrize("unit", [0, 1, 2])
def test_a_forgotten_unit_is_done_anew_with_the_same_result(tmp_path, unit):
    before = run(tmp_path, range(3))
    whole = contents(tmp_path)
    (tmp_path / f"index/part-{unit}").unlink()
    with writing(tmp_path) as writer:
        writer.forget("index/a", unit)
    with writing(tmp_path) as writer:
        assert writer.begin("index/a", CONFIG, 3, MADE_WITH) == {unit}
    assert run(tmp_path, range(3)) == before
    assert contents(tmp_path) == whole


def test_what_a_stage_wrote_as_a_whole_is_done_anew_without_its_units(tmp_path):
    before = run(tmp_path, range(3))
    with writing(tmp_path) as writer:
        writer.forget("index/a", None)
        assert writer.begin("index/a", CONFIG, 3, MADE_WITH) == set()
        with pytest.raises(StageMissing):
            Store.open(tmp_path).stage("index/a")
    assert run(tmp_path, range(3)) == before


def test_a_forgotten_merged_stage_is_done_anew_as_a_whole(tmp_path):
    before = run(tmp_path, range(3), merged=True)
    run(tmp_path, [0], stage="index/b")
    whole = contents(tmp_path)
    with writing(tmp_path) as writer:
        writer.forget("index/a", None)
        assert writer.begin("index/a", CONFIG, 3, MADE_WITH) == {0, 1, 2}
        do_unit(tmp_path, 1)
    with writing(tmp_path) as writer:
        assert writer.begin("index/a", CONFIG, 3, MADE_WITH) == {0, 2}
    assert run(tmp_path, range(3), merged=True) == before
    assert contents(tmp_path) == whole


def test_an_abandoned_stage_may_begin_again_with_other_settings(tmp_path):
    with writing(tmp_path) as writer:
        writer.begin("index/a", CONFIG, 2, MADE_WITH)
        do_unit(tmp_path, 0)
        writer.abandon("index/a")
        writer.abandon("index/a")
        assert Store.open(tmp_path).manifest.stages == {}
        assert writer.begin("index/a", {"k": 5}, 2, MADE_WITH) == {0, 1}


def test_records_of_a_killed_run_that_come_late_do_not_count_for_a_stage_begun_anew(tmp_path):
    """A worker outlives its run; the next run makes empty files and is killed, too."""

    def begin():
        with writing(tmp_path) as writer:
            return writer.begin("index/a", CONFIG, 2, MADE_WITH, merges=True)

    assert begin() == {0, 1}
    assert begin() == {0, 1}
    do_unit(tmp_path, 0)  # for the first attempt
    assert Store.open(tmp_path).units("index/a") == set()
    assert begin() == {0, 1}
    do_unit(tmp_path, 1, attempt=2)
    assert Store.open(tmp_path).units("index/a") == {1}
    do_unit(tmp_path, 1)  # late, and in nobody's way
    assert begin() == {0}


def test_a_finished_merged_stage_has_forgotten_its_attempts(tmp_path):
    before = run(tmp_path / "once", [0, 1], merged=True)
    for _ in range(2):
        with writing(tmp_path / "twice") as writer:
            writer.begin("index/a", CONFIG, 2, MADE_WITH, merges=True)
    with writing(tmp_path / "twice") as writer:
        for unit in writer.begin("index/a", CONFIG, 2, MADE_WITH, merges=True):
            do_unit(tmp_path / "twice", unit, attempt=2)
        whole = {"index/whole": before.files["index/whole"]}
        assert writer.finish("index/a", whole, before.facts, merges=True) == before
    same = (tmp_path / "once/store.json").read_bytes()
    assert (tmp_path / "twice/store.json").read_bytes() == same
    assert not (tmp_path / "twice/stages/index/a").exists()
