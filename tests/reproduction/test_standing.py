"""What two curves say of each other, and when they say nothing."""

import pytest

from retomaton_dist.reproduction.standing import Standing, standing_at
from tests.reproduction.made import row


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        (Standing(1, (0.8, 0.9)), Standing(2, (0.95, 1.1)), "holds"),
        (Standing(1, (0.8, 1.0)), Standing(2, (0.95, 1.1)), "within chance"),
        (Standing(3, (1.2, 1.3)), Standing(2, (0.95, 1.1)), "does not hold"),
        (Standing(1), Standing(2, (0.95, 1.1)), "holds; no interval"),
        (Standing(3), Standing(2), "does not hold; no interval"),
    ],
)
def test_one_is_below_another_only_if_their_bounds_do_not_overlap(ours, theirs, verdict):
    assert ours.below(theirs) == verdict


def test_a_ratio_has_the_widest_bounds_that_it_can_have():
    ratio = Standing(6, (0.5, 1.0)).over(Standing(3, (2.0, 4.0)))
    assert (ratio.value, ratio.bounds) == (2, (0.125, 0.5))
    assert Standing(6, (0.5, 1.0)).over(Standing(3)).bounds is None


def test_between_two_points_value_and_bounds_are_straight():
    points = [row("retomaton", 0.0, 10, (0.8, 0.9)), row("retomaton", 0.5, 20, (1.0, 1.3))]
    read = standing_at(points, 0.25)
    assert read.value == 15
    assert read.bounds == pytest.approx((0.9, 1.1))


def test_outside_its_points_nothing_is_read_off():
    points = [row("retomaton", 0.2, 10), row("retomaton", 0.5, 20)]
    assert standing_at(points, 0.1) is None
    assert standing_at(points, 0.6) is None


def test_knnlm_is_its_own_measure():
    assert standing_at([row("knnlm", 0.0, 30, interval=(29, 31))], 0.0).bounds == (1.0, 1.0)
    assert standing_at([row("knnlm", 0.0, 30)], 0.0).bounds is None
