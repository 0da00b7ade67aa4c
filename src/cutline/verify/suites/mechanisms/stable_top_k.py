r"""The exhaustive checks of StableTopK: both relations and domains, every chooser and test, and negative controls.

The classes are mechanisms that are wrong on purpose, or parts of them. The checker must fail every one: a checker that cannot
fail proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.histogram import Histogram, OpenHistogram
from cutline.mechanisms.adaptive.choosers import (
    Chooser,
    GapArgmax,
    GapExponential,
    GapGaussian,
    GapLaplace,
    GapPermuteAndFlip,
)
from cutline.mechanisms.adaptive.gap_tests import GapTest, GaussianTest, LaplaceTest, TableTest
from cutline.mechanisms.adaptive.preference import UNIT, Preference
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.privacy import Adjacency, BitTable, Cost, Gaussian
from cutline.release import Law
from cutline.verify.check import Check, Subject
from cutline.verify.suites.shared import Relabelled, controls_of, holds

# Counts up to 6 hold distances up to 5: steep tables that saturate there. Two items go up to 24, for gentler ones.
STEEP = TableTest(table=BitTable.stability(order=3.0, rdp=1.2, delta=0.02))
GENTLE = TableTest(table=BitTable.stability(order=6.0, rdp=0.2, delta=1e-3))
# A claim at many orders is hardest where little else is spent: a test that hardly ever passes.
_SHUT = TableTest(table=BitTable(values=(1e-6,)))
_LAPLACE = LaplaceTest(epsilon=1.5, delta=0.02)
_EM = GapExponential(epsilon=1.0)
_ARGMAX = GapArgmax()
_MAX_K = 5
_NOISY_MAX_K = 4  # noisy choosers integrate a law over every rank

_TESTS: dict[str, GapTest] = {
    "table": STEEP,
    "gaussian": GaussianTest.exact(sigma=1.3, delta=0.03),
    "paper": GaussianTest.paper(sigma=1.1, delta=0.05),
}
_WIDE_TESTS: dict[str, GapTest] = {
    "table": GENTLE,
    "gaussian": GaussianTest.exact(sigma=5.0, delta=1e-3),
    "paper": GaussianTest.paper(sigma=4.0, delta=0.01),
}
_PREFERENCES: dict[str, Preference] = {
    "": Preference(max_k=_MAX_K),
    " window 2..3": Preference(max_k=3, min_k=2),
    " target 3 clip 4": Preference(max_k=_MAX_K, target=3, weight=0.7, clip=4),
}
_NOISY_CHOOSERS: dict[str, Chooser] = {
    "rnm-gaussian": GapGaussian(sigma=2.0, choices=_NOISY_MAX_K),
    "rnm-laplace": GapLaplace(epsilon=1.5),
    "permute-and-flip": GapPermuteAndFlip(epsilon=1.5),
}
_NOISY_PLAIN = Preference(max_k=_NOISY_MAX_K)
_NOISY_TARGET = Preference(max_k=_NOISY_MAX_K, target=3, weight=0.7, clip=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfNoise(GapExponential):
    """Draws k with Gumbel scale 1/epsilon, as if one person moved all gaps together, and charges epsilon."""

    def law(self, scores: IntArray, adjacency: Adjacency) -> FloatArray:
        return GapExponential(epsilon=2 * self.epsilon).law(scores, adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtZeroTest(TableTest):
    """Takes a gap of 1 for a distance of 1, although one person can already change the set there."""

    def chances(self, gaps: IntArray, slack: IntArray, adjacency: Adjacency) -> tuple[FloatArray, FloatArray]:
        yes = self.table(np.minimum(adjacency.distance(gaps + 1), slack))
        return yes, 1 - yes


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedTable(TableTest):
    """Rounds the upper end of its table to exactly 1, and charges the table it was built from."""

    def chances(self, gaps: IntArray, slack: IntArray, adjacency: Adjacency) -> tuple[FloatArray, FloatArray]:
        values = np.asarray(self.table.values)
        rounded = BitTable(values=tuple(np.where(values > 0.99, 1.0, values).tolist()))
        yes = rounded(np.minimum(adjacency.distance(gaps), slack))
        return yes, 1 - yes


@dataclass(frozen=True, slots=True, kw_only=True)
class CarelessArgmax(GapArgmax):
    """Halves the margin but forgets that two gaps can move towards each other."""

    def slack(self, scores: IntArray, adjacency: Adjacency) -> IntArray:
        two = np.partition(scores, -2, axis=-1)[..., -2:]
        return adjacency.margin_distance(two[..., 1] - two[..., 0] + adjacency.gap_range * UNIT, unit=UNIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutToSeen(StableTopK):
    """Chooses k among as many ranks as items were seen, which tells how many there were."""

    def law(self, histogram: Histogram) -> Law:
        assert isinstance(histogram, OpenHistogram)  # noqa: S101
        seen = max(1, min(len(histogram.items), self.max_k))
        # The parent's law on a shorter window; super() does not see through slots.
        return StableTopK.law(replace(self, preference=replace(self.preference, max_k=seen)), histogram)


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfScale(GapPermuteAndFlip):
    """Adds noise of scale 1/epsilon, as if one person moved all gaps together, and charges epsilon."""

    def scale(self, adjacency: Adjacency) -> Fraction:
        return GapPermuteAndFlip(epsilon=2 * self.epsilon).scale(adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedAsOne(GapGaussian):
    """Charges a noisy maximum like one noisy gap, which is what an epsilon of 3.66 for the paper's EXP3 needs."""

    def cost(self, adjacency: Adjacency) -> Cost:
        return Cost.of(Gaussian(sigma=self.sigma), adjacency=adjacency)


