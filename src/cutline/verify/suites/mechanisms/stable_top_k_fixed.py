r"""The exhaustive checks of fixed k by way of a stable set near it, and their negative controls."""

from __future__ import annotations

from cutline.mechanisms.adaptive.choosers import GapExponential
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.mechanisms.adaptive.preference import Preference
from cutline.mechanisms.fixed.stable_fixed import StableTopKFixed
from cutline.privacy import Adjacency
from cutline.verify.check import Check, Subject
from cutline.verify.suites.mechanisms.stable_top_k import STEEP, AtZeroTest, HalfNoise
from cutline.verify.suites.shared import Relabelled, controls_of, holds

_EM = GapExponential(epsilon=1.0)

# k, max_k, weight of the preference, epsilon and delta of the fallback, universe.
_CASES: tuple[tuple[int, int, float, float, float, str], ...] = (
    (1, 3, 0.5, 1.5, 0.3, "open 4 x 6"),  # picks one of two or three
    (2, 3, 0.0, 1.5, 0.3, "open 4 x 6"),  # fills up, or drops one
    (3, 5, 0.3, 1.0, 0.2, "open 4 x 6"),
    (2, 4, 1.0, 0.7, 0.1, "open 2 x 12"),
    (1, 4, 0.5, 1.0, 0.1, "closed 4 x 6"),
    (2, 4, 0.5, 1.0, 0.1, "closed 4 x 6"),
    (3, 5, 0.2, 1.0, 0.1, "closed 4 x 6"),
    (3, 5, 0.0, 1.0, 0.1, "closed 3 x 6"),  # as many as there are
)


def checks() -> list[Check]:
    """Return all checks of fixed k by way of a stable set."""
    return [
        holds(f"k = {k} of {max_k}", _of(k, max_k, weight, epsilon, delta, adjacency), size, max_k=max_k)
        for adjacency in Adjacency
        for k, max_k, weight, epsilon, delta, size in _CASES
    ] + controls()


def controls() -> list[Check]:
    """Return the negative controls, each at parameters under which it must fail."""
    adds = Adjacency.ADD_REMOVE
    sizes = (2, 3, 0.5, 1.0, 0.05)
    wrong: dict[str, Subject] = {
        "gap-EM at scale 1/eps, fixed k": _of(*sizes, adds, chooser=HalfNoise(epsilon=4.0)),
        "test at q > 0, fixed k": _of(2, 3, 5.0, 1.0, 0.001, adds, test=AtZeroTest(table=STEEP.table)),
        "add-remove constants under replace, fixed k": Relabelled(
            subject=_of(*sizes, adds), adjacency=Adjacency.REPLACE
        ),
    }
    return controls_of(StableTopKFixed.name, wrong, "open 3 x 6", max_k=3)


def _of(
    k: int,
    max_k: int,
    weight: float,
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    *,
    chooser: GapExponential = _EM,
    test: TableTest = STEEP,
) -> StableTopKFixed:
    return StableTopKFixed(
        preference=Preference(max_k=max_k, target=k, weight=weight),
        chooser=chooser,
        test=test,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
    )
