"""What `eval` and `report` print: points, ladders, and the sentences that belong to them."""

import math

from retomaton_dist.cli.results import (
    ladder_as_text,
    points_as_text,
    results_as_text,
    shown_points,
)
from retomaton_dist.evaluation.results import Evaluation
from retomaton_dist.storage import canonical
from tests.evaluation.test_results import SETTINGS

FINE = {"documents": 0, "worst": None, "ratio": None}
WORSE = {"documents": 3, "worst": "b.txt", "ratio": 1.25}


def row(method, foss, perplexity, **others):
    facts = {"method": method, "clustering": None, "tau": None, "sigma": None, "foss": foss}
    facts |= {"perplexity": perplexity, "baseline": "knnlm", "against": None}
    return {**facts, "without_duplicates": None, "worse_than_lm": FINE, **others}


def cell(perplexity, change=None, worse=FINE):
    facts = {"method": "retomaton+ngram+cache", "foss": 0.0, "perplexity": perplexity}
    changed = change and {"ratio": change, "interval": [change - 0.01, change + 0.01]}
    return {**facts, "change": changed, "without_duplicates": None, "worse_than_lm": worse}


def ladder(*cells, learned=None):
    names = ["LM alone", "+ cache", "+ automaton"]
    lines = [
        {"name": name, "online": one, "learned": learned}
        for name, one in zip(names, cells, strict=False)
    ]
    return {"title": "With every search made", "lines": lines}


def printed(folder, rows, ladders, documents=30):
    text = SETTINGS["text"] | {"documents": documents}
    canonical.write(folder / "settings.json", SETTINGS | {"text": text})
    canonical.write(folder / "results.json", {"rows": rows, "ladders": ladders})
    return results_as_text(Evaluation.open(folder))


def test_of_every_curve_the_fewest_about_half_and_the_most_searches_are_shown():
    rows = [row("knnlm", foss / 10, 50.0) for foss in range(10)] + [row("lm", 1.0, 90.0)]
    assert [one["foss"] for one in shown_points(rows)] == [0.0, 0.5, 0.9, 1.0]


def test_a_point_stands_with_its_thresholds_and_its_change_against_its_matched_baseline():
    against = {"ratio": 0.9, "interval": [0.85, 0.95]}
    new = {"perplexity": 21.0, "against": {"ratio": 0.95, "interval": None}}
    point = row("retomaton", 0.5, 20.0, clustering="kmeans", tau=math.inf, sigma=2.0)
    point |= {"against": against, "without_duplicates": new, "worse_than_lm": WORSE}
    head, line = points_as_text([point]).splitlines()
    assert head.split()[:6] == ["method", "states", "tau", "sigma", "FoSS", "perplexity"]
    assert line.split() == [
        "retomaton", "kmeans", "inf", "2", "0.500", "20.00", "knnlm", "-10.0%", "(-15.0%", "to",
        "-5.0%)", "21.00", "(-5.0%)", "3",
    ]  # fmt: skip


def test_columns_that_hold_nothing_are_left_out():
    head, line = points_as_text([row("lm", 1.0, 90.0)]).splitlines()
    assert head.split() == ["method", "FoSS", "perplexity", "worse", "documents"]
    assert line.split() == ["lm", "1.000", "90.00", "0"]


def test_a_ladder_says_that_its_last_line_is_the_automatons():
    lines = ladder_as_text(ladder(cell(90.0), cell(80.0, 0.9), cell(76.0, 0.95))).splitlines()
    assert lines[0] == "With every search made:"
    assert lines[3].split()[:6] == ["+", "cache", "0.000", "80.00", "-10.0%", "(-11.0%"]
    assert lines[4].split()[:5] == ["+", "automaton", "0.000", "76.00", "-5.0%"]
    assert "the automaton's own contribution" in lines[-1]
    assert "replacing searches" in lines[-1]
    assert "automaton" not in ladder_as_text(ladder(cell(90.0), cell(80.0, 0.9)))


def test_documents_that_get_worse_are_counted_and_the_worst_is_named(tmp_path):
    ladders = [ladder(cell(90.0), cell(80.0, 0.9), cell(76.0, 0.95, WORSE))]
    last = printed(tmp_path, [row("lm", 1.0, 90.0)], ladders).splitlines()[-1]
    assert last == (
        "3 of 30 documents are worse with retomaton+ngram+cache than with the LM alone; the worst, "
        "b.txt, by +25.0%."
    )
    fine = printed(tmp_path, [row("lm", 1.0, 90.0)], [ladder(cell(90.0), cell(80.0))])
    assert fine.splitlines()[-1].startswith("No document is worse")


def test_without_ladders_every_method_is_looked_at_where_it_searches_most(tmp_path):
    rows = [row("knnlm", 0.0, 50.0, worse_than_lm=WORSE), row("knnlm", 0.9, 80.0)]
    said = printed(tmp_path, rows, [])
    assert said.count("documents are worse with knnlm") == 1


def test_few_documents_are_said_to_have_no_intervals(tmp_path):
    said = printed(tmp_path, [row("lm", 1.0, 90.0)], [], documents=7)
    assert said.endswith("The text has 7 documents: intervals are given from 20 documents on.")
