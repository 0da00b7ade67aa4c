r"""The exhaustive checks of PermuteAndFlip, and its negative controls."""

from __future__ import annotations

from dataclasses import dataclass

from cutline.mechanisms.closed.permute_and_flip import PermuteAndFlip
from cutline.privacy import Adjacency, BoundedRange, Cost
from cutline.verify.check import Check, Subject
from cutline.verify.suites.mechanisms.closed_domain import IN_ROUNDS, selections
from cutline.verify.suites.mechanisms.shared import Altered, Relabelled, controls_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedAsBoundedRange(Altered):
    """Permute-and-flip at the price of the exponential mechanism."""

    mechanism: PermuteAndFlip

    @property
    def cost(self) -> Cost:
        rounds, step = self.mechanism.k, BoundedRange(epsilon=self.mechanism.epsilon)
        return rounds * Cost.of(step, adjacency=self.mechanism.adjacency)


def checks() -> list[Check]:
    """Return all checks of PermuteAndFlip."""
    adds, replaces = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    one = PermuteAndFlip(k=1, epsilon=1.0, adjacency=adds)
    two = PermuteAndFlip(k=2, epsilon=1.0, adjacency=replaces)
    wrong: dict[str, Subject] = {
        "permute-and-flip, add-remove constants under replace": Relabelled(mechanism=one, adjacency=replaces),
        "permute-and-flip, charged as bounded range, one round": ChargedAsBoundedRange(mechanism=one),
        "permute-and-flip, charged as bounded range, two rounds": ChargedAsBoundedRange(mechanism=two),
    }
    return selections(PermuteAndFlip, IN_ROUNDS) + controls_of(PermuteAndFlip.name, wrong, "closed 4 x 6", max_k=2)
