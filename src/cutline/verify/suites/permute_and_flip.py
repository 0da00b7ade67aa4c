r"""The exhaustive checks of PermuteAndFlip, and its negative controls."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from cutline.mechanisms.permute_and_flip import PermuteAndFlip
from cutline.privacy import Adjacency, BoundedRange, Cost
from cutline.verify.check import Check, Subject
from cutline.verify.suites.shared import Relabelled, universe

_SIZES = {
    "closed 4 x 6": ((1, 1.0), (2, 0.8), (3, 0.5)),
    "closed 3 x 6": ((2, 2.0), (3, 0.7)),
    "closed 2 x 24": ((1, 0.3), (2, 1.5)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedAsBoundedRange:
    """Permute-and-flip at the price of the exponential mechanism."""

    mechanism: PermuteAndFlip

    @property
    def cost(self) -> Cost:
        rounds, step = self.mechanism.k, BoundedRange(epsilon=self.mechanism.epsilon)
        return rounds * Cost.of(step, adjacency=self.mechanism.adjacency)

    def law(self, data: Any, /) -> Mapping[Hashable, float]:
        return self.mechanism.law(data)


def checks() -> list[Check]:
    """Return all checks of PermuteAndFlip."""
    found = [
        Check(
            name=f"{PermuteAndFlip.name}: k={k}, epsilon={epsilon}; {adjacency}; {size}",
            mechanism=PermuteAndFlip.name,
            expected="holds",
            subject=PermuteAndFlip(k=k, epsilon=epsilon, adjacency=adjacency),
            universe=universe(size, adjacency, max_k=k),
        )
        for adjacency in Adjacency
        for size, cases in _SIZES.items()
        for k, epsilon in cases
    ]
    adds, replaces = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    one = PermuteAndFlip(k=1, epsilon=1.0, adjacency=adds)
    two = PermuteAndFlip(k=2, epsilon=1.0, adjacency=replaces)
    wrong: dict[str, tuple[Subject, Adjacency]] = {
        "add-remove constants under replace": (Relabelled(mechanism=one, adjacency=replaces), replaces),
        "charged as bounded range, one round": (ChargedAsBoundedRange(mechanism=one), adds),
        "charged as bounded range, two rounds": (ChargedAsBoundedRange(mechanism=two), replaces),
    }
    return found + [
        Check(
            name=f"control: permute-and-flip, {name}",
            mechanism=PermuteAndFlip.name,
            expected="fails",
            subject=subject,
            universe=universe("closed 4 x 6", adjacency, max_k=2),
        )
        for name, (subject, adjacency) in wrong.items()
    ]
