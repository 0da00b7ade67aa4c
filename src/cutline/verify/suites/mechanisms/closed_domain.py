r"""The exhaustive checks of the four selections from a closed domain, and their negative controls.

PeelingEM and PermuteAndFlip draw their k candidates in rounds; JointEM and SubsetEM draw them at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from cutline.mechanisms.closed.joint import JointEM
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.closed.permute_and_flip import PermuteAndFlip
from cutline.mechanisms.closed.subset import SubsetEM
from cutline.privacy import Adjacency
from cutline.verify.check import Check, Subject
from cutline.verify.suites.shared import Charged, UnderReplace, controls, holds

Selection: TypeAlias = type[PeelingEM | PermuteAndFlip | JointEM | SubsetEM]
Cases: TypeAlias = Mapping[str, tuple[tuple[int, float], ...]]  # by universe: k and epsilon

# Rounds can draw every candidate; a draw of all at once leaves at least one out.
_IN_ROUNDS: Cases = {
    "closed 4 x 6": ((1, 1.0), (2, 0.8), (3, 0.5)),
    "closed 3 x 6": ((2, 2.0), (3, 0.7)),
    "closed 2 x 24": ((1, 0.3), (2, 1.5)),
}
_AT_ONCE: Cases = {
    "closed 4 x 6": ((1, 1.0), (2, 0.8), (3, 2.0)),
    "closed 3 x 6": ((1, 0.5), (2, 1.5)),
    "closed 2 x 24": ((1, 0.3),),
}


def peeling_em() -> list[Check]:
    """Return all checks of PeelingEM."""
    one, two = (PeelingEM(k=k, epsilon=1.0, adjacency=Adjacency.ADD_REMOVE) for k in (1, 2))
    wrong: dict[str, Subject] = {
        "peeling, add-remove constants under replace": UnderReplace(subject=two),
        "peeling, k rounds charged as one": Charged(subject=two, charge=one.cost),
    }
    return _checks(PeelingEM, _IN_ROUNDS, wrong)


def permute_and_flip() -> list[Check]:
    """Return all checks of PermuteAndFlip; the price of the exponential mechanism is too low for it."""
    one = PermuteAndFlip(k=1, epsilon=1.0, adjacency=Adjacency.ADD_REMOVE)
    two = PermuteAndFlip(k=2, epsilon=1.0, adjacency=Adjacency.REPLACE)
    one_peel, two_peels = (PeelingEM(k=each.k, epsilon=1.0, adjacency=each.adjacency) for each in (one, two))
    wrong: dict[str, Subject] = {
        "permute-and-flip, add-remove constants under replace": UnderReplace(subject=one),
        "permute-and-flip, charged as bounded range, one round": Charged(subject=one, charge=one_peel.cost),
        "permute-and-flip, charged as bounded range, two rounds": Charged(subject=two, charge=two_peels.cost),
    }
    return _checks(PermuteAndFlip, _IN_ROUNDS, wrong)


def joint_em() -> list[Check]:
    """Return all checks of JointEM."""
    return _drawn_at_once(JointEM, "joint EM")


def subset_em() -> list[Check]:
    """Return all checks of SubsetEM."""
    return _drawn_at_once(SubsetEM, "subset EM")


def _drawn_at_once(kind: type[JointEM | SubsetEM], called: str) -> list[Check]:
    right = kind(k=2, epsilon=1.0, adjacency=Adjacency.ADD_REMOVE)
    replaces = replace(right, adjacency=Adjacency.REPLACE)
    # Weights exp(epsilon u), as if one person moved all utilities in one direction, at the price of epsilon.
    one_way, one_way_replaces = (
        Charged(subject=replace(each, epsilon=each.adjacency.gap_range * each.epsilon), charge=each.cost)
        for each in (right, replaces)
    )
    wrong: dict[str, Subject] = {
        f"{called}, weights exp(eps u)": one_way,
        f"{called}, weights exp(eps u) under replace": one_way_replaces,
        f"{called}, add-remove constants under replace": UnderReplace(subject=right),
    }
    return _checks(kind, _AT_ONCE, wrong)


def _checks(kind: Selection, cases: Cases, wrong: Mapping[str, Subject]) -> list[Check]:
    return [
        holds(f"k={k}, epsilon={epsilon}", kind(k=k, epsilon=epsilon, adjacency=adjacency), size, max_k=k)
        for adjacency in Adjacency
        for size, parameters in cases.items()
        for k, epsilon in parameters
    ] + controls(kind.name, "closed 4 x 6", 2, wrong)
