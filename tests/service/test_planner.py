"""A planned budget sees what it was planned for, hardly more than that, and its limits are said."""

import pytest

from cutline.errors import ParameterError
from cutline.service.planner import _seen, plan_budget


@pytest.mark.parametrize(("questions", "gap"), [(1, 5), (2, 25), (10, 60)])
def test_a_plan_is_enough_and_a_hundredth_less_is_not(questions, gap):
    plan = plan_budget(questions=questions, gap=gap)
    assert plan["sees"] <= gap
    assert _seen(plan["epsilon"] / 1.03, questions, 1e-6) > gap or plan["sees"] >= gap / 1.03
    assert _seen(plan["epsilon"] / 1.1, questions, 1e-6) > gap
    assert 50 < plan["right_at_most"] < 100


def test_more_questions_or_a_smaller_gap_take_a_larger_epsilon():
    usual, more, finer = (plan_budget(questions=n, gap=gap)["epsilon"] for n, gap in ((2, 25), (3, 25), (2, 18)))
    assert usual < min(more, finer)


def test_a_gap_that_anything_sees_takes_the_smallest_epsilon():
    assert plan_budget(questions=1, gap=10**9)["epsilon"] == 0.01


@pytest.mark.parametrize(("questions", "gap"), [(0, 5), (5, 0), (100_001, 5), (5, 10**9 + 1)])
def test_wishes_out_of_range_are_refused(questions, gap):
    with pytest.raises(ParameterError, match="a plan is for"):
        plan_budget(questions=questions, gap=gap)


def test_wishes_that_would_protect_nobody_are_refused():
    with pytest.raises(ParameterError, match="little is protected"):
        plan_budget(questions=50, gap=1)
