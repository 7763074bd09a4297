"""The paper's findings: true of the paper's own numbers, and told apart where ours are others."""

import pytest

from retomaton_dist.jobs.paper_claims import find
from retomaton_dist.jobs.paper_curves import PAPER, Curves, Level, Study, level_at
from retomaton_dist.jobs.paper_page import compose, write_page
from retomaton_dist.storage import canonical


def row(method, foss, perplexity, bounds=None, clustering=None, **others):
    """One point as results.json has it; `bounds` are those of its ratio to kNN-LM."""
    against = {"ratio": 1.0, "interval": bounds} if bounds else None
    facts = {"method": method, "clustering": clustering, "foss": foss, "perplexity": perplexity}
    return {**facts, "against_knnlm": against, **others}


def study(rows, store="a.store", **analysis):
    """An evaluation of a store with these points."""
    settings = {
        "model": "m",
        "store": store,
        "datastore": {"entries": 5},
        "automata": {"kmeans": {"states": 7}},
        "evaluate": {"text": ["test.en"], "calibrate_on": ["valid.en"]},
    }
    results = {"positions": 1000, "documents": 10}
    return Study("a", settings, results, analysis, Curves.of_rows(rows))


def published(name):
    return [
        row(method, point.foss, point.level.value, clustering=clustering or None)
        for (method, clustering), points in Curves.published(name).items()
        for point in points
    ]


def overlap(seen):
    return [{"n": 5, "types": 1, "types_seen": 1, "occurrences": 100, "occurrences_seen": seen}]


def timed(method, foss, total, clustering=None):
    seconds = {"lm": 1.0, "search": 0.0, "walk": 0.0, "rest": 0.0, "total": total}
    return row(method, foss, 10, clustering=clustering, seconds=seconds)


STORES = {"in-domain": "wiki", "ablation-wiki": "wiki", "fine-tuned": "law-tuned"}


def papers_studies():
    seen = {"in-domain": 21, "adaptation": 62}
    studies = {
        name: study(published(name), STORES.get(name, "law"), overlap=overlap(seen.get(name, 0)))
        for name in PAPER["published"]
    }
    points = PAPER["saved-time"]["the paper, CPU index"]
    rows = [timed("retomaton", foss, 100 * (1 - saved), "kmeans") for foss, saved in points]
    return {**studies, "wall-clock": study([timed("knnlm", 0.0, 100.0), *rows], "law")}


def test_everything_that_is_called_a_finding_holds_in_the_papers_own_numbers():
    found = find(papers_studies())
    assert {one.verdict for one in found} == {"holds; no interval"}
    assert {one.study for one in found} == {*papers_studies(), "both texts"}
    assert len(found) > 25
    assert all(one.ours == one.paper for one in found if one.study == "fine-tuned")


def test_what_does_not_hold_here_is_listed_like_what_does():
    ours = [
        row("lm", 1.0, 9.0),
        row("knnlm", 0.0, 10.0, interval=(9, 11)),
        row("retomaton", 0.0, 12.0, (1.1, 1.3), "kmeans"),
        row("retomaton", 0.6, 13.0, (1.2, 1.4), "kmeans"),
    ]
    found = {one.claim: one for one in find({"in-domain": study(ours)})}
    assert found["With every search made, RetoMaton is below kNN-LM"].verdict == "does not hold"
    assert found["With every search made, RetoMaton is below the LM alone"].ours.startswith("+33.3")
    (saved,) = (one for claim, one in found.items() if "more than half" in claim)
    assert (saved.ours, saved.verdict) == ("at no FoSS", "does not hold")
    assert "AdaptRet" not in " ".join(found)


def test_stronger_versions_of_knnlm_are_compared_with_their_peers():
    ours = [
        row("knnlm", 0.0, 10.0, interval=(9, 11)),
        row("knnlm+lambda", 0.0, 8.0, (0.75, 0.85)),
        row("retomaton", 0.0, 9.0, (0.85, 0.95), "kmeans"),
        row("retomaton+lambda", 0.0, 7.9, (0.7, 0.8), "kmeans"),
    ]
    (fair,) = (one for one in find({"adaptation": study(ours)}) if one.paper == "not measured")
    assert "RetoMaton + lambda is below kNN-LM + lambda" in fair.claim
    assert fair.verdict == "within chance"


def test_with_keys_that_say_less_than_the_last_few_tokens_no_verdict_is_given(tmp_path):
    rows = [*published("adaptation"), row("suffix", 1.0, 12.33)]
    studies = {**papers_studies(), "adaptation": study(rows, "law", overlap=overlap(62))}
    told = {one.study: set() for one in find(studies)}
    for one in find(studies):
        told[one.study].add(one.verdict)
    assert told.pop("adaptation") == told.pop("ablation-law") == {"cannot be told: weak LM"}
    # Gains on both texts rest on it, their n-grams do not.
    assert told.pop("both texts") == {"cannot be told: weak LM", "holds; no interval"}
    assert set.union(*told.values()) == {"holds; no interval"}
    (tmp_path / "figures").mkdir()
    (section,) = compose({"adaptation": studies["adaptation"]}, tmp_path)["sections"]
    assert section["weak"] == (12.33, 12.34)


