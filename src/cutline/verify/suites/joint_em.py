r"""The exhaustive checks of JointEM, and its negative controls."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cutline.mechanisms.joint_em import JointEM
from cutline.privacy import Adjacency, Cost
from cutline.verify.check import Check, Subject
from cutline.verify.suites.shared import Relabelled, universe

_SIZES = {
    "closed 4 x 6": ((1, 1.0), (2, 0.8), (3, 2.0)),
    "closed 3 x 6": ((1, 0.5), (2, 1.5)),
    "closed 2 x 24": ((1, 0.3),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfNoise:
    """Weights ``exp(epsilon * u)``, as if one person moved all utilities in one direction, at the price of epsilon."""

    mechanism: JointEM

    @property
    def cost(self) -> Cost:
        return self.mechanism.cost

    def law(self, data: Any, /) -> Mapping[Hashable, float]:
        return replace(self.mechanism, epsilon=self.mechanism.adjacency.gap_range * self.mechanism.epsilon).law(data)


def checks() -> list[Check]:
    """Return all checks of JointEM."""
    found = [
        Check(
            name=f"{JointEM.name}: k={k}, epsilon={epsilon}; {adjacency}; {size}",
            mechanism=JointEM.name,
            expected="holds",
            subject=JointEM(k=k, epsilon=epsilon, adjacency=adjacency),
            universe=universe(size, adjacency, max_k=k),
        )
        for adjacency in Adjacency
        for size, cases in _SIZES.items()
        for k, epsilon in cases
    ]
    adds, replaces = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    two = JointEM(k=2, epsilon=1.0, adjacency=adds)
    wrong: dict[str, tuple[Subject, Adjacency]] = {
        "weights exp(eps u)": (HalfNoise(mechanism=two), adds),
        "weights exp(eps u) under replace": (HalfNoise(mechanism=replace(two, adjacency=replaces)), replaces),
        "add-remove constants under replace": (Relabelled(mechanism=two, adjacency=replaces), replaces),
    }
    return found + [
        Check(
            name=f"control: joint EM, {name}",
            mechanism=JointEM.name,
            expected="fails",
            subject=subject,
            universe=universe("closed 4 x 6", adjacency, max_k=2),
        )
        for name, (subject, adjacency) in wrong.items()
    ]
