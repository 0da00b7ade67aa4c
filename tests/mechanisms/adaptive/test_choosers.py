"""Noisy maxima for choosing k: exact laws, exact draws, the right scales for both relations."""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from flint import acb, arb, ctx
from scipy.stats import chisquare

from cutline.errors import LawTooLarge, ParameterError
from cutline.histogram import OpenHistogram
from cutline.mechanisms.adaptive.choosers import UNIT, GapGaussian, GapLaplace, GapPermuteAndFlip, Preference
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.mechanisms.noise_laws import exponential_law, laplace_law, normal_law
from cutline.privacy import Adjacency, Pure
from cutline.sampling import SeededSource
from cutline.verify.suites.mechanisms.stable_top_k import STEEP

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
OFFSETS = [Fraction(0), Fraction(-1, 3), Fraction(-1, 3), Fraction(-5, 2), Fraction(-30)]
FLOATS = np.array([float(o) for o in OFFSETS])


def integral(function, low, high):
    return acb.integral(lambda x, _: function(x), low, high, abs_tol=arb(2) ** -800).real


def normal_share(i, z):
    def density(x):
        found = (-((x - z[i]) ** 2) / 2).exp() / acb(2 * arb.pi()).sqrt()
        for j, other in enumerate(z):
            if j != i:
                found *= (-(x - other) / acb(2).sqrt()).erfc() / 2
        return found

    return integral(density, -60, 40)


def laplace_share(i, z):
    total, ends = arb(0), sorted({float(v): v for v in z}.values(), key=float)
    for low, high in zip([arb(-120), *ends], [*ends, arb(120)], strict=True):

        def density(x, low=low):
            def part(j, passed):
                return passed(-(x - z[j])) if float(z[j]) <= float(low) else (x - z[j]).exp() / 2

            found = part(i, lambda u: u.exp() / 2)
            for j in range(len(z)):
                found *= part(j, lambda u: 1 - u.exp() / 2) if j != i else 1
            return found

        total += integral(density, low, high)
    return total


def exponential_share(i, z):
    """Permute and flip, as it is defined: try all in a random order, take each with probability exp(offset)."""
    total = arb(0)
    orders = list(permutations(range(len(z))))
    weights = [v.exp() for v in z]
    for order in orders:
        chance = arb(1)
        for j in order[: order.index(i)]:
            chance *= 1 - weights[j]
        total += chance * weights[i]
    return total / len(orders)


@pytest.mark.parametrize(
    ("law", "share"),
    [
        (lambda: normal_law(FLOATS), normal_share),
        (lambda: laplace_law(OFFSETS), laplace_share),
        (lambda: exponential_law(FLOATS), exponential_share),
    ],
    ids=["normal", "laplace", "exponential"],
)
def test_laws_equal_their_definition_to_twelve_digits(law, share):
    found = law()
    with ctx.workprec(160):
        z = [arb(o.numerator) / o.denominator for o in OFFSETS]
        for i, value in enumerate(found.tolist()):
            exact = share(i, z)
            assert abs(arb(value) / exact - 1) < 1e-12


@pytest.mark.parametrize("choices", [1, 2, 40, 700])
def test_laws_sum_to_one_and_treat_equals_alike(choices):
    rng = np.random.default_rng(choices)
    offsets = -rng.integers(0, 25, choices)
    offsets = (offsets - offsets.max()) / 4
    laws = [normal_law(offsets), exponential_law(offsets)]
    laws += [laplace_law([Fraction(float(o)) for o in offsets])] if choices < 100 else []
    for law in laws:
        assert law.sum() == pytest.approx(1.0, abs=1e-13)
        for value in set(offsets.tolist()):
            assert np.ptp(law[offsets == value]) == 0


def test_equal_scores_are_equally_likely_however_many():
    for law in (normal_law, exponential_law):
        assert law(np.zeros(4000)) == pytest.approx(np.full(4000, 1 / 4000), rel=1e-12)
        with pytest.raises(LawTooLarge):
            law(np.zeros(4001))
    with pytest.raises(LawTooLarge):
        laplace_law([Fraction(0)] * 4001)


def test_hopeless_choices_have_chance_zero():
    assert normal_law(np.array([0.0, -1e6]))[1] == 0
    assert exponential_law(np.array([0.0, -1e6]))[1] == 0
    assert laplace_law([Fraction(0), Fraction(-(10**6))])[1] == 0


