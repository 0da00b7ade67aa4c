r"""The exhaustive checks of StableTopK with noisy maxima and with the Laplace test, and their negative controls."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from cutline.mechanisms.adaptive.choosers import Chooser, GapArgmax, GapExponential
from cutline.mechanisms.adaptive.gap_tests import GapTest, TableTest
from cutline.mechanisms.adaptive.laplace_test import LaplaceTest
from cutline.mechanisms.adaptive.noisy_choosers import GapGaussian, GapLaplace, GapPermuteAndFlip
from cutline.mechanisms.adaptive.preference import Preference
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.privacy import Adjacency, BitTable, Cost, Gaussian
from cutline.verify.check import Check, Subject
from cutline.verify.suites.mechanisms.shared import Relabelled, controls_of, holds

_MAX_K = 4
_PLAIN = Preference(max_k=_MAX_K)
_TARGET = Preference(max_k=_MAX_K, target=3, weight=0.7, clip=4)
_TABLE = TableTest(table=BitTable.stability(order=3.0, rdp=1.2, delta=0.02))
_LAPLACE = LaplaceTest(epsilon=1.5, delta=0.02)
_CHOOSERS: dict[str, Chooser] = {
    "rnm-gaussian": GapGaussian(sigma=2.0, choices=_MAX_K),
    "rnm-laplace": GapLaplace(epsilon=1.5),
    "permute-and-flip": GapPermuteAndFlip(epsilon=1.5),
}
# A claim at many orders is hardest where little else is spent: a test that hardly ever passes.
_SHUT = TableTest(table=BitTable(values=(1e-6,)))


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
    """Return all checks of noisy choices and of the Laplace test."""
    found = []
    for adjacency in Adjacency:
        for name, chooser in _CHOOSERS.items():
            found.append(_holds(f"{name}, table", _of(_PLAIN, chooser, _TABLE, adjacency), "open 3 x 6"))
            found.append(_holds(f"{name}, shut", _of(_PLAIN, chooser, _SHUT, adjacency), "closed 3 x 4"))
            found.append(_holds(f"{name}, laplace, target", _of(_TARGET, chooser, _LAPLACE, adjacency), "open 3 x 4"))
        em, argmax = GapExponential(epsilon=1.0), GapArgmax()
        for size in ("open 4 x 6", "closed 3 x 6"):
            found.append(_holds("em, laplace", _of(_PLAIN, em, _LAPLACE, adjacency), size))
            found.append(_holds("argmax, laplace", _of(_PLAIN, argmax, _LAPLACE, adjacency), size))
        gentle = LaplaceTest(epsilon=0.6, delta=1e-3)
        found.append(_holds("em, laplace", _of(_PLAIN, em, gentle, adjacency), "open 2 x 24"))
        found.append(_holds("argmax, laplace", _of(_PLAIN, argmax, gentle, adjacency), "open 2 x 24"))
    return found + controls()


def controls() -> list[Check]:
    """Return the negative controls, each at parameters under which it must fail."""
    adds, replaces = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    laplace = _of(_PLAIN, _CHOOSERS["rnm-laplace"], _SHUT, adds)
    test = _of(_PLAIN, GapExponential(epsilon=0.5), _LAPLACE, adds)
    argmax = _of(_PLAIN, GapArgmax(), _LAPLACE, adds)
    wrong: dict[str, Subject] = {
        "permute-and-flip at scale 1/eps": _of(_PLAIN, HalfScale(epsilon=1.5), _SHUT, adds),
        "rnm-gaussian charged as one gap": _of(_PLAIN, ChargedAsOne(sigma=2.0, choices=_MAX_K), _SHUT, adds),
        "rnm-laplace, add-remove constants under replace": Relabelled(mechanism=laplace, adjacency=replaces),
        "laplace test, add-remove constants under replace": Relabelled(mechanism=test, adjacency=replaces),
        "argmax, laplace test, add-remove constants under replace": Relabelled(mechanism=argmax, adjacency=replaces),
    }
    return controls_of(StableTopK.name, wrong, "open 3 x 6", max_k=_MAX_K)


def _of(preference: Preference, chooser: Chooser, test: GapTest, adjacency: Adjacency) -> StableTopK:
    return StableTopK(preference=preference, chooser=chooser, test=test, adjacency=adjacency)


def _holds(what: str, mechanism: StableTopK, size: str) -> Check:
    return holds(what, mechanism, size, max_k=_MAX_K)
