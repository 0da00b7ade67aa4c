"""JointStable: the law is the formula, draws follow it exactly, wishes about k do what they say, and delta is used up."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from cutline.errors import ParameterError
from cutline.histogram import ClosedHistogram, OpenHistogram
from cutline.mechanisms.adaptive.choosers import UNIT, GapExponential, Preference
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.mechanisms.adaptive.joint_draw import JointDraw, scale_weights
from cutline.mechanisms.adaptive.joint_stable import JointStable
from cutline.mechanisms.one_gap import one_gap
from cutline.privacy import Adjacency, BitTable, Budget
from cutline.sampling import SeededSource
from cutline.verify import checks
from cutline.verify.universe import Histograms

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
SMALL = OpenHistogram.from_counts({"a": 12, "b": 9, "c": 9, "d": 3, "e": 2}, max_k=6)


def joint(epsilon=0.8, delta=0.05, prior=(1.0, 2.0, 1.0, 0.5, 1.0, 3.0), adjacency=ADD, **window):
    preference = Preference(**({"max_k": 6} | window))
    return JointStable(
        preference=preference, chooser=JointDraw(epsilon=epsilon, delta=delta, prior=prior), adjacency=adjacency
    )


def formula(mechanism, histogram):
    """The probability of each set, written down from the definition, in balls."""
    change, draw = mechanism.adjacency.gap_change, mechanism.chooser
    gaps = histogram.gaps(mechanism.max_k)[mechanism.preference.min_k - 1 :].tolist()
    with ctx.workprec(300):
        b = [
            arb(w) * (arb(draw.epsilon) / 2 * max(0, q - change) / change).exp()
            for w, q in zip(draw.weights, gaps, strict=True)
        ]
        total = sum(b, start=arb(0))
        return [float(x * x / (1 + x * total)) for x in b]


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("gap", [0, 1, 2, 3, 40, 1000, 10**6, 10**11])
def test_the_law_is_the_formula(adjacency, gap):
    mechanism = joint(adjacency=adjacency)
    for counts in ({"a": gap}, {"a": gap + 5, "b": gap + 5, "c": 5, "d": 4}, {"a": 2 * gap, "b": gap}):
        histogram = OpenHistogram.from_counts(counts, max_k=6)
        found = [mechanism.chance(histogram, k) for k in range(1, 7)]
        assert found == pytest.approx(formula(mechanism, histogram), rel=1e-12, abs=1e-300)
        assert math.fsum(mechanism.law(histogram).values()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_twenty_thousand_runs_match_the_law_and_reject_wrong_parameters(adjacency, p_value):
    right = joint(adjacency=adjacency)
    cuts, shown = right.sample(SMALL, 20_000, rng=SeededSource(3))
    seen = [right.outcome(SMALL, k, passed=bool(yes)) for k, yes in zip(cuts.tolist(), shown, strict=True)]
    assert p_value(seen, right.law(SMALL)) > 1e-3
    for wrong in ({"epsilon": 0.56}, {"epsilon": 1.04}, {"delta": 0.03}, {"delta": 0.08}, {"prior": (1.0,) * 6}):
        assert p_value(seen, joint(adjacency=adjacency, **wrong).law(SMALL)) < 1e-6


def test_a_coin_in_doubt_is_settled_by_the_formula():
    """Words that sit on the boundary of the fast path force the balls; the answer is that of U < p."""

    class Fixed(SeededSource):
        def __init__(self, words):
            super().__init__(0)
            self.given = list(words)

        def words(self, n):
            return np.array([self.given.pop(0) for _ in range(n)], dtype=np.uint64)

    mechanism = joint()
    scores = mechanism.preference.scores(SMALL.gaps(6)[None, :])
    with ctx.workprec(400):
        steps = [max(0, q - 1) for q in SMALL.gaps(6).tolist()]
        b = [arb(w) * (arb(0.8) / 2 * d).exp() for w, d in zip(mechanism.chooser.weights, steps, strict=True)]
        odds = b[0] * sum(b, start=arb(0))
        bits = int((odds / (1 + odds) * arb(2) ** 128).floor().unique_fmpz())
    for second, expected in ((-1, True), (1, False)):
        word = bits + second
        source = Fixed([word >> 64, word & (2**64 - 1)])
        assert bool(mechanism.chooser.passes(scores, np.array([0]), ADD, source)[0]) is expected
        assert not source.given


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=12),
    st.floats(1e-12, 0.999),
)
def test_squares_of_weights_never_pass_what_delta_allows(prior, delta):
    weights = scale_weights(tuple(prior), delta)
    squares = sum(Fraction(w) ** 2 for w in weights)
    allowed = Fraction(delta) / (1 - Fraction(delta))
    assert allowed * (1 - Fraction(1, 10**14)) <= squares <= allowed
    assert np.allclose(np.array(weights) / max(weights), np.array(prior) / max(prior), rtol=1e-14)


def test_where_every_set_differs_all_of_delta_is_used():
    """A tie at every cut, and a user who turns it over: what only one side shows has mass delta, no more and no less."""
    for adjacency, delta, sizes in ((ADD, 1e-3, (1,)), (REPLACE, 1e-3, (1, 1, 1, 1))):
        mechanism = joint(epsilon=0.5, delta=delta, prior=(1.0,) * len(sizes), max_k=len(sizes), adjacency=adjacency)
        before = dict(zip("abcdefgh", [1] * len(sizes) + [1] * len(sizes), strict=False))
        after = {item: n + (item > "d" if len(sizes) > 1 else item == "b") for item, n in before.items()}
        laws = [mechanism.law(OpenHistogram.from_counts(c, max_k=len(sizes))) for c in (before, after)]
        stick = sum(max(0.0, p - math.exp(0.5) * laws[1].get(outcome, 0.0)) for outcome, p in laws[0].items())
        assert 0.999 < stick / delta <= 1 + 1e-9


@pytest.mark.parametrize("adjacency", Adjacency)
def test_no_hockey_stick_passes_delta(adjacency):
    """The definition itself at epsilon, apart from the checker: all pairs of two items, and the share that is reached."""
    mechanism = joint(epsilon=0.7, delta=0.01, prior=(1.0, 1.0, 2.0), max_k=3, adjacency=adjacency)
    universe = Histograms.named("open 2 x 9", adjacency, max_k=3)
    laws = [mechanism.law(histogram) for histogram in universe.inputs()]
    worst = 0.0
    for i, j in zip(*universe.pairs(), strict=True):
        one, other = laws[i], laws[j]
        worst = max(worst, sum(max(0.0, p - math.exp(0.7) * other.get(outcome, 0.0)) for outcome, p in one.items()))
    assert 0.5 < worst / 0.01 <= 1 + 1e-9


def test_the_suite_is_as_large_and_as_tight_as_it_must_be():
    suite = checks(["joint-stable"])
    assert sum(check.universe.size for check in suite if check.expected == "holds") >= 100_000
    for adjacency in Adjacency:
        tight = next(check for check in suite if f"gentle, tight; {adjacency}" in check.name)
        assert 0.999 < tight.run().worst <= 1


def test_a_closed_domain_needs_delta_too():
    """All candidates are known, but only the exact top set is ever shown: neighbours can still show different ones."""
    mechanism = joint(max_k=1, prior=(1.0,))
    one, other = (
        {outcome.items for outcome in mechanism.law(ClosedHistogram.from_counts(counts))}
        for counts in ({"a": 1, "b": 1}, {"a": 1, "b": 2})
    )
    assert one - other == {frozenset("a")}
    assert other - one == {frozenset("b")}


def test_between_two_large_gaps_the_larger_wins_and_ties_are_released():
    mechanism = JointStable.calibrate(Budget(epsilon=1.0, delta=1e-6), max_k=100)

    def two_gaps(margin):
        counts = dict.fromkeys(range(10), 400 + margin) | dict.fromkeys(range(10, 30), 200)
        return OpenHistogram.from_counts(counts, max_k=100)

    first, second = (mechanism.chance(two_gaps(0), k) for k in (10, 30))
    assert first == pytest.approx(second, rel=1e-9)
    assert first + second > 0.999
    assert mechanism.chance(two_gaps(5), 10) > 0.9 > mechanism.chance(two_gaps(4), 10)


def test_a_prior_moves_the_one_gap_number_where_it_says():
    budget = Budget(epsilon=1.0, delta=1e-6)
    plain, larger = (JointStable.calibrate(budget, max_k=100, prefer_larger=wish) for wish in (False, True))
    assert one_gap(larger.chance, max_k=100, k=100) < one_gap(plain.chance, max_k=100, k=100) == 22
    assert one_gap(plain.chance, max_k=100, k=1) == 22 < one_gap(larger.chance, max_k=100, k=1)
    counts = {i: 3000 - 1000 * (i >= 2) - 500 * (i >= 40) - 1400 * (i >= 60) for i in range(100)}
    histogram = OpenHistogram.from_counts(counts, max_k=100)
    chances = {k: larger.chance(histogram, k) for k in (2, 40, 60, 100)}
    assert [chances[k] / chances[100] for k in (2, 40, 60)] == pytest.approx([0.02, 0.4, 0.6], rel=0.01)
    assert plain.chance(histogram, 60) > 0.999  # the largest gap


@pytest.mark.parametrize(
    "fields", [{}, {"prefer_larger": True}, {"prior": tuple(range(1, 21))}, {"min_k": 5, "prior": (2.0,) * 16}]
)
def test_a_description_builds_the_same_again(fields):
    budget = Budget(epsilon=1.0, delta=1e-6)
    mechanism = JointStable.calibrate(budget, max_k=20, **fields)
    told = {name: value for name, value in mechanism.describe().items() if JointStable.accepts(name)}
    again = JointStable.calibrate(budget, **told)
    assert again.preference == mechanism.preference
    assert again.chooser.weights == mechanism.chooser.weights
    assert ("prefer_larger" in told) == ("prefer_larger" in fields)


def test_what_is_not_a_joint_draw_is_refused():
    table = TableTest(table=BitTable.stability(order=3.0, rdp=1.0, delta=0.01))
    with pytest.raises(ParameterError, match="draws once"):
        JointStable(preference=Preference(max_k=3), chooser=GapExponential(epsilon=1.0), test=table, adjacency=ADD)
    with pytest.raises(ParameterError, match="one number for every k"):
        joint(prior=(1.0,) * 5)


def test_without_a_test_other_choosers_show_nothing():
    scores = UNIT * np.array([[50, 0]])
    chooser = GapExponential(epsilon=1.0)
    assert chooser.pass_chances(scores, ADD)[0].max() == 0
    assert not chooser.passes(scores, np.array([0]), ADD, SeededSource(0)).any()
