r"""The exhaustive checks of StableTopK: both relations, domains, choosers and tests, and its negative controls."""

from __future__ import annotations

from cutline.mechanisms.adaptive.choosers import Chooser, GapArgmax, GapExponential
from cutline.mechanisms.adaptive.gap_tests import GapTest, GaussianTest, TableTest
from cutline.mechanisms.adaptive.preference import Preference
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.privacy import Adjacency, BitTable
from cutline.verify.check import Check, Subject
from cutline.verify.suites.mechanisms.shared import Relabelled, controls_of, holds
from cutline.verify.suites.mechanisms.stable_top_k_controls import (
    CarelessArgmax,
    CutToSeen,
    HalfNoise,
    RoundedTable,
    TestAtZero,
)

# Counts up to 6 hold distances up to 5: steep tables that saturate there. Two items go up to 24, for gentler ones.
_STEEP = TableTest(table=BitTable.stability(order=3.0, rdp=1.2, delta=0.02))
_GENTLE = TableTest(table=BitTable.stability(order=6.0, rdp=0.2, delta=1e-3))
_EM = GapExponential(epsilon=1.0)
_ARGMAX = GapArgmax()
_MAX_K = 5

_TESTS: dict[str, GapTest] = {
    "table": _STEEP,
    "gaussian": GaussianTest.exact(sigma=1.3, delta=0.03),
    "paper": GaussianTest.paper(sigma=1.1, delta=0.05),
}
_WIDE_TESTS: dict[str, GapTest] = {
    "table": _GENTLE,
    "gaussian": GaussianTest.exact(sigma=5.0, delta=1e-3),
    "paper": GaussianTest.paper(sigma=4.0, delta=0.01),
}
_PREFERENCES: dict[str, Preference] = {
    "": Preference(max_k=_MAX_K),
    " window 2..3": Preference(max_k=3, min_k=2),
    " target 3 clip 4": Preference(max_k=_MAX_K, target=3, weight=0.7, clip=4),
}


def checks() -> list[Check]:
    """Return all checks of StableTopK."""
    return [*stable_top_k(), *controls()]


def stable_top_k() -> list[Check]:
    """Return the checks of StableTopK: both relations, domains, choosers and tests."""
    found = []
    for adjacency in Adjacency:
        for label, preference in _PREFERENCES.items():
            for test, gap_test in _TESTS.items():
                if label and test != "table":
                    continue  # a preference acts before the test and is the same for all of them
                found.append(_holds(f"em, {test}{label}", preference, _EM, gap_test, adjacency, "open 4 x 6"))
            found.append(_holds(f"argmax, table{label}", preference, _ARGMAX, _STEEP, adjacency, "open 4 x 6"))
        plain = _PREFERENCES[""]
        for items in (1, 2, 3, 4):
            found.append(_holds("em, table", plain, _EM, _STEEP, adjacency, f"closed {items} x 6"))
            found.append(_holds("argmax, table", plain, _ARGMAX, _STEEP, adjacency, f"closed {items} x 6"))
        for test, gap_test in _WIDE_TESTS.items():
            found.append(_holds(f"em, {test}", plain, _EM, gap_test, adjacency, "open 2 x 24"))
        found.append(_holds("argmax, table", plain, _ARGMAX, _GENTLE, adjacency, "open 2 x 24"))
        only = Preference(max_k=2, min_k=2)
        found.append(_holds("fixed k, table", only, _ARGMAX, _STEEP, adjacency, "open 4 x 6"))
    return found


def controls() -> list[Check]:
    """Return the negative controls, each at parameters under which it must fail."""
    plain, adds, replaces = Preference(max_k=_MAX_K), Adjacency.ADD_REMOVE, Adjacency.REPLACE
    right = _of(plain, _EM, _STEEP, adds)
    argmax = _of(plain, _ARGMAX, _STEEP, adds)
    gaussian = _of(plain, _EM, _TESTS["gaussian"], adds)
    wrong: dict[str, Subject] = {
        "gap-EM at scale 1/eps": _of(plain, HalfNoise(epsilon=3.0), _STEEP, adds),
        "test at q > 0": _of(plain, _EM, TestAtZero(table=_STEEP.table), adds),
        "test at q > 1 under replace": _of(plain, _EM, TestAtZero(table=_STEEP.table), replaces),
        "add-remove constants under replace, table": Relabelled(mechanism=right, adjacency=replaces),
        "add-remove constants under replace, gaussian": Relabelled(mechanism=gaussian, adjacency=replaces),
        "add-remove constants under replace, argmax": Relabelled(mechanism=argmax, adjacency=replaces),
        "k cut to the seen items": CutToSeen(preference=plain, chooser=_EM, test=_STEEP, adjacency=adds),
        "table rounded to 1": _of(plain, _EM, RoundedTable(table=_STEEP.table), adds),
        "argmax without its margin": _of(plain, CarelessArgmax(), _STEEP, adds),
    }
    return controls_of(StableTopK.name, wrong, "open 4 x 6", max_k=_MAX_K)


def _of(preference: Preference, chooser: Chooser, test: GapTest, adjacency: Adjacency) -> StableTopK:
    return StableTopK(preference=preference, chooser=chooser, test=test, adjacency=adjacency)


def _holds(
    what: str, preference: Preference, chooser: Chooser, test: GapTest, adjacency: Adjacency, size: str
) -> Check:
    return holds(what, _of(preference, chooser, test, adjacency), size, max_k=_MAX_K)