SMALL = OpenHistogram.from_counts({"a": 9, "b": 7, "c": 7, "d": 3, "e": 2}, max_k=4)
CHOOSERS = {
    "gaussian": lambda stretch: GapGaussian(sigma=2.5 / stretch, choices=4),
    "laplace": lambda stretch: GapLaplace(epsilon=1.2 * stretch),
    "permute-and-flip": lambda stretch: GapPermuteAndFlip(epsilon=1.2 * stretch),
}


def scores(runs):
    return np.tile(Preference(max_k=4, target=3, weight=0.3).scores(SMALL.gaps(4)[None]), (runs, 1))


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("kind", CHOOSERS)
def test_draws_match_the_law_and_reject_wrong_scales(kind, adjacency):
    runs = 40_000
    drawn = CHOOSERS[kind](1.0).draw(scores(runs), adjacency, SeededSource(9))
    observed = np.bincount(drawn, minlength=4)

    def p_value(stretch):
        law = CHOOSERS[kind](stretch).law(scores(1), adjacency)[0]
        return chisquare(observed, law / law.sum() * runs).pvalue

    assert p_value(1.0) > 1e-3
    assert p_value(0.7) < 1e-6
    assert p_value(1.3) < 1e-6


def test_scales_are_those_of_the_spec():
    for kind in (GapLaplace, GapPermuteAndFlip):
        assert kind(epsilon=0.5).scale(ADD) == 2 / Fraction(0.5) * UNIT
        assert kind(epsilon=0.5).scale(REPLACE) == 4 / Fraction(0.5) * UNIT
        assert kind(epsilon=0.5).cost(ADD).uses[0].curve == Pure(epsilon=0.5)
    chooser = GapGaussian(sigma=50.0, choices=40)
    for adjacency, change in ((ADD, 1), (REPLACE, 2)):
        expected = min(2 * 8 * change**2 / 2500 + math.log(40) / 7, 8 * 40 * change**2 / 5000)
        assert chooser.cost(adjacency).rdp(8.0) == pytest.approx(expected)


@pytest.mark.parametrize("kind", CHOOSERS)
def test_they_serve_stable_top_k(kind):
    mechanism = StableTopK(preference=Preference(max_k=4), chooser=CHOOSERS[kind](1.0), test=STEEP, adjacency=ADD)
    law = mechanism.law(SMALL)
    assert math.fsum(law.values()) == pytest.approx(1.0, abs=1e-13)
    releases = [mechanism.release(SMALL, rng=SeededSource(seed)) for seed in range(40)]
    assert all(release.outcome in law for release in releases)
    assert len({release.k for release in releases}) > 1
    assert mechanism.describe()["choose"] == mechanism.chooser.name


def test_calibration_within_an_order_fills_its_allowance():
    for adjacency in Adjacency:
        for choices, order, rdp in ((40, 8.0, 0.05), (3, 2.0, 1.0), (500, 30.0, 0.4), (2, 1.5, 20.0)):
            chooser = GapGaussian.within(order=order, rdp=rdp, choices=choices, adjacency=adjacency)
            assert rdp * (1 - 1e-6) <= chooser.cost(adjacency).rdp(order) <= rdp
    for kind in (GapLaplace, GapPermuteAndFlip):
        assert 0.3 * (1 - 1e-6) <= kind.within(order=6.0, rdp=0.3).cost(ADD).rdp(6.0) <= 0.3


def test_a_price_for_another_number_of_choices_is_refused():
    mechanism = StableTopK(
        preference=Preference(max_k=4), chooser=GapGaussian(sigma=1.0, choices=3), test=STEEP, adjacency=ADD
    )
    for use in (mechanism.law, mechanism.release):
        with pytest.raises(ParameterError, match="choices"):
            use(SMALL)


def test_parameters_out_of_range_are_refused():
    for bad in (0.0, -1.0, math.nan, math.inf):
        for build in (lambda x: GapGaussian(sigma=x, choices=3), lambda x: GapLaplace(epsilon=x)):
            with pytest.raises(ParameterError):
                build(bad)
    with pytest.raises(ParameterError):
        GapGaussian(sigma=1.0, choices=0)
