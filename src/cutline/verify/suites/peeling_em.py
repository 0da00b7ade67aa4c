r"""The exhaustive checks of PeelingEM, and its negative controls."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from cutline.mechanisms.peeling_em import PeelingEM
from cutline.privacy import Adjacency, BoundedRange, Cost
from cutline.verify.check import Check, Subject
from cutline.verify.suites.shared import Relabelled, universe

_SIZES = {
    "closed 4 x 6": ((1, 1.0), (2, 0.8), (3, 0.5)),
    "closed 3 x 6": ((2, 2.0), (3, 0.7)),
    "closed 2 x 24": ((1, 0.3), (2, 1.5)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedOnce:
    """k rounds that pay for one."""

    mechanism: PeelingEM

    @property
    def cost(self) -> Cost:
        return Cost.of(BoundedRange(epsilon=self.mechanism.epsilon), adjacency=self.mechanism.adjacency)

    def law(self, data: Any, /) -> Mapping[Hashable, float]:
        return self.mechanism.law(data)


def checks() -> list[Check]:
    """Return all checks of PeelingEM."""
    found = [
        Check(
            name=f"{PeelingEM.name}: k={k}, epsilon={epsilon}; {adjacency}; {size}",
            mechanism=PeelingEM.name,
            expected="holds",
            subject=PeelingEM(k=k, epsilon=epsilon, adjacency=adjacency),
            universe=universe(size, adjacency, max_k=k),
        )
        for adjacency in Adjacency
        for size, cases in _SIZES.items()
        for k, epsilon in cases
    ]
    adds, replaces = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    two = PeelingEM(k=2, epsilon=1.0, adjacency=adds)
    wrong: dict[str, tuple[Subject, Adjacency]] = {
        "add-remove constants under replace": (Relabelled(mechanism=two, adjacency=replaces), replaces),
        "k rounds charged as one": (ChargedOnce(mechanism=two), adds),
    }
    return found + [
        Check(
            name=f"control: peeling, {name}",
            mechanism=PeelingEM.name,
            expected="fails",
            subject=subject,
            universe=universe("closed 4 x 6", adjacency, max_k=2),
        )
        for name, (subject, adjacency) in wrong.items()
    ]
