"""What holds for every selector of a closed domain: releases follow the law, the chance is its sum, and refusals are public."""

import math

import numpy as np
import pytest

from cutline.errors import DomainError, LawTooLarge, ParameterError
from cutline.histogram import ClosedHistogram, OpenHistogram
from cutline.mechanisms.closed.joint import JointEM
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.closed.permute_and_flip import PermuteAndFlip
from cutline.mechanisms.closed.subset import SubsetEM
from cutline.privacy import Adjacency, Budget
from cutline.sampling import SeededSource

ADD = Adjacency.ADD_REMOVE
COUNTS = {"a": 9, "b": 7, "c": 7, "d": 3, "e": 0}
SMALL = ClosedHistogram.from_counts(COUNTS)
SIX = ClosedHistogram.from_counts({**COUNTS, "f": 0})


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(
    ("kind", "k", "epsilon", "histogram", "others", "draws"),
    [
        (PeelingEM, 3, 0.5, SMALL, (), 4000),
        (PermuteAndFlip, 2, 0.5, SMALL, (PeelingEM,), 4000),
        (JointEM, 3, 1.5, SMALL, (), 4000),
        (SubsetEM, 3, 1.5, SIX, (), 8000),  # nearly all of its law is one set
    ],
)
def test_releases_match_the_law_and_reject_wrong_parameters(
    kind, k, epsilon, histogram, others, draws, adjacency, p_value
):
    rng = SeededSource(3)
    right = kind(k=k, epsilon=epsilon, adjacency=adjacency)
    outcomes = [right.release(histogram, rng=rng).outcome for _ in range(draws)]
    assert p_value(outcomes, right.law(histogram)) > 1e-3
    for factor in (0.7, 1.3):
        assert p_value(outcomes, kind(k=k, epsilon=epsilon * factor, adjacency=adjacency).law(histogram)) < 1e-6
    for other in others:
        assert p_value(outcomes, other(k=k, epsilon=epsilon, adjacency=adjacency).law(histogram)) < 1e-6


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0, 40.0])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("kind", [PeelingEM, PermuteAndFlip, JointEM, SubsetEM])
def test_chance_is_the_sum_over_orders(kind, k, epsilon):
    histogram = SIX if kind.one_step else SMALL
    mechanism = kind(k=k, epsilon=epsilon, adjacency=ADD)
    top = frozenset(histogram.top(k))
    truth = math.fsum(p for outcome, p in mechanism.law(histogram).items() if frozenset(outcome.items) == top)
    assert mechanism.chance(histogram, k) == pytest.approx(truth, rel=1e-11)
    assert mechanism.chance(histogram, k + 1) == 0.0


@pytest.mark.parametrize("kind", [JointEM, SubsetEM])
class TestOneDraw:
    def test_the_draw_costs_the_same_for_any_k(self, kind):
        budget = Budget(epsilon=1.0, delta=1e-6)
        few, many = kind.calibrate(budget, k=2), kind.calibrate(budget, k=50)
        assert few.epsilon == many.epsilon
        assert few.cost == many.cost
        assert 1 - 1e-6 <= few.cost.epsilons(1e-6)["rdp"] <= 1.0

    def test_refusals(self, kind):
        with pytest.raises(DomainError, match="limited-domain"):
            kind(k=1, epsilon=1.0, adjacency=ADD).release(OpenHistogram.from_counts(COUNTS, max_k=3))
        for k in (5, 6):
            with pytest.raises(ParameterError, match="5 candidates"):
                kind(k=k, epsilon=1.0, adjacency=ADD).release(SMALL)
        for k in (0, -3, 2.5, True, None):
            with pytest.raises(ParameterError, match="k"):
                kind.calibrate(Budget(epsilon=1.0, delta=1e-6), k=k)
        wide = ClosedHistogram.from_counts(np.zeros(20_000, dtype=np.int64))
        with pytest.raises(ParameterError, match="peeling-em"):
            kind(k=100, epsilon=1.0, adjacency=ADD).release(wide)
        with pytest.raises(LawTooLarge):
            kind(k=2, epsilon=1.0, adjacency=ADD).law(wide)
