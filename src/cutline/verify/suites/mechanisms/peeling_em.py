r"""The exhaustive checks of PeelingEM, and its negative controls."""

from __future__ import annotations

from dataclasses import dataclass

from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.privacy import Adjacency, BoundedRange, Cost
from cutline.verify.check import Check, Subject
from cutline.verify.suites.mechanisms.closed_domain import IN_ROUNDS, selections
from cutline.verify.suites.mechanisms.shared import Altered, Relabelled, controls_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedOnce(Altered):
    """k rounds that pay for one."""

    mechanism: PeelingEM

    @property
    def cost(self) -> Cost:
        return Cost.of(BoundedRange(epsilon=self.mechanism.epsilon), adjacency=self.mechanism.adjacency)


def checks() -> list[Check]:
    """Return all checks of PeelingEM."""
    two = PeelingEM(k=2, epsilon=1.0, adjacency=Adjacency.ADD_REMOVE)
    wrong: dict[str, Subject] = {
        "peeling, add-remove constants under replace": Relabelled(mechanism=two, adjacency=Adjacency.REPLACE),
        "peeling, k rounds charged as one": ChargedOnce(mechanism=two),
    }
    return selections(PeelingEM, IN_ROUNDS) + controls_of(PeelingEM.name, wrong, "closed 4 x 6", max_k=2)
