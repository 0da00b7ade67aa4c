"""The OpenDP measurement runs for real: domains, metrics, map, composition and conversion are OpenDP's own."""

from __future__ import annotations

import math
import sys

import opendp.prelude as dp
import pytest

from cutline import Budget, StableTopK
from cutline.errors import MissingExtraError, ParameterError
from cutline.interop.concentration import bound_by_zcdp, certified_rho
from cutline.interop.opendp_measurement import stable_top_k_measurement
from cutline.privacy import Adjacency, BitTable, BoundedRange, Cost, GaussianBit, LimitedDomainDraws, Pure

COUNTS = [900, 5, 870, 3, 880, 4, 0, 1]


@pytest.fixture(autouse=True)
def _features():
    dp.enable_features("contrib", "honest-but-curious")
    yield
    dp.disable_features("contrib", "honest-but-curious")


def mechanism(**public):
    return StableTopK.calibrate(Budget(epsilon=1.0, delta=1e-6), max_k=6, **public)


def test_releases_the_top_set_of_a_vector_of_counts() -> None:
    measurement = stable_top_k_measurement(mechanism(), candidates=8)
    outcomes = [measurement(COUNTS) for _ in range(5)]
    assert (3, frozenset({0, 2, 4})) in outcomes
    assert not any(hasattr(outcome, "__opendp_dict__") for outcome in outcomes)  # where OpenDP keeps the private input


def test_a_withheld_set_is_none() -> None:
    k, items = stable_top_k_measurement(mechanism(choose="em"), candidates=8)([7] * 8)
    assert 1 <= k <= 6
    assert items is None
    assert stable_top_k_measurement(mechanism(), candidates=8)([7] * 8) == (0, None)  # one draw hides its k


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("test", ["table", "gaussian", "paper"])
def test_the_map_is_the_proved_rho_and_the_costs_delta(adjacency: Adjacency, test: str) -> None:
    ours = mechanism(adjacency=adjacency, test=test)
    measurement = stable_top_k_measurement(ours, candidates=8)
    rho, delta = measurement.map(1)
    assert (rho, delta) == bound_by_zcdp(ours.cost)
    assert delta >= ours.test.delta
    assert measurement.map(0) == (0.0, 0.0)
    assert all(ours.cost.rdp(order) <= rho * order for order in (1.0001, 1.1, 2.0, 8.0, 17.4, 64.0))
    if test == "gaussian":
        assert rho == pytest.approx(ours.chooser.epsilon**2 / 8 + adjacency.gap_change**2 / (2 * ours.test.sigma**2))


@pytest.mark.parametrize(("adjacency", "monotonic"), [(Adjacency.ADD_REMOVE, True), (Adjacency.REPLACE, False)])
def test_the_metric_says_which_counts_may_move_together(adjacency: Adjacency, monotonic: bool) -> None:
    measurement = stable_top_k_measurement(mechanism(adjacency=adjacency), candidates=8)
    assert measurement.input_metric == dp.linf_distance(T="i64", monotonic=monotonic)
    assert measurement.input_metric != dp.linf_distance(T="i64", monotonic=not monotonic)
    assert measurement.output_measure == dp.approximate(dp.zero_concentrated_divergence())


@pytest.mark.parametrize("d_in", [2, 5, -1])
def test_groups_are_refused(d_in: int) -> None:
    with pytest.raises(Exception, match=r"one person|d_in"):
        stable_top_k_measurement(mechanism(), candidates=8).map(d_in)


def test_composes_and_converts_inside_opendp() -> None:
    ours = mechanism(test="gaussian")
    measurement = stable_top_k_measurement(ours, candidates=8)
    three = dp.c.make_composition([measurement] * 3)
    rho, delta = measurement.map(1)
    assert three.map(1) == pytest.approx((3 * rho, 3 * delta))
    target = 4e-6
    epsilon, _ = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(three), target).map(1)
    assert epsilon >= (3 * ours.cost).epsilon(target)
    assert epsilon < 6


def test_without_consent_opendp_refuses() -> None:
    dp.disable_features("honest-but-curious")
    with pytest.raises(Exception, match="honest-but-curious"):
        stable_top_k_measurement(mechanism(), candidates=8)


def test_without_opendp_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(MissingExtraError, match=r"cutline\[opendp\]"):
        stable_top_k_measurement(mechanism(), candidates=8)


@pytest.mark.parametrize("candidates", [0, -3, 2.5, True])
def test_candidates_are_a_public_length(candidates) -> None:
    with pytest.raises(ParameterError, match="candidates"):
        stable_top_k_measurement(mechanism(), candidates=candidates)


@pytest.mark.parametrize(
    "curve",
    [
        BitTable.stability(order=8.0, rdp=0.25, delta=1e-6),
        BitTable.stability(order=40.0, rdp=0.01, delta=1e-9),
        BitTable.voting(order=8.0, rdp=0.1, teachers=51),
        BoundedRange(epsilon=0.7),
        Pure(epsilon=0.7),
        GaussianBit(sigma=20.0, offset=5.0, reach=2),
        LimitedDomainDraws(k=4, epsilon=0.3, delta=1e-6),
    ],
    ids=lambda curve: curve.kind,
)
def test_rho_is_above_the_curve_at_every_order_and_not_far(curve) -> None:
    rho = certified_rho(curve)
    orders = [1 + math.exp(t / 8) for t in range(-40, 40)]
    # Near order 1 the Limited Domain formula grows, the divergence does not: the bound at any larger order holds too.
    bounds = [min(curve.rdp(order), curve.rdp(order * 1.01)) for order in orders]
    ratios = [bound / order for bound, order in zip(bounds, orders, strict=True)]
    assert max(ratios) <= rho * 1.0101
    assert rho <= 1.02 * max(ratios) or curve.kind in ("pure", "gaussian-bit")


def test_a_table_that_reaches_certainty_has_no_rho() -> None:
    table = BitTable.approximate(epsilon=1.0, delta=0.1)
    with pytest.raises(ParameterError, match="zCDP"):
        bound_by_zcdp(Cost.of(table, adjacency=Adjacency.REPLACE))
