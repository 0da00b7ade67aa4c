r"""The exhaustive checks of StableTopK: both relations and domains, every chooser and test, and negative controls.

The classes are mechanisms that are wrong on purpose, or parts of them. The checker must fail every one: a checker that cannot
fail proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.histogram import Histogram
from cutline.mechanisms.adaptive import choosers
from cutline.mechanisms.adaptive.choosers import UNIT, Preference
from cutline.mechanisms.adaptive.gap_tests import GapTest, GaussianTest, LaplaceTest, TableTest
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.outcome import Law
from cutline.privacy import Adjacency, BitTable, Cost, Gaussian
from cutline.verify.check import Check, Subject
from cutline.verify.suites.shared import Altered, Charged, UnderReplace, controls, holds

Case: TypeAlias = tuple[str, Preference, choosers.Chooser, GapTest, str]  # the words for it, three parts, universe

# Counts up to 6 hold distances up to 5: steep tables that saturate there. Two items go up to 24, for gentler ones.
STEEP = TableTest(table=BitTable.stability(order=3.0, rdp=1.2, delta=0.02))
GENTLE = TableTest(table=BitTable.stability(order=6.0, rdp=0.2, delta=1e-3))
# A claim at many orders is hardest where little else is spent: a test that hardly ever passes.
_SHUT = TableTest(table=BitTable(values=(1e-6,)))
_LAPLACE, _GENTLE_LAPLACE = LaplaceTest(epsilon=1.5, delta=0.02), LaplaceTest(epsilon=0.6, delta=1e-3)
_GAUSSIAN = GaussianTest.exact(sigma=1.3, delta=0.03)
_EM, _ARGMAX = choosers.GapExponential(epsilon=1.0), choosers.GapArgmax()

_MAX_K = 5
_PLAIN = Preference(max_k=_MAX_K)
_WINDOW = Preference(max_k=3, min_k=2)
_TARGET = Preference(max_k=_MAX_K, target=3, weight=0.7, clip=4)
_FIXED = Preference(max_k=2, min_k=2)

# A preference acts before the test and is the same for all of them, so it is tried with the table alone.
_CASES: tuple[Case, ...] = (
    ("em, table", _PLAIN, _EM, STEEP, "open 4 x 6"),
    ("em, gaussian", _PLAIN, _EM, _GAUSSIAN, "open 4 x 6"),
    ("em, paper", _PLAIN, _EM, GaussianTest.paper(sigma=1.1, delta=0.05), "open 4 x 6"),
    ("argmax, table", _PLAIN, _ARGMAX, STEEP, "open 4 x 6"),
    ("em, table window 2..3", _WINDOW, _EM, STEEP, "open 4 x 6"),
    ("argmax, table window 2..3", _WINDOW, _ARGMAX, STEEP, "open 4 x 6"),
    ("em, table target 3 clip 4", _TARGET, _EM, STEEP, "open 4 x 6"),
    ("argmax, table target 3 clip 4", _TARGET, _ARGMAX, STEEP, "open 4 x 6"),
    *(
        (f"{words}, table", _PLAIN, chooser, STEEP, f"closed {items} x 6")
        for items in (1, 2, 3, 4)
        for words, chooser in (("em", _EM), ("argmax", _ARGMAX))
    ),
    ("em, table", _PLAIN, _EM, GENTLE, "open 2 x 24"),
    ("em, gaussian", _PLAIN, _EM, GaussianTest.exact(sigma=5.0, delta=1e-3), "open 2 x 24"),
    ("em, paper", _PLAIN, _EM, GaussianTest.paper(sigma=4.0, delta=0.01), "open 2 x 24"),
    ("argmax, table", _PLAIN, _ARGMAX, GENTLE, "open 2 x 24"),
    ("fixed k, table", _FIXED, _ARGMAX, STEEP, "open 4 x 6"),
)

# Choices of k by a noisy maximum, which integrate a law over every rank, and the test with Laplace noise.
_NOISY_MAX_K = 4
_NOISY_PLAIN = Preference(max_k=_NOISY_MAX_K)
_NOISY_TARGET = Preference(max_k=_NOISY_MAX_K, target=3, weight=0.7, clip=4)
_NOISY_CHOOSERS: dict[str, choosers.Chooser] = {
    "rnm-gaussian": choosers.GapGaussian(sigma=2.0, choices=_NOISY_MAX_K),
    "rnm-laplace": choosers.GapLaplace(epsilon=1.5),
    "permute-and-flip": choosers.GapPermuteAndFlip(epsilon=1.5),
}
_NOISY_CASES: tuple[Case, ...] = (
    *(
        (f"{words}, {called}", preference, chooser, test, size)
        for words, chooser in _NOISY_CHOOSERS.items()
        for called, preference, test, size in (
            ("table", _NOISY_PLAIN, STEEP, "open 3 x 6"),
            ("shut", _NOISY_PLAIN, _SHUT, "closed 3 x 4"),
            ("laplace, target", _NOISY_TARGET, _LAPLACE, "open 3 x 4"),
        )
    ),
    ("em, laplace", _NOISY_PLAIN, _EM, _LAPLACE, "open 4 x 6"),
    ("argmax, laplace", _NOISY_PLAIN, _ARGMAX, _LAPLACE, "open 4 x 6"),
    ("em, laplace", _NOISY_PLAIN, _EM, _LAPLACE, "closed 3 x 6"),
    ("argmax, laplace", _NOISY_PLAIN, _ARGMAX, _LAPLACE, "closed 3 x 6"),
    ("em, laplace", _NOISY_PLAIN, _EM, _GENTLE_LAPLACE, "open 2 x 24"),
    ("argmax, laplace", _NOISY_PLAIN, _ARGMAX, _GENTLE_LAPLACE, "open 2 x 24"),
)


def checks() -> list[Check]:
    """Return all checks of StableTopK: with its own choosers and tests, then with noisy maxima and the Laplace test."""
    return [
        *_hold(_CASES),
        *controls(StableTopK.name, "open 4 x 6", _MAX_K, _wrong()),
        *_hold(_NOISY_CASES),
        *controls(StableTopK.name, "open 3 x 6", _MAX_K, _wrong_noise()),
    ]


def _hold(cases: tuple[Case, ...]) -> list[Check]:
    return [
        holds(words, _of(preference, chooser, test, adjacency), size, max_k=_MAX_K)
        for adjacency in Adjacency
        for words, preference, chooser, test, size in cases
    ]


def _wrong() -> dict[str, Subject]:
    """Return what must fail, each at parameters under which it does."""
    right, careless = _of(_PLAIN, _EM, STEEP), AtZeroTest(table=STEEP.table)
    # Gumbel noise of half the scale, as if one person moved all gaps together, at the price of epsilon.
    claimed, halved = (replace(right, chooser=choosers.GapExponential(epsilon=epsilon)) for epsilon in (3.0, 6.0))
    values = np.asarray(STEEP.table.values)
    rounded = TableTest(table=BitTable(values=tuple(np.where(values > 0.99, 1.0, values).tolist())))
    return {
        "gap-EM at scale 1/eps": Charged(subject=halved, charge=claimed.cost),
        "test at q > 0": _of(_PLAIN, _EM, careless),
        "test at q > 1 under replace": _of(_PLAIN, _EM, careless, Adjacency.REPLACE),
        "add-remove constants under replace, table": UnderReplace(subject=right),
        "add-remove constants under replace, gaussian": UnderReplace(subject=_of(_PLAIN, _EM, _GAUSSIAN)),
        "add-remove constants under replace, argmax": UnderReplace(subject=_of(_PLAIN, _ARGMAX, STEEP)),
        "k cut to the seen items": CutToSeen(subject=right),
        "table rounded to 1": Charged(subject=_of(_PLAIN, _EM, rounded), charge=right.cost),
        "argmax without its margin": _of(_PLAIN, CarelessArgmax(), STEEP),
    }


def _wrong_noise() -> dict[str, Subject]:
    """Return what must fail of noisy choices and of the Laplace test, each at parameters under which it does."""
    gaussian, laplace, flip = (_of(_NOISY_PLAIN, chooser, _SHUT) for chooser in _NOISY_CHOOSERS.values())
    halved = replace(flip, chooser=choosers.GapPermuteAndFlip(epsilon=3.0))
    # One noisy gap would cost so little, which is what an epsilon of 3.66 for the paper's EXP3 needs.
    one_gap = Cost.of(Gaussian(sigma=2.0), adjacency=gaussian.adjacency) + _SHUT.cost(gaussian.adjacency)
    test = _of(_NOISY_PLAIN, choosers.GapExponential(epsilon=0.5), _LAPLACE)
    argmax = _of(_NOISY_PLAIN, _ARGMAX, _LAPLACE)
    return {
        "permute-and-flip at scale 1/eps": Charged(subject=halved, charge=flip.cost),
        "rnm-gaussian charged as one gap": Charged(subject=gaussian, charge=one_gap),
        "rnm-laplace, add-remove constants under replace": UnderReplace(subject=laplace),
        "laplace test, add-remove constants under replace": UnderReplace(subject=test),
        "argmax, laplace test, add-remove constants under replace": UnderReplace(subject=argmax),
    }


def _of(
    preference: Preference, chooser: choosers.Chooser, test: GapTest, adjacency: Adjacency = Adjacency.ADD_REMOVE
) -> StableTopK:
    return StableTopK(preference=preference, chooser=chooser, test=test, adjacency=adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtZeroTest(TableTest):
    """Takes a gap of 1 for a distance of 1, although one person can already change the set there."""

    def chances(self, gaps: IntArray, slack: IntArray, adjacency: Adjacency) -> tuple[FloatArray, FloatArray]:
        yes = self.table(np.minimum(adjacency.distance(gaps + 1), slack))
        return yes, 1 - yes


@dataclass(frozen=True, slots=True, kw_only=True)
class CarelessArgmax(choosers.GapArgmax):
    """Halves the margin but forgets that two gaps can move towards each other."""

    def slack(self, scores: IntArray, adjacency: Adjacency) -> IntArray:
        two = np.partition(scores, -2, axis=-1)[..., -2:]
        return adjacency.margin_distance(two[..., 1] - two[..., 0] + adjacency.gap_range * UNIT, unit=UNIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutToSeen(Altered):
    """Chooses k among as many ranks as items were seen, which tells how many there were."""

    subject: StableTopK

    def law(self, histogram: Histogram, /) -> Law:
        preference = self.subject.preference
        seen = max(1, min(len(histogram.items), preference.max_k))
        return replace(self.subject, preference=replace(preference, max_k=seen)).law(histogram)
