r"""What a release costs: a bag of curves under one adjacency relation, composed by addition.

Equal uses are merged and kept sorted, so repeating a cost and composing it with itself are the same value by construction.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from cutline.errors import AdjacencyError, ParameterError, shortened
from cutline.privacy.adjacency import Adjacency
from cutline.privacy.curves.base import Curve, Use, check_probability, curve_from_dict, curve_to_dict
from cutline.privacy.rules.rdp import best_order, epsilon_from_rdp
from cutline.privacy.rules.registry import RULES
from cutline.rounding import sum_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    r"""An approximate-RDP cost: ``delta`` plus a curve, in both directions between neighbours.

    **Privacy.** Adaptive composition adds both parts [docs/proofs/composition.md].

    Examples
    --------
    >>> from cutline.privacy import Adjacency, BoundedRange
    >>> step = Cost.of(BoundedRange(epsilon=0.05), adjacency=Adjacency.ADD_REMOVE)
    >>> 3 * step == step + step + step
    True
    >>> epsilons = (600 * step).epsilons(4e-7)
    >>> {rule: f"{epsilons[rule]:.3f}" for rule in ("exact", "rdp", "zcdp", "advanced", "pure")}
    {'exact': '2.941', 'rdp': '3.131', 'zcdp': '3.511', 'advanced': '6.369', 'pure': '30.000'}
    """

    adjacency: Adjacency
    uses: tuple[Use, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency(self.adjacency))
        object.__setattr__(self, "uses", _merge(self.uses))

    @classmethod
    def of(cls, curve: Curve, *, adjacency: Adjacency, delta: float = 0.0) -> Self:
        """Return the cost of one use of one curve."""
        return cls(adjacency=adjacency, uses=(Use(curve=curve, delta=delta),))

    @property
    def delta(self) -> float:
        """The sum of the uses' deltas, rounded up."""
        return sum_up((use.times, use.delta) for use in self.uses)

    def rdp(self, order: float) -> float:
        """Return the sum of the curves at ``order``, rounded up."""
        return sum_up((use.times, use.curve.rdp(order)) for use in self.uses)

    def __add__(self, other: Cost) -> Cost:
        if self.adjacency != other.adjacency:
            rule, both = "costs add up only under one adjacency relation", f"{self.adjacency} and {other.adjacency}"
            raise AdjacencyError(rule, both, "Calibrate both mechanisms for the same relation.")
        return Cost(adjacency=self.adjacency, uses=self.uses + other.uses)

    def __rmul__(self, times: int) -> Cost:
        if isinstance(times, bool) or not isinstance(times, int | np.integer) or times < 0:
            raise ParameterError(
                "a cost is repeated a whole number of times", f"times={shortened(times)}", "Pass an integer."
            )
        uses = (Use(curve=u.curve, delta=u.delta, times=u.times * int(times)) for u in self.uses if times)
        return Cost(adjacency=self.adjacency, uses=tuple(uses))

    def epsilons(self, delta: float) -> Mapping[str, float]:
        """Return the epsilon of every rule that applies, for costs fixed in advance."""
        return MappingProxyType(_epsilons(self, check_probability("delta", delta)))

    def epsilon(self, delta: float) -> float:
        """Return the smallest valid epsilon at ``delta``; infinite if no rule applies."""
        return min(self.epsilons(delta).values(), default=float("inf"))

    def summary(self, delta: float) -> dict[str, Any]:
        """Return the cost at ``delta`` as a few plain values for JSON; `to_dict` has everything.

        ``kinds``: how often each kind of curve is used. ``order`` and ``rdp``: the Rényi order at which the cost converts
        best to ``delta``, and the Rényi bound there; ``slack``: the probability outside which that bound holds.
        ``delta``: as given. ``epsilon``: what the bound converts to, the rule ``rdp``; another rule of `epsilons` may
        prove a smaller one. A number that is infinite or does not exist is None: a cost that leaves nothing of ``delta``
        to convert with has no finite order, and the rest of it is what pure DP says.

        Examples
        --------
        >>> from cutline.privacy import Adjacency, BoundedRange
        >>> (600 * Cost.of(BoundedRange(epsilon=0.05), adjacency=Adjacency.ADD_REMOVE)).summary(4e-7)["kinds"]
        {'bounded-range': 600}
        """
        delta = check_probability("delta", delta)
        kinds: Counter[str] = Counter()
        for use in self.uses:
            kinds[use.curve.kind] += use.times
        order = best_order(self, delta) if self.delta < delta else math.inf
        rdp = self.rdp(order) if self.delta <= delta else math.inf
        epsilon = epsilon_from_rdp(order=order, rdp=rdp, delta=delta, slack=self.delta) if order < math.inf else rdp
        return {
            "kinds": dict(kinds),
            "order": _finite(order),
            "rdp": _finite(rdp),
            "slack": self.delta,
            "delta": delta,
            "epsilon": _finite(epsilon),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the cost as plain data; `from_dict` reads it back equal."""
        return {
            "adjacency": str(self.adjacency),
            "uses": [{"curve": curve_to_dict(u.curve), "delta": u.delta, "times": u.times} for u in self.uses],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Read a cost back from plain data."""
        uses = (
            Use(curve=curve_from_dict(u["curve"]), delta=u["delta"], times=u["times"]) for u in plain.get("uses", ())
        )
        return cls(adjacency=Adjacency(plain["adjacency"]), uses=tuple(uses))


@lru_cache(maxsize=1024)
def _epsilons(cost: Cost, delta: float) -> dict[str, float]:
    values = {name: rule(cost, delta) for name, rule in RULES.items()}
    return {name: value for name, value in values.items() if value < float("inf")}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _merge(uses: Iterable[Use]) -> tuple[Use, ...]:
    uses = tuple(uses)
    if len(uses) == 1:
        return uses
    times: dict[tuple[Curve, float], int] = {}
    for use in uses:
        times[use.curve, use.delta] = times.get((use.curve, use.delta), 0) + use.times
    merged = (Use(curve=curve, delta=delta, times=n) for (curve, delta), n in times.items())
    if len(times) == 1:
        return tuple(merged)
    return tuple(sorted(merged, key=lambda u: (u.curve.kind, u.delta, _written(u))))


@lru_cache(maxsize=256)
def _written(use: Use) -> str:
    """Return a use's curve as text, the last thing uses are sorted by; a bit table of a thousand values is long to write."""
    return json.dumps(curve_to_dict(use.curve))