def test_a_look_up_that_is_above_knnlm_changes_nothing():
    rows = [*published("adaptation"), row("suffix", 1.0, 12.35)]
    assert {one.verdict for one in find({"adaptation": study(rows)})} == {"holds; no interval"}


def test_a_walk_that_cannot_save_half_does_not_save_half():
    rows = [row("knnlm", 0.0, 10.0), row("retomaton", 0.0, 8.0, clustering="kmeans")]
    (saved,) = (one for one in find({"in-domain": study(rows)}) if "more than half" in one.claim)
    assert saved.verdict == "does not hold; no interval"


def test_the_page_has_a_section_and_a_figure_per_experiment(tmp_path):
    names = ("in-domain", "ablation-law", "wall-clock")
    (tmp_path / "figures").mkdir()
    page = compose({name: papers_studies()[name] for name in names}, tmp_path)
    assert [section["figure"] for section in page["sections"]] == [
        f"figures/{name}.png" for name in names
    ]
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == {*names}
    assert all(len(row) == len(one["header"]) for one in page["sections"] for row in one["rows"])


def test_the_page_is_written_as_markdown_and_as_html_that_needs_nothing_else(tmp_path):
    folder, made = tmp_path / "evaluations/adaptation", study([])
    folder.mkdir(parents=True)
    rows = [row("suffix", 1.0, 12.33), *published("adaptation")]
    canonical.write(folder / "settings.json", made.settings | {"model": "a<b"})
    canonical.write(folder / "results.json", made.results | {"rows": rows})
    page = write_page(tmp_path)
    markdown, html = (tmp_path / "report.md").read_text(), page.read_text()
    assert "| kNN-LM | the paper | 12.34 | 36.32 | 106.56 at 1.00 | +0.0% |" in markdown
    assert "\n\n## Domain adaptation\n\nThe paper (figure 4;" in markdown
    assert "too weak to tell" in markdown
    assert "<td>106.56 at 1.00</td>" in html
    assert "<code>a&lt;b</code>" in html
    assert 'src="data:image/png;base64,' in html
    kept = canonical.read(tmp_path / "results.json", "")
    assert kept["findings"][0]["verdict"] == "cannot be told: weak LM"


def test_nothing_to_tell_is_said(tmp_path):
    assert compose({}, tmp_path) == {"findings": [], "verdicts": {}, "sections": []}


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        (Level(1, (0.8, 0.9)), Level(2, (0.95, 1.1)), "holds"),
        (Level(1, (0.8, 1.0)), Level(2, (0.95, 1.1)), "within chance"),
        (Level(3, (1.2, 1.3)), Level(2, (0.95, 1.1)), "does not hold"),
        (Level(1), Level(2, (0.95, 1.1)), "holds; no interval"),
        (Level(3), Level(2), "does not hold; no interval"),
    ],
)
def test_one_is_below_another_only_if_their_bounds_do_not_overlap(ours, theirs, verdict):
    assert ours.below(theirs) == verdict


def test_a_ratio_has_the_widest_bounds_that_it_can_have():
    ratio = Level(6, (0.5, 1.0)).over(Level(3, (2.0, 4.0)))
    assert (ratio.value, ratio.bounds) == (2, (0.125, 0.5))
    assert Level(6, (0.5, 1.0)).over(Level(3)).bounds is None


def points(*rows):
    (found,) = Curves.of_rows(rows).values()
    return found


def test_between_two_points_value_and_bounds_are_straight():
    rows = [row("retomaton", 0.0, 10, (0.8, 0.9)), row("retomaton", 0.5, 20, (1.0, 1.3))]
    read = level_at(points(*rows), 0.25)
    assert read.value == 15
    assert read.bounds == pytest.approx((0.9, 1.1))
    assert level_at(points(rows[0], row("retomaton", 0.5, 20)), 0.25) == Level(15)


def test_outside_its_points_nothing_is_read_off():
    found = points(row("retomaton", 0.2, 10), row("retomaton", 0.5, 20))
    assert level_at(found, 0.1) is None
    assert level_at(found, 0.6) is None


def test_of_points_with_the_same_foss_the_best_counts_and_infinite_ones_do_not():
    found = points(
        row("knnlm", 0.5, 12), row("knnlm", 0.0, 9), row("knnlm", 0.5, 11), row("knnlm", 1.0, "inf")
    )
    assert [(point.foss, point.level.value) for point in found] == [(0.0, 9), (0.5, 11)]


def test_knnlm_is_its_own_measure():
    assert points(row("knnlm", 0.0, 30, interval=(29, 31)))[0].level.bounds == (1.0, 1.0)
    assert points(row("knnlm", 0.0, 30))[0].level.bounds is None
