r"""The exhaustive checks of PeelingEM, and its negative controls."""

from __future__ import annotations

from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.privacy import Adjacency
from cutline.verify.check import Check, Subject
from cutline.verify.suites.mechanisms.closed_domain import IN_ROUNDS, selections
from cutline.verify.suites.shared import Charged, Relabelled, controls_of


def checks() -> list[Check]:
    """Return all checks of PeelingEM."""
    one, two = (PeelingEM(k=k, epsilon=1.0, adjacency=Adjacency.ADD_REMOVE) for k in (1, 2))
    wrong: dict[str, Subject] = {
        "peeling, add-remove constants under replace": Relabelled(subject=two, adjacency=Adjacency.REPLACE),
        "peeling, k rounds charged as one": Charged(subject=two, charge=one.cost),
    }
    return selections(PeelingEM, IN_ROUNDS) + controls_of(PeelingEM.name, wrong, "closed 4 x 6", max_k=2)