def checks() -> list[Check]:
    """Return all checks of StableTopK: with its own choosers and tests, then with noisy maxima and the Laplace test."""
    return [*_plain_choices(), *_plain_controls(), *_noisy_choices(), *_noisy_controls()]


def _plain_choices() -> list[Check]:
    """Return what must hold with the exponential mechanism or argmax, and a table or a Gaussian test."""
    found = []
    for adjacency in Adjacency:
        for label, preference in _PREFERENCES.items():
            for test, gap_test in _TESTS.items():
                if label and test != "table":
                    continue  # a preference acts before the test and is the same for all of them
                found.append(_holds(f"em, {test}{label}", preference, _EM, gap_test, adjacency, "open 4 x 6"))
            found.append(_holds(f"argmax, table{label}", preference, _ARGMAX, STEEP, adjacency, "open 4 x 6"))
        plain = _PREFERENCES[""]
        for items in (1, 2, 3, 4):
            found.append(_holds("em, table", plain, _EM, STEEP, adjacency, f"closed {items} x 6"))
            found.append(_holds("argmax, table", plain, _ARGMAX, STEEP, adjacency, f"closed {items} x 6"))
        for test, gap_test in _WIDE_TESTS.items():
            found.append(_holds(f"em, {test}", plain, _EM, gap_test, adjacency, "open 2 x 24"))
        found.append(_holds("argmax, table", plain, _ARGMAX, GENTLE, adjacency, "open 2 x 24"))
        only = Preference(max_k=2, min_k=2)
        found.append(_holds("fixed k, table", only, _ARGMAX, STEEP, adjacency, "open 4 x 6"))
    return found


