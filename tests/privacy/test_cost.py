"""Costs compose, convert and serialise; budgets and filters never grant too much."""

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutline.errors import AdjacencyError, BudgetError, ParameterError
from cutline.privacy import Adjacency, BitTable, BoundedRange, Budget, Cost, Filter, GaussianBit, Pure, Use
from cutline.privacy.rules.rdp import epsilon_from_rdp, epsilon_from_rdp_classic, rdp_within

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
EM = Cost.of(BoundedRange(epsilon=0.05), adjacency=ADD)
TABLE = Cost.of(BitTable.stability(order=8.0, rdp=0.01, delta=1e-9), adjacency=ADD, delta=1e-9)
COSTS = [EM, TABLE, EM + TABLE, Cost.of(Pure(epsilon=0.1), adjacency=ADD, delta=1e-8)]


@pytest.mark.slow
@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("times", [1, 2, 7])
def test_repeat_is_compose_for_every_rule(cost, times):
    composed = Cost(adjacency=ADD)
    for _ in range(times):
        composed = composed + cost
    assert times * cost == composed
    assert dict((times * cost).epsilons(1e-6)) == dict(composed.epsilons(1e-6))


@pytest.mark.parametrize("cost", COSTS)
def test_reads_back_equal_through_json(cost):
    assert Cost.from_dict(json.loads(json.dumps(cost.to_dict()))) == cost


def test_order_of_composition_does_not_matter():
    assert EM + TABLE == TABLE + EM


def test_another_adjacency_is_refused():
    with pytest.raises(AdjacencyError):
        _ = EM + Cost.of(BoundedRange(epsilon=0.05), adjacency=REPLACE)


def test_nothing_costs_nothing():
    assert Cost(adjacency=ADD) == 0 * EM
    assert (0 * EM).epsilon(1e-6) == 0.0


def test_deltas_add_up_exactly_rounded_up():
    assert Fraction((600 * TABLE).delta) >= 600 * Fraction(1e-9)
    assert (600 * TABLE).delta == pytest.approx(6e-7, rel=1e-15)


def test_reference_values():
    epsilons = (600 * EM).epsilons(4e-7)
    assert epsilons["rdp"] <= 3.136
    assert epsilons["pure"] == pytest.approx(30.0)
    assert epsilons["rdp"] < epsilons["rdp-classic"]


def test_a_delta_already_used_up_leaves_no_rule_but_none_is_silent():
    cost = Cost.of(GaussianBit(sigma=5.0, offset=4.0, reach=1), adjacency=ADD, delta=1e-5)
    assert dict(cost.epsilons(1e-6)) == {}
    assert cost.epsilon(1e-6) == math.inf


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2.0, math.nan])
def test_bad_delta_is_refused(delta):
    with pytest.raises(ParameterError):
        EM.epsilon(delta)


def test_delta_zero_is_pure_or_refused():
    assert dict(EM.epsilons(0.0)) == {"pure": 0.05}
    assert dict(TABLE.epsilons(0.0)) == {}


@given(order=st.floats(1.01, 1e4), rdp=st.floats(0, 20), delta=st.floats(1e-12, 0.5), share=st.floats(0, 0.99))
def test_conversion_there_and_back_is_safe(order, rdp, delta, share):
    slack = share * delta
    epsilon = epsilon_from_rdp(order=order, rdp=rdp, delta=delta, slack=slack)
    assert epsilon <= epsilon_from_rdp_classic(order=order, rdp=rdp, delta=delta, slack=slack)
    if epsilon > 0:
        back = rdp_within(order=order, epsilon=epsilon, delta=delta, slack=slack)
        assert rdp <= back * (1 + 1e-12) + 1e-12
        assert (
            epsilon_from_rdp(order=order, rdp=max(back, 0.0), delta=delta, slack=slack) <= epsilon + 1e-12 or back < 0
        )


def test_conversion_needs_room_beyond_the_slack():
    assert epsilon_from_rdp(order=2.0, rdp=0.1, delta=1e-6, slack=1e-6) == math.inf
    assert epsilon_from_rdp(order=2.0, rdp=0.1, delta=1e-6, slack=math.nan) == math.inf


