"""Events and distributions for dp-accounting: heard by its accountants, never below the truth, repeat = compose."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant

from cutline import Budget, StableTopK
from cutline.errors import ParameterError
from cutline.interop.dp_accounting_events import neighbouring_relation, to_event, to_event_and_delta, to_pld
from cutline.privacy import (
    ZCDP,
    Adjacency,
    BitTable,
    BoundedRange,
    Cost,
    Gaussian,
    GaussianBit,
    LimitedDomainDraws,
    NoisyMaxGaussian,
    Pure,
)
from cutline.privacy.rules.pld import pld
from cutline.privacy.rules.rdp import rdp

CURVES = [
    BoundedRange(epsilon=0.2),
    BitTable.stability(order=20.0, rdp=0.02, delta=1e-9),
    Gaussian(sigma=9.0, squared_sensitivity=2.0),
    Gaussian(sigma=9.0, discrete=True),
    GaussianBit(sigma=20.0, offset=6.0, reach=2),
    NoisyMaxGaussian(sigma=50.0, choices=8),
    LimitedDomainDraws(k=3, epsilon=0.1, delta=1e-8),
    Pure(epsilon=0.1),
    ZCDP(rho=0.01),
]
PROFILED = [CURVES[0], CURVES[1], CURVES[2], CURVES[4], CURVES[7]]


def heard(accountant, event, delta: float) -> float:
    return accountant.compose(event).get_epsilon(delta)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.kind)
def test_the_rdp_accountant_never_reports_less_than_we_prove(curve, adjacency: Adjacency) -> None:
    relation = neighbouring_relation(adjacency)
    for times in (1, 7, 100):
        cost = times * Cost.of(curve, adjacency=adjacency)
        theirs = heard(RdpAccountant(neighboring_relation=relation), to_event(cost), 1e-6)
        assert theirs >= rdp(cost, 1e-6) * (1 - 1e-12)


def test_bounded_range_loses_next_to_nothing() -> None:
    cost = 600 * Cost.of(BoundedRange(epsilon=0.05), adjacency=Adjacency.ADD_REMOVE)
    assert rdp(cost, 4e-7) <= heard(RdpAccountant(), to_event(cost), 4e-7) < 3.14


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.kind)
def test_repeat_is_compose_in_the_rdp_accountant(curve) -> None:
    one = Cost.of(curve, adjacency=Adjacency.REPLACE)
    repeated, step = RdpAccountant(), RdpAccountant()
    repeated.compose(to_event(40 * one))
    for _ in range(40):
        step.compose(to_event(one))
    assert np.allclose(repeated.rdp, step.rdp, rtol=1e-12)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_repeat_is_compose_in_the_pld_accountant(adjacency: Adjacency) -> None:
    one = Cost.of(Gaussian(sigma=9.0), adjacency=adjacency)
    relation = neighbouring_relation(adjacency)
    repeated = heard(PLDAccountant(relation), to_event(40 * one), 1e-6)
    step = PLDAccountant(relation)
    for _ in range(40):
        step.compose(to_event(one))
    assert repeated == pytest.approx(step.get_epsilon(1e-6), rel=1e-4)
    assert repeated >= pld(40 * one, 1e-6) * (1 - 1e-6)


def test_the_branch_that_ignores_the_count_is_real_and_not_ours() -> None:
    response = dp_accounting.RandomizedResponseDpEvent(noise_parameter=0.9, num_buckets=2)
    relation = NeighboringRelation.REPLACE_ONE
    once = heard(PLDAccountant(relation), response, 1e-6)
    repeated = heard(PLDAccountant(relation), dp_accounting.SelfComposedDpEvent(response, 50), 1e-6)
    assert repeated == once  # 50 uses at the price of one: wrong, and why pure steps are not said so
    by_hand = PLDAccountant(relation)
    for _ in range(50):
        by_hand.compose(response)
    assert by_hand.get_epsilon(1e-6) > 3 * once
    pure = 50 * Cost.of(Pure(epsilon=math.log(0.55 / 0.45)), adjacency=Adjacency.REPLACE)
    assert not PLDAccountant(relation).supports(to_event(pure))
    # Said as a distribution, the same 50 uses cost what composing them by hand costs.
    assert to_pld(pure).get_epsilon_for_delta(1e-6) == pytest.approx(by_hand.get_epsilon(1e-6), rel=2e-3)


def test_under_replace_the_two_accountants_read_a_multiplier_differently() -> None:
    cost = 10 * Cost.of(Gaussian(sigma=9.0), adjacency=Adjacency.REPLACE)
    relation = NeighboringRelation.REPLACE_ONE
    by_rdp = heard(RdpAccountant(neighboring_relation=relation), to_event(cost), 1e-6)
    by_pld = heard(PLDAccountant(relation), to_event(cost), 1e-6)
    truth = pld(cost, 1e-6)
    doubled = pld(40 * Cost.of(Gaussian(sigma=9.0), adjacency=Adjacency.REPLACE), 1e-6)
    assert truth <= by_rdp < 1.15 * truth
    assert by_pld == pytest.approx(doubled, rel=1e-3)


def test_relations_are_named_alike() -> None:
    assert neighbouring_relation(Adjacency.ADD_REMOVE) is NeighboringRelation.ADD_OR_REMOVE_ONE
    assert neighbouring_relation("replace") is NeighboringRelation.REPLACE_ONE


def test_a_delta_is_never_dropped() -> None:
    mechanism = StableTopK.calibrate(Budget(epsilon=1.0, delta=1e-6), max_k=20, test="gaussian")
    with pytest.raises(ParameterError, match="delta"):
        to_event(mechanism.cost)
    with pytest.raises(ParameterError, match="delta"):
        to_event_and_delta(mechanism.cost, mechanism.cost.delta)
    with pytest.raises(ParameterError, match="delta"):
        to_event_and_delta(mechanism.cost, math.nan)
    event, target = to_event_and_delta(mechanism.cost, 1e-6)
    assert 0 < target < 1e-6 - mechanism.cost.delta * (1 - 1e-6)
    assert heard(RdpAccountant(), event, target) >= rdp(mechanism.cost, 1e-6)


def test_an_empty_cost_is_no_event() -> None:
    empty = Cost(adjacency=Adjacency.ADD_REMOVE)
    assert heard(RdpAccountant(), to_event(empty), 1e-6) == 0
    assert to_pld(empty).get_epsilon_for_delta(1e-6) == 0


def test_events_survive_composition_with_theirs() -> None:
    ours = 20 * Cost.of(BoundedRange(epsilon=0.1), adjacency=Adjacency.ADD_REMOVE)
    theirs = dp_accounting.GaussianDpEvent(10.0)
    both = heard(RdpAccountant(), dp_accounting.ComposedDpEvent([to_event(ours), theirs]), 1e-6)
    assert both >= rdp(ours + Cost.of(Gaussian(sigma=10.0), adjacency=Adjacency.ADD_REMOVE), 1e-6)


@pytest.mark.parametrize("curve", PROFILED, ids=lambda curve: curve.kind)
def test_a_distribution_is_above_the_profile_and_repeats_as_it_composes(curve) -> None:
    one = Cost.of(curve, adjacency=Adjacency.REPLACE, delta=1e-9)
    law = to_pld(one, value_discretization_interval=1e-3)
    x = np.array([0.0, 0.01, 0.05, 0.2])
    if not isinstance(curve, Gaussian):
        assert np.all(law.get_delta_for_epsilon(x) >= curve.profile(x))
    explicit = law
    for _ in range(7):
        explicit = explicit.compose(law)
    repeated = to_pld(8 * one, value_discretization_interval=1e-3)
    assert repeated.get_epsilon_for_delta(1e-5) == pytest.approx(explicit.get_epsilon_for_delta(1e-5), rel=1e-4)
    assert repeated.get_delta_for_epsilon(50.0) >= 8e-9 * (1 - 1e-6)  # the delta went along


def test_a_distribution_composes_with_theirs() -> None:
    ours = 5 * Cost.of(Gaussian(sigma=10.0), adjacency=Adjacency.ADD_REMOVE)
    theirs = privacy_loss_distribution.from_gaussian_mechanism(10.0)
    whole = 6 * Cost.of(Gaussian(sigma=10.0), adjacency=Adjacency.ADD_REMOVE)
    assert to_pld(ours).compose(theirs).get_epsilon_for_delta(1e-6) == pytest.approx(pld(whole, 1e-6), rel=1e-4)


def test_what_cannot_be_said_is_refused() -> None:
    with pytest.raises(ParameterError, match="profile"):
        to_pld(Cost.of(ZCDP(rho=0.1), adjacency=Adjacency.REPLACE))
    with pytest.raises(ParameterError, match="zCDP"):
        to_event(Cost.of(BitTable.approximate(epsilon=1.0, delta=0.1), adjacency=Adjacency.REPLACE))
    with pytest.raises(ParameterError, match="interval"):
        to_pld(Cost(adjacency=Adjacency.REPLACE), value_discretization_interval=0.0)
