r"""Our costs as dp-accounting's events, for its accountants, and as its privacy-loss distributions, to compose.

Which event stands for which use, and which accountants of version 0.6.0 accept it:

=====================  ========================================  =====================================================
use                    event                                     accepted by
=====================  ========================================  =====================================================
Gaussian               ``GaussianDpEvent``                       RDP accountant exactly; PLD accountant exactly under
                                                                 ADD_REMOVE, with doubled sensitivity under REPLACE
all others             ``ZCDpEvent``, the smallest rho we prove  RDP accountant; the PLD accountant refuses it
=====================  ========================================  =====================================================

The library has no event for a Rényi curve, an exponential mechanism, a two-point law or a delta, so all of them are given as
zCDP. That loses almost nothing for bounded range, and much for a bit table, which is shaped for one order. A delta has no event
at all: `to_event` refuses it, and `to_event_and_delta` takes it off the target. `to_pld` carries everything, deltas included.

``RandomizedResponseDpEvent`` is never used, though it fits pure steps: the PLD accountant of 0.6.0 composes it once, whatever
the count of the `SelfComposedDpEvent` around it.
"""

from __future__ import annotations

import math
from typing import Any

from cutline.errors import ParameterError
from cutline.interop.concentration import certified_rho
from cutline.privacy.adjacency import Adjacency
from cutline.privacy.cost import Cost
from cutline.privacy.curves.base import Normal, check_positive
from cutline.privacy.rules.pld import compose_parts, dominating_parts, law_of_failure
from cutline.privacy.rules.rdp import remaining_delta


def to_event(cost: Cost) -> Any:
    r"""Return the ``DpEvent`` of a cost without delta.

    **Privacy.** What an accountant under `neighbouring_relation` reports for the event is never below what the cost
    guarantees [docs/interop.md]; for bit tables it is far above it.

    Raises
    ------
    ParameterError
        The cost has a delta, or a curve for which no zCDP parameter can be proved.

    Examples
    --------
    >>> from cutline.privacy import Adjacency, Cost, Gaussian
    >>> to_event(600 * Cost.of(Gaussian(sigma=64.0), adjacency=Adjacency.ADD_REMOVE)).count
    600
    """
    if cost.delta > 0:
        raise ParameterError(
            "dp-accounting has no event for a delta",
            f"cost.delta={cost.delta:.3g}",
            "Use to_event_and_delta, or to_pld, which carries it.",
        )
    return _event(cost)


def to_event_and_delta(cost: Cost, delta: float) -> tuple[Any, float]:
    r"""Return the event of the cost outside its delta, and the delta to ask the accountant for.

    Composed with other events, an accountant's epsilon at the second value holds at ``delta`` for everything together:
    ``d' = (delta - delta_0) / (1 - delta_0)``, rounded down [docs/proofs/composition.md].
    """
    if not cost.delta < delta < 1:
        raise ParameterError(
            "delta must be below 1 and above the cost's own",
            f"delta={delta}, cost.delta={cost.delta:.3g}",
            "Raise delta.",
        )
    return _event(cost), remaining_delta(delta=delta, slack=cost.delta)


def to_pld(cost: Cost, *, value_discretization_interval: float = 1e-4, tail_mass: float = 1e-12) -> Any:
    r"""Return the cost, deltas included, as a ``PrivacyLossDistribution`` to ``compose`` with others of the same interval.

    Parameters
    ----------
    cost
        All of whose uses have a known profile.
    value_discretization_interval
        As in dp-accounting, where 1e-4 is the default.
    tail_mass
        What may be moved to infinity to keep the grid short.
    """
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    check_positive("value_discretization_interval", value_discretization_interval)
    check_positive("tail_mass", tail_mass)
    interval, parts = value_discretization_interval, dominating_parts(cost.uses)
    if parts is None:
        raise ParameterError(
            "a privacy-loss distribution needs uses with a known profile",
            ", ".join(sorted({use.curve.kind for use in cost.uses})),
            "Use to_event_and_delta with the RDP accountant.",
        )
    law = law_of_failure(interval, cost.delta)
    if parts:
        uses = sum(part.times for part in parts)
        law = compose_parts(parts, interval=interval, tail=tail_mass / (2 * uses)).compose(law)
    # One distribution for both directions: our profiles are the larger of the two already.
    return PrivacyLossDistribution(law)


def neighbouring_relation(adjacency: Adjacency) -> Any:
    """Return dp-accounting's name of the relation; give it to the accountant."""
    from dp_accounting import NeighboringRelation

    return {
        Adjacency.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
        Adjacency.REPLACE: NeighboringRelation.REPLACE_ONE,
    }[Adjacency(adjacency)]


def _event(cost: Cost) -> Any:
    import dp_accounting

    events = []
    for use in cost.uses:
        if isinstance(use.curve, Normal) and use.curve.mu < math.inf:
            # mu is the whole distance between neighbours under our relation. The RDP accountant reads the multiplier so
            # under every relation; the PLD accountant doubles it under REPLACE_ONE: too much, never too little.
            one = dp_accounting.GaussianDpEvent(noise_multiplier=(1 - 2.0**-50) / use.curve.mu)
        else:
            one = dp_accounting.dp_event.ZCDpEvent(rho=certified_rho(use.curve))
        events.append(one if use.times == 1 else dp_accounting.SelfComposedDpEvent(one, use.times))
    if not events:
        return dp_accounting.NoOpDpEvent()
    return events[0] if len(events) == 1 else dp_accounting.ComposedDpEvent(events)