@pytest.mark.parametrize(
    "fields",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": -1e-6},
        {"delta": math.nan},
        {"delta": math.inf},
        {"releases": 0},
        {"releases": 1.5},
        {"releases": True},
    ],
)
def test_budget_refuses_nonsense(fields):
    with pytest.raises(ParameterError):
        Budget(**({"epsilon": 1.0, "delta": 1e-6} | fields))


def test_filter_refuses_an_order_that_leaves_nothing():
    with pytest.raises(BudgetError, match="order"):
        Budget(epsilon=0.1, delta=1e-9).filter(order=2.0, delta_share=0.1)


def test_filter_conversion_gives_back_the_budget():
    budget = Budget(epsilon=1.0, delta=1e-6)
    limits = budget.filter(order=20.0, delta_share=0.3)
    epsilon = epsilon_from_rdp(order=20.0, rdp=limits.rdp, delta=1e-6, slack=limits.delta)
    assert epsilon == pytest.approx(1.0, rel=1e-12)
    assert epsilon <= 1.0 + 1e-14


@settings(max_examples=60, deadline=None)
@given(
    choices=st.lists(st.sampled_from([*COSTS, Cost.of(Pure(epsilon=1.5), adjacency=ADD)]), min_size=1, max_size=60),
    order=st.floats(4.0, 64.0),
    share=st.floats(0.01, 0.9),
)
def test_no_sequence_is_granted_past_the_limits(choices, order, share):
    limits = Budget(epsilon=6.0, delta=1e-7).filter(order=order, delta_share=share)
    rdp, delta = Fraction(0), Fraction(0)
    spent_rdp = spent_delta = 0.0
    for cost in choices:
        if limits.admits(spent_rdp, spent_delta, cost):
            rdp += Fraction(cost.rdp(order))
            delta += Fraction(cost.delta)
            spent_rdp, spent_delta = float(rdp), float(delta)
            spent_rdp = spent_rdp if Fraction(spent_rdp) >= rdp else math.nextafter(spent_rdp, math.inf)
            spent_delta = spent_delta if Fraction(spent_delta) >= delta else math.nextafter(spent_delta, math.inf)
        assert rdp <= Fraction(limits.rdp)
        assert delta <= Fraction(limits.delta)


@pytest.mark.parametrize("spent", [math.nan, -1.0, math.inf])
def test_filter_fails_closed(spent):
    limits = Filter(order=8.0, rdp=1.0, delta=1e-6)
    assert limits.admits(0.0, 0.0, EM)
    assert not limits.admits(spent, 0.0, EM)
    assert not limits.admits(0.0, spent, EM)


def test_uses_refuse_nonsense():
    with pytest.raises(ParameterError):
        Use(curve=Pure(epsilon=1.0), delta=math.nan)
    with pytest.raises(ParameterError):
        Use(curve=Pure(epsilon=1.0), times=0)


@pytest.mark.parametrize("cost", [*COSTS, 10 * EM + 3 * TABLE])
def test_a_summary_names_the_order_that_converts_best(cost):
    summary = json.loads(json.dumps(cost.summary(1e-6), allow_nan=False))
    assert sum(summary["kinds"].values()) == sum(use.times for use in cost.uses)
    assert (summary["delta"], summary["slack"]) == (1e-6, cost.delta)
    assert summary["rdp"] == cost.rdp(summary["order"])
    converted = epsilon_from_rdp(order=summary["order"], rdp=summary["rdp"], delta=1e-6, slack=summary["slack"])
    assert summary["epsilon"] == converted == cost.epsilons(1e-6)["rdp"] >= cost.epsilon(1e-6)


def test_a_summary_without_a_conversion_says_none():
    summary = (2000 * TABLE).summary(1e-6)
    assert (summary["order"], summary["rdp"], summary["epsilon"]) == (None, None, None)
    with pytest.raises(ParameterError, match="delta"):
        EM.summary(math.nan)


def test_a_summary_that_spends_all_of_delta_says_what_pure_dp_says():
    cost = Cost.of(Pure(epsilon=0.5), adjacency=Adjacency.ADD_REMOVE, delta=1e-6)
    summary = cost.summary(1e-6)
    assert (summary["order"], summary["rdp"], summary["epsilon"]) == (None, 0.5, 0.5)
    assert (2 * cost).summary(1e-6)["epsilon"] is None
