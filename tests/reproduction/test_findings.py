"""The paper's findings: true of the paper's own numbers, and told apart where ours are others."""

import re

from retomaton_dist.report.render import write_pages
from retomaton_dist.reproduction.findings import find
from retomaton_dist.reproduction.page import TITLES, compose, summary
from retomaton_dist.reproduction.paper import PUBLISHED, SAVED_TIME
from tests.reproduction.made import row, study


def overlap(seen):
    return [{"n": 5, "types": 1, "types_seen": 1, "occurrences": 100, "occurrences_seen": seen}]


def timed(method, foss, total, clustering=None):
    seconds = {"lm": 1.0, "search": 0.0, "walk": 0.0, "rest": 0.0, "total": total}
    return row(method, foss, 10, clustering=clustering, seconds=seconds)


STORES = {"in-domain": "wiki", "ablation-wiki": "wiki", "fine-tuned": "law-tuned"}


def papers_studies():
    seen = {"in-domain": 21, "adaptation": 62}
    studies = {
        name: study(published.rows, STORES.get(name, "law"), overlap=overlap(seen.get(name, 0)))
        for name, published in PUBLISHED.items()
    }
    points = SAVED_TIME["the paper, CPU index"]
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
    assert "RetoMaton + lambda (kmeans) is below kNN-LM + lambda" in fair.claim
    assert fair.verdict == "within chance"


def test_with_keys_that_say_less_than_the_last_few_tokens_no_verdict_is_given(tmp_path):
    rows = [*PUBLISHED["adaptation"].rows, row("suffix", 1.0, 12.33)]
    studies = {**papers_studies(), "adaptation": study(rows, "law", overlap=overlap(62))}
    told = {one.study: set() for one in find(studies)}
    for one in find(studies):
        told[one.study].add(one.verdict)
    assert told.pop("adaptation") == told.pop("ablation-law") == {"cannot be told: weak LM"}
    # Gains on both texts rest on it, their n-grams do not.
    assert told.pop("both texts") == {"cannot be told: weak LM", "holds; no interval"}
    assert set.union(*told.values()) == {"holds; no interval"}
    made = compose({"adaptation": studies["adaptation"]}, tmp_path)
    page = write_pages(tmp_path, "comparison.jinja", made, "retomaton_dist.reproduction")
    assert "too weak to tell" in page.read_text()


def test_a_look_up_that_is_above_knnlm_changes_nothing():
    rows = [*PUBLISHED["adaptation"].rows, row("suffix", 1.0, 12.35)]
    assert {one.verdict for one in find({"adaptation": study(rows)})} == {"holds; no interval"}


def test_a_walk_that_cannot_save_half_does_not_save_half():
    rows = [row("knnlm", 0.0, 10.0), row("retomaton", 0.0, 8.0, clustering="kmeans")]
    (saved,) = (one for one in find({"in-domain": study(rows)}) if "more than half" in one.claim)
    assert saved.verdict == "does not hold; no interval"


def test_the_report_has_a_section_and_a_figure_per_experiment(tmp_path):
    names = ("in-domain", "ablation-law", "wall-clock")
    studies = {name: papers_studies()[name] for name in names}
    made = compose(studies, tmp_path)
    write_pages(tmp_path, "comparison.jinja", made, "retomaton_dist.reproduction")
    headings = re.findall("(?m)^## (.*)$", (tmp_path / "report.md").read_text())
    assert headings == ["The paper's findings", *(TITLES[name] for name in names)]
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == {*names}


def test_nothing_to_tell_is_said():
    assert summary(find({})) == "0 findings could be checked here."
