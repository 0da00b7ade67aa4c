r"""The exhaustive checks of the four selections from a closed domain, and their negative controls.

PeelingEM and PermuteAndFlip draw their k candidates in rounds; JointEM and SubsetEM draw them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from cutline.mechanisms.base import Mechanism
from cutline.mechanisms.closed.joint import JointEM
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.closed.permute_and_flip import PermuteAndFlip
from cutline.mechanisms.closed.subset import SubsetEM
from cutline.privacy import Adjacency
from cutline.release import Law
from cutline.verify.check import Check, Subject
from cutline.verify.suites.shared import Altered, Charged, Relabelled, controls_of, holds

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


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfNoise(Altered):
    """Weights ``exp(epsilon * u)``, as if one person moved all utilities in one direction, at the price of epsilon."""

    subject: JointEM | SubsetEM

    def law(self, data: Any, /) -> Law:
        return replace(self.subject, epsilon=self.subject.adjacency.gap_range * self.subject.epsilon).law(data)


def peeling_em() -> list[Check]:
    """Return all checks of PeelingEM."""
    one, two = (PeelingEM(k=k, epsilon=1.0, adjacency=Adjacency.ADD_REMOVE) for k in (1, 2))
    wrong: dict[str, Subject] = {
        "peeling, add-remove constants under replace": Relabelled(subject=two, adjacency=Adjacency.REPLACE),
        "peeling, k rounds charged as one": Charged(subject=two, charge=one.cost),
    }
    return _selections(PeelingEM, _IN_ROUNDS) + _controls(PeelingEM.name, wrong)


def permute_and_flip() -> list[Check]:
    """Return all checks of PermuteAndFlip; the price of the exponential mechanism is too low for it."""
    adds, replaces = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    one = PermuteAndFlip(k=1, epsilon=1.0, adjacency=adds)
    two = PermuteAndFlip(k=2, epsilon=1.0, adjacency=replaces)
    wrong: dict[str, Subject] = {
        "permute-and-flip, add-remove constants under replace": Relabelled(subject=one, adjacency=replaces),
        "permute-and-flip, charged as bounded range, one round": Charged(
            subject=one, charge=PeelingEM(k=1, epsilon=1.0, adjacency=adds).cost
        ),
        "permute-and-flip, charged as bounded range, two rounds": Charged(
            subject=two, charge=PeelingEM(k=2, epsilon=1.0, adjacency=replaces).cost
        ),
    }
    return _selections(PermuteAndFlip, _IN_ROUNDS) + _controls(PermuteAndFlip.name, wrong)


def joint_em() -> list[Check]:
    """Return all checks of JointEM."""
    return _drawn_at_once(JointEM, "joint EM")


def subset_em() -> list[Check]:
    """Return all checks of SubsetEM."""
    return _drawn_at_once(SubsetEM, "subset EM")


def _drawn_at_once(kind: type[JointEM | SubsetEM], called: str) -> list[Check]:
    """Return all checks of a mechanism that draws its k candidates at once."""
    two, replaces = kind(k=2, epsilon=1.0, adjacency=Adjacency.ADD_REMOVE), Adjacency.REPLACE
    wrong: dict[str, Subject] = {
        f"{called}, weights exp(eps u)": HalfNoise(subject=two),
        f"{called}, weights exp(eps u) under replace": HalfNoise(subject=replace(two, adjacency=replaces)),
        f"{called}, add-remove constants under replace": Relabelled(subject=two, adjacency=replaces),
    }
    return _selections(kind, _AT_ONCE) + _controls(kind.name, wrong)


def _selections(kind: Callable[..., Mechanism], cases: Cases) -> list[Check]:
    """Return the checks that a selection of k candidates keeps its claim."""
    return [
        holds(f"k={k}, epsilon={epsilon}", kind(k=k, epsilon=epsilon, adjacency=adjacency), size, max_k=k)
        for adjacency in Adjacency
        for size, parameters in cases.items()
        for k, epsilon in parameters
    ]


def _controls(name: str, wrong: Mapping[str, Subject]) -> list[Check]:
    return controls_of(name, wrong, "closed 4 x 6", max_k=2)
