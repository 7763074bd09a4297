"""Progress is shown as JSON lines, as lines, as a bar, or not at all."""

import json
import math
import re
import time

import pytest

from retomaton_dist.runtime import progress as shown
from retomaton_dist.runtime.progress import Progress, clock, showing


def work(mode, capsys, steps=(30, 50, 20), total=100, done=0, facts=None):
    """What stderr gets when so many steps are taken."""
    with showing(mode, "extract", total, "entries", done) as progress:
        for step in steps:
            progress.advance(step, facts or {})
    out, err = capsys.readouterr()
    assert out == "", "stdout belongs to results"
    return err


def test_json_lines_parse_and_add_up(capsys):
    lines = [json.loads(line) for line in work("json", capsys).splitlines()]
    assert [line["done"] for line in lines] == [30, 80, 100]
    assert {(line["stage"], line["total"], line["unit"]) for line in lines} == {
        ("extract", 100, "entries")
    }
    assert all(line["seconds"] >= 0 for line in lines)
    assert lines[-1]["seconds_left"] == 0


def test_json_lines_carry_facts(capsys):
    (line,) = work("json", capsys, steps=(100,), facts={"tokens/s": "1,234"}).splitlines()
    assert json.loads(line)["tokens/s"] == "1,234"


def test_resumed_work_starts_where_earlier_runs_stopped(capsys):
    lines = [json.loads(line) for line in work("json", capsys, (20, 20), done=60).splitlines()]
    assert [line["done"] for line in lines] == [80, 100]


@pytest.fixture
def passes(monkeypatch):
    """Seconds pass only when told to."""
    seconds = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: seconds[0])

    def go_on(by):
        seconds[0] += by

    return go_on


def test_only_the_work_of_this_run_tells_how_fast_the_rest_will_go(passes):
    progress = Progress("extract", 1000, "entries", done=900)
    passes(2)
    progress.advance(10)
    assert (progress.rate, progress.left) == (5, 18)


def test_a_slow_first_unit_counts_only_until_others_tell_the_rate(passes):
    """It compiles kernels, which is done once."""
    progress = Progress("score", 1000, "positions")
    passes(60)
    progress.advance(100)
    assert progress.left == 540
    passes(20)
    progress.advance(100)
    assert (progress.rate, progress.left) == (200 / 80, 320)
    passes(20)
    progress.advance(100)
    assert (progress.rate, progress.left) == (200 / 40, 140)


def test_items_are_counted_as_they_are_done(capsys):
    assert list(shown.counted("abc", "json", "fit", "methods")) == ["a", "b", "c"]
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["done"], line["total"], line["unit"]) for line in lines] == [
        (1, 3, "methods"), (2, 3, "methods"), (3, 3, "methods"),
    ]  # fmt: skip


def test_an_item_may_say_how_far_it_has_come(capsys):
    shown.part_done(1, 2, "epochs")
    for _ in shown.counted("ab", "json", "fit", "methods"):
        for epoch in (1, 2):
            shown.part_done(epoch, 2, "epochs")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    done = [0.495, 0.99, 1, 1.495, 1.99, 2]
    assert [line["done"] for line in lines] == pytest.approx(done)
    assert [line.get("epochs") for line in lines] == ["1 of 2", "2 of 2", None] * 2


def test_time_left_is_unknown_until_something_is_done(capsys):
    assert Progress("extract", 10, "entries").left == math.inf
    (line,) = work("json", capsys, steps=(0,)).splitlines()
    assert json.loads(line)["seconds_left"] is None


def test_the_clock_starts_when_the_work_does(passes):
    progress = Progress("extract", 10, "entries")
    passes(7)
    assert progress.seconds == 7
    progress.begin()
    assert progress.seconds == 0


def test_lines_say_how_far_how_fast_and_how_long(capsys):
    text = work("lines", capsys, steps=(250,), total=1000, facts={"padding": "3.1%"})
    assert re.fullmatch(
        r"extract: 250 of 1,000 entries \(25%\), [\d,]+ entries/s, \d+:\d\d left, 3.1% padding\n",
        text,
    )


def test_lines_are_few_but_the_first_and_the_last_are_among_them(capsys):
    lines = work("lines", capsys, steps=[1] * 100).splitlines()
    assert len(lines) == 2
    assert "1 of 100" in lines[0]
    assert "100 of 100" in lines[1]


def test_lines_go_on_when_some_time_has_passed(capsys, monkeypatch):
    monkeypatch.setattr(shown, "LINE_SECONDS", 0.0)
    assert len(work("lines", capsys, steps=[1] * 10).splitlines()) == 10


def test_a_bar_is_drawn_filled_and_ended_with_a_new_line(capsys):
    text = work("bar", capsys, facts={"padding": "3.1%"})
    assert "extract:" in text
    assert "100%" in text
    assert "3.1% padding" in text
    assert text.endswith("\n")


def test_a_bar_of_resumed_work_starts_partly_filled(capsys):
    first = work("bar", capsys, steps=(), done=60).replace("\r", "\n").strip().splitlines()[0]
    assert "60%" in first


def test_none_shows_nothing(capsys):
    assert work("none", capsys) == ""


def test_lines_are_chosen_where_there_is_no_terminal(capsys):
    assert work(None, capsys).startswith("extract: 30 of 100 entries (30%)")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (59.4, "0:59"), (61, "1:01"), (3723, "1:02:03"), (math.inf, "?")],
)
def test_seconds_are_shown_as_people_read_them(seconds, text):
    assert clock(seconds) == text
