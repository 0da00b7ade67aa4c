"""What every registered mechanism must keep, so that a newcomer cannot skip it."""

import dataclasses
import inspect
import json
import math
import pickle
from functools import cache

import pytest

from cutline.errors import ParameterError
from cutline.histogram import BoundedHistogram, ClosedHistogram, OpenHistogram
from cutline.mechanisms import MECHANISMS, Mechanism
from cutline.mechanisms import mechanism as registered
from cutline.privacy import Adjacency, Budget, Cost
from cutline.sampling import SeededSource

MAX_K = 6
BUDGET = Budget(epsilon=2.0, delta=1e-3)
COUNTS = {"a": 25, "b": 24, "c": 22, "d": 9, "e": 8, "f": 8, "g": 1}
HISTOGRAMS = {
    "open": OpenHistogram.from_counts(COUNTS, max_k=MAX_K),
    "closed": ClosedHistogram.from_counts(COUNTS),
    "bounded": BoundedHistogram.from_counts(COUNTS | {"d": 21}, COUNTS, max_items_per_user=2),
}
CASES = [(kind.name, adjacency) for kind in MECHANISMS for adjacency in Adjacency]


def parameters(name):
    """Public parameters a mechanism takes: k where k is fixed, max_k where it is looked at, a bound where it needs one."""
    offered = {"k": 3, "max_k": MAX_K, "max_items_per_user": 2}
    return {key: value for key, value in offered.items() if registered(name).accepts(key)}


@cache  # mechanisms are frozen
def build(name, adjacency, budget=BUDGET, **public):
    return registered(name).calibrate(budget, adjacency=adjacency, **parameters(name), **public)


@pytest.mark.parametrize("kind", MECHANISMS, ids=lambda kind: kind.name)
def test_declared_parameters_are_those_of_calibrate(kind):
    taken = dict(inspect.signature(kind.calibrate).parameters)
    assert all(name in taken for name in ("budget", "adjacency", "limits"))
    own = {name: p for name, p in taken.items() if name not in ("budget", "adjacency", "limits")}
    assert {p.name: p.required for p in kind.parameters} == {n: p.default is p.empty for n, p in own.items()}
    assert {p.kind for name, p in taken.items() if name != "budget"} == {inspect.Parameter.KEYWORD_ONLY}
    assert all(kind.accepts(name) for variant in kind.variants for name in variant)


@pytest.mark.parametrize(("name", "adjacency"), CASES)
class TestEveryMechanism:
    def test_is_frozen_public_data(self, name, adjacency):
        mechanism = build(name, adjacency)
        assert dataclasses.is_dataclass(mechanism)
        assert mechanism.name == name
        assert isinstance(mechanism, Mechanism)
        with pytest.raises(dataclasses.FrozenInstanceError):
            mechanism.adjacency = Adjacency.ADD_REMOVE

    def test_cost_is_known_before_data_and_within_the_budget(self, name, adjacency):
        mechanism = build(name, adjacency)
        assert mechanism.cost.adjacency is adjacency
        assert BUDGET.fits(mechanism.cost)
        assert mechanism.cost.epsilon(BUDGET.delta) <= BUDGET.epsilon

    def test_calibration_leaves_next_to_nothing(self, name, adjacency):
        """Calibration is by `rdp`, by `exact` for equal draws, or by `pure` or `advanced` where no Rényi curve is known."""
        epsilons = build(name, adjacency).cost.epsilons(BUDGET.delta)
        spent = [epsilons[rule] for rule in ("rdp", "exact", "pure", "advanced") if rule in epsilons]
        assert max(e for e in spent if e <= BUDGET.epsilon) >= BUDGET.epsilon * (1 - 1e-6)

    @pytest.mark.slow
    def test_many_releases_cost_no_more_than_the_budget(self, name, adjacency):
        budget = Budget(epsilon=2.0, delta=1e-3, releases=50)
        mechanism = build(name, adjacency, budget)
        assert (50 * mechanism.cost).epsilon(1e-3) <= 2.0
        assert (51 * mechanism.cost).epsilons(1e-3)["rdp"] > 2.0

    @pytest.mark.slow
    def test_more_budget_never_needs_more_noise(self, name, adjacency):
        costs = [build(name, adjacency, Budget(epsilon=e, delta=1e-3)).cost.epsilon(1e-3) for e in (0.5, 1.0, 2.0)]
        assert costs == sorted(costs)

    def test_law_sums_to_one(self, name, adjacency):
        mechanism = build(name, adjacency)
        for domain in mechanism.domains:
            law = mechanism.law(HISTOGRAMS[domain])
            assert math.fsum(law.values()) == pytest.approx(1.0, abs=1e-12)
            assert min(law.values()) >= 0

    @pytest.mark.slow
    def test_release_matches_law(self, name, adjacency, p_value):
        mechanism = build(name, adjacency)
        rng = SeededSource(7)
        for domain in mechanism.domains:
            law = mechanism.law(HISTOGRAMS[domain])
            seen = [mechanism.release(HISTOGRAMS[domain], rng=rng).outcome for _ in range(1000)]
            assert p_value(seen, law) > 1e-4

    def test_release_is_public_plain_and_priced_by_its_outcome(self, name, adjacency):
        mechanism = build(name, adjacency)
        costs: dict = {}
        laws = {domain: mechanism.law(HISTOGRAMS[domain]) for domain in mechanism.domains}
        for seed in range(30):
            for domain in mechanism.domains:
                release = mechanism.release(HISTOGRAMS[domain], rng=SeededSource(seed))
                assert release.seeded
                assert "simulation" in release.guarantee
                assert costs.setdefault(release.outcome, release.cost) == release.cost
                assert release.outcome in laws[domain]
                assert (release.items is None) == (release.status == "withheld")
                assert Cost.from_dict(release.cost.to_dict()) == release.cost
                assert json.loads(json.dumps(release.mechanism))["name"] == name
                assert pickle.loads(pickle.dumps(release)) == release
                assert isinstance(release.items, tuple) or not mechanism.ordered or release.items is None

    def test_system_randomness_is_the_default(self, name, adjacency):
        mechanism = build(name, adjacency)
        release = mechanism.release(HISTOGRAMS[mechanism.domains[0]])
        assert not release.seeded
        assert "simulation" not in release.guarantee
        assert adjacency.protects in release.guarantee

    def test_a_filter_fixes_order_and_limits(self, name, adjacency):
        limits = BUDGET.filter(order=6.0, delta_share=0.3)
        mechanism = build(name, adjacency, limits=limits)
        assert limits.admits(0.0, 0.0, mechanism.cost)
        assert mechanism.cost.rdp(6.0) >= limits.rdp * (1 - 1e-6)

    def test_nonsense_is_refused(self, name, adjacency):
        for key in parameters(name):
            for value in (0, -3, 2.5, True, *([None] if key == "k" else [])):  # max_k may be left to the mechanism
                with pytest.raises((ParameterError, TypeError)):
                    registered(name).calibrate(BUDGET, adjacency=adjacency, **(parameters(name) | {key: value}))
        with pytest.raises(ValueError, match="nearby"):
            registered(name).calibrate(BUDGET, adjacency="nearby", **parameters(name))
