"""The Laplace stability test: the closed form of the paper's comparison, drawn exactly."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from scipy.stats import binomtest

from cutline.errors import ParameterError
from cutline.histogram import OpenHistogram
from cutline.mechanisms.adaptive.choosers import GapArgmax, GapExponential, Preference
from cutline.mechanisms.adaptive.gap_tests import LaplaceTest
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.mechanisms.calibration import largest_pure
from cutline.privacy import Adjacency, Pure
from cutline.sampling import SeededSource
from cutline.sampling.noise import LAPLACE, first_above

FAR = np.array([10**9])


def chance(test, gap, adjacency, slack=FAR):
    yes, no = test.chances(np.array([gap]), slack, adjacency)
    return float(yes[0]), float(no[0])


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("delta", [0.5, 0.3, 1e-3, 1e-9])
def test_chances_are_the_tail_of_the_papers_comparison(adjacency, delta):
    test, c = LaplaceTest(epsilon=0.7, delta=delta), adjacency.gap_change
    for gap in (0, 1, 2, 3, 4, 10, 40, 90, 1000):
        scale = c / arb(0.7)
        over = (max(c, gap) - c - scale * -(2 * arb(delta)).log()) / scale
        yes = over.exp() / 2 if over <= 0 else 1 - (-over).exp() / 2
        no = 1 - over.exp() / 2 if over <= 0 else (-over).exp() / 2
        assert chance(test, gap, adjacency) == pytest.approx((float(yes), float(no)), rel=1e-12)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_neighbouring_gaps_stay_within_epsilon_and_unstable_ones_at_delta(adjacency):
    test = LaplaceTest(epsilon=0.4, delta=0.01)
    for gap in range(60):
        for other in range(gap, gap + adjacency.gap_change + 1):
            for p, q in zip(chance(test, gap, adjacency), chance(test, other, adjacency), strict=True):
                assert abs(math.log(p / q)) <= 0.4 * (1 + 1e-12)
        if gap <= adjacency.gap_change:
            assert chance(test, gap, adjacency)[0] == 0.01


def test_the_bit_is_that_of_continuous_noise():
    """Ten thousand comparisons with refined Laplace noise, and as many exact coins, against the same chance."""
    test, runs = LaplaceTest(epsilon=0.5, delta=0.05), 10_000
    gaps, expected = np.full(runs, 6), chance(test, 6, Adjacency.ADD_REMOVE)[0]
    bits = test.passes(gaps, np.full(runs, 10**9), Adjacency.ADD_REMOVE, SeededSource(1)).sum()
    noisy = first_above(
        gaps[:, None],
        scale=1 / Fraction(0.5),
        threshold=lambda: 1 - (2 * arb(0.05)).log() / arb(0.5),
        threshold_scale=Fraction(1, 2**50),  # a bar with next to no noise
        noise=LAPLACE,
        rng=SeededSource(2),
    )
    for passed in (int(bits), int(np.sum(noisy == 0))):
        assert binomtest(passed, runs, expected).pvalue > 1e-3
        for factor in (0.7, 1.3):
            wrong = chance(LaplaceTest(epsilon=0.5 * factor, delta=0.05), 6, Adjacency.ADD_REMOVE)[0]
            assert binomtest(passed, runs, wrong).pvalue < 1e-6


def test_a_scripted_word_next_to_the_boundary_is_refined():
    class Script:
        seeded, words_left = True, None

        def __init__(self, words):
            self.words_left = list(words)

        def words(self, n):
            taken, self.words_left = self.words_left[:n], self.words_left[n:]
            assert len(taken) == n
            return np.array(taken, dtype=np.uint64)

    test = LaplaceTest(epsilon=1.0, delta=0.01)  # passes with probability e^3/100 at a gap of 4
    boundary = int((arb(3).exp() / 100 * 2**40).floor().unique_fmpz()) << 24
    for last, answer in ((0, True), (2**64 - 1, True)):
        source = Script([boundary, last])
        assert test.passes(np.array([4]), FAR, Adjacency.ADD_REMOVE, source).tolist() == [answer]
        assert not source.words_left
    half = LaplaceTest(epsilon=1.0, delta=0.5)  # exactly 1/2 where nothing is stable
    for word, answer in ((2**63 - 1, True), (2**63, False)):
        assert half.passes(np.array([0]), FAR, Adjacency.ADD_REMOVE, Script([word, 5])).tolist() == [answer]


def test_slack_limits_what_a_gap_can_claim():
    test = LaplaceTest(epsilon=1.0, delta=0.01)
    for adjacency in Adjacency:
        for slack in (0, 1, 3):
            limited = chance(test, 50, adjacency, np.array([slack]))
            assert limited == chance(test, adjacency.gap_change * (slack + 1), adjacency)


def test_it_serves_stable_top_k_with_both_choosers():
    counts = OpenHistogram.from_counts({"a": 90, "b": 89, "c": 3}, max_k=4)
    for chooser in (GapExponential(epsilon=1.0), GapArgmax()):
        mechanism = StableTopK(
            preference=Preference(max_k=4),
            chooser=chooser,
            test=LaplaceTest(epsilon=0.8, delta=1e-4),
            adjacency=Adjacency.REPLACE,
        )
        assert math.fsum(mechanism.law(counts).values()) == pytest.approx(1.0)
        assert mechanism.release(counts, rng=SeededSource(0)).items == frozenset("ab")
        assert mechanism.cost.delta == 1e-4


@pytest.mark.parametrize(("order", "rdp"), [(1.01, 2.0), (6.0, 0.3), (64.0, 1e-6), (3.0, 40.0), (math.inf, 0.5)])
def test_largest_pure_fills_its_allowance(order, rdp):
    epsilon = largest_pure(order=order, rdp=rdp)
    assert rdp * (1 - 1e-7) <= Pure(epsilon=epsilon).rdp(order) <= rdp
    assert LaplaceTest.within(order=order, rdp=rdp, delta=0.1).epsilon == epsilon


@pytest.mark.parametrize("fields", [{"delta": 0.0}, {"delta": 0.51}, {"delta": math.nan}, {"epsilon": 0.0}])
def test_parameters_out_of_range_are_refused(fields):
    with pytest.raises(ParameterError):
        LaplaceTest(**({"epsilon": 1.0, "delta": 0.1} | fields))
