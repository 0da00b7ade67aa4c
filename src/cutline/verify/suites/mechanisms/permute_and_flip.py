r"""The exhaustive checks of PermuteAndFlip, and its negative controls: the price of the exponential mechanism is too low."""

from __future__ import annotations

from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.closed.permute_and_flip import PermuteAndFlip
from cutline.privacy import Adjacency
from cutline.verify.check import Check, Subject
from cutline.verify.suites.mechanisms.closed_domain import IN_ROUNDS, selections
from cutline.verify.suites.shared import Charged, Relabelled, controls_of


def checks() -> list[Check]:
    """Return all checks of PermuteAndFlip."""
    adds, replaces = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    one = PermuteAndFlip(k=1, epsilon=1.0, adjacency=adds)
    two = PermuteAndFlip(k=2, epsilon=1.0, adjacency=replaces)
    wrong: dict[str, Subject] = {
        "permute-and-flip, add-remove constants under replace": Relabelled(subject=one, adjacency=replaces),
        "permute-and-flip, charged as bounded range, one round": _charged_as_exponential(one),
        "permute-and-flip, charged as bounded range, two rounds": _charged_as_exponential(two),
    }
    return selections(PermuteAndFlip, IN_ROUNDS) + controls_of(PermuteAndFlip.name, wrong, "closed 4 x 6", max_k=2)


def _charged_as_exponential(mechanism: PermuteAndFlip) -> Charged:
    peeling = PeelingEM(k=mechanism.k, epsilon=mechanism.epsilon, adjacency=mechanism.adjacency)
    return Charged(subject=mechanism, charge=peeling.cost)