def _plain_controls() -> list[Check]:
    """Return the negative controls, each at parameters under which it must fail."""
    plain, adds, replaces = _PREFERENCES[""], Adjacency.ADD_REMOVE, Adjacency.REPLACE
    right = _of(plain, _EM, STEEP, adds)
    argmax = _of(plain, _ARGMAX, STEEP, adds)
    gaussian = _of(plain, _EM, _TESTS["gaussian"], adds)
    wrong: dict[str, Subject] = {
        "gap-EM at scale 1/eps": _of(plain, HalfNoise(epsilon=3.0), STEEP, adds),
        "test at q > 0": _of(plain, _EM, AtZeroTest(table=STEEP.table), adds),
        "test at q > 1 under replace": _of(plain, _EM, AtZeroTest(table=STEEP.table), replaces),
        "add-remove constants under replace, table": Relabelled(subject=right, adjacency=replaces),
        "add-remove constants under replace, gaussian": Relabelled(subject=gaussian, adjacency=replaces),
        "add-remove constants under replace, argmax": Relabelled(subject=argmax, adjacency=replaces),
        "k cut to the seen items": CutToSeen(preference=plain, chooser=_EM, test=STEEP, adjacency=adds),
        "table rounded to 1": _of(plain, _EM, RoundedTable(table=STEEP.table), adds),
        "argmax without its margin": _of(plain, CarelessArgmax(), STEEP, adds),
    }
    return controls_of(StableTopK.name, wrong, "open 4 x 6", max_k=_MAX_K)


def _noisy_choices() -> list[Check]:
    """Return what must hold where k is a noisy maximum, or where Laplace noise tests the gap."""
    found = []
    plain = _NOISY_PLAIN
    for adjacency in Adjacency:
        for name, chooser in _NOISY_CHOOSERS.items():
            found.append(_holds(f"{name}, table", plain, chooser, STEEP, adjacency, "open 3 x 6"))
            found.append(_holds(f"{name}, shut", plain, chooser, _SHUT, adjacency, "closed 3 x 4"))
            target = _holds(f"{name}, laplace, target", _NOISY_TARGET, chooser, _LAPLACE, adjacency, "open 3 x 4")
            found.append(target)
        for size in ("open 4 x 6", "closed 3 x 6"):
            found.append(_holds("em, laplace", plain, _EM, _LAPLACE, adjacency, size))
            found.append(_holds("argmax, laplace", plain, _ARGMAX, _LAPLACE, adjacency, size))
        gentle = LaplaceTest(epsilon=0.6, delta=1e-3)
        found.append(_holds("em, laplace", plain, _EM, gentle, adjacency, "open 2 x 24"))
        found.append(_holds("argmax, laplace", plain, _ARGMAX, gentle, adjacency, "open 2 x 24"))
    return found


def _noisy_controls() -> list[Check]:
    """Return the negative controls of noisy choices and of the Laplace test, each at parameters under which it must fail."""
    plain, adds, replaces = _NOISY_PLAIN, Adjacency.ADD_REMOVE, Adjacency.REPLACE
    laplace = _of(plain, _NOISY_CHOOSERS["rnm-laplace"], _SHUT, adds)
    test = _of(plain, GapExponential(epsilon=0.5), _LAPLACE, adds)
    argmax = _of(plain, _ARGMAX, _LAPLACE, adds)
    wrong: dict[str, Subject] = {
        "permute-and-flip at scale 1/eps": _of(plain, HalfScale(epsilon=1.5), _SHUT, adds),
        "rnm-gaussian charged as one gap": _of(plain, ChargedAsOne(sigma=2.0, choices=_NOISY_MAX_K), _SHUT, adds),
        "rnm-laplace, add-remove constants under replace": Relabelled(subject=laplace, adjacency=replaces),
        "laplace test, add-remove constants under replace": Relabelled(subject=test, adjacency=replaces),
        "argmax, laplace test, add-remove constants under replace": Relabelled(subject=argmax, adjacency=replaces),
    }
    return controls_of(StableTopK.name, wrong, "open 3 x 6", max_k=_MAX_K)


def _of(preference: Preference, chooser: Chooser, test: GapTest, adjacency: Adjacency) -> StableTopK:
    return StableTopK(preference=preference, chooser=chooser, test=test, adjacency=adjacency)


def _holds(
    what: str, preference: Preference, chooser: Chooser, test: GapTest, adjacency: Adjacency, size: str
) -> Check:
    return holds(what, _of(preference, chooser, test, adjacency), size, max_k=_MAX_K)
