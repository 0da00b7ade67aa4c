r"""What every mechanism is: public parameters, a cost known before any data, and one outcome drawn from a histogram."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from cutline.errors import LawTooLarge, ParameterError
from cutline.histogram import MOST_RANKS, Histogram, check_max_k
from cutline.outcome import Law, Outcome
from cutline.privacy import Adjacency, Budget, Cost
from cutline.privacy.curves.base import check_whole
from cutline.release import Release
from cutline.sampling import Source, resolve

LARGEST_LAW = 10**5  # outcomes that a law lists


Value: TypeAlias = int | float | str | tuple[int, ...] | Sequence[float]  # of a declared parameter


def plain_value(value: Any) -> Any:
    """Return a parameter without numpy's numbers, decimals and fractions: what is described and kept is plain data."""
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    return tuple(map(_plain_number, value)) if isinstance(value, list | tuple) else _plain_number(value)


def _plain_number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Fraction | Decimal):
        with suppress(OverflowError, ValueError):
            return float(value)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A keyword that ``calibrate`` of a mechanism or an aggregator takes beside those that all of them share."""

    name: str
    required: bool = False


def declare(*optional: str, required: tuple[str, ...] = ()) -> tuple[Parameter, ...]:
    """Return the parameters of these names, the required ones first."""
    return tuple(Parameter(name=name, required=name in required) for name in (*required, *optional))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism(ABC):
    r"""A mechanism: frozen, keyword-only, made of public parameters only.

    Parameters
    ----------
    adjacency
        Who is protected.
    budget
        What the mechanism was calibrated for, if it was.
    """

    name: ClassVar[str]
    ordered: ClassVar[bool]  # whether the released items come in an order that means something
    domains: ClassVar[tuple[str, ...]]  # "open", "closed", "bounded": which histograms it takes
    reference: ClassVar[str]  # key in docs/references.md
    cost_rule: ClassVar[str]  # how one use is charged, in a few words
    parameters: ClassVar[tuple[Parameter, ...]]  # what `calibrate` takes beside budget, adjacency and limits
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({},)  # parameters worth comparing in a plan; {} is the default

    adjacency: Adjacency
    budget: Budget | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency(self.adjacency))

    @classmethod
    def accepts(cls, parameter: str) -> bool:
        """Say whether ``calibrate`` takes a parameter of that name."""
        return any(declared.name == parameter for declared in cls.parameters)

    # Each mechanism writes its parameters out; a signature with both of these is the one that any other may override.
    @classmethod
    @abstractmethod
    def calibrate(cls, budget: Budget, *args: Any, **parameters: Any) -> Self:
        r"""Return the mechanism that spends the budget as well as public numbers allow.

        Parameters
        ----------
        budget
            Total (epsilon, delta) for ``budget.releases`` releases.
        adjacency
            Who is protected; a keyword, ADD_REMOVE by default.
        limits
            A ledger's filter for all releases together, which fixes the Rényi order and both limits instead of having them
            searched; a keyword, None by default.
        **parameters
            What the mechanism declares in ``parameters``, by keyword.

        Raises
        ------
        BudgetError
            If the limits do not lie within the budget, or leave too little to spend.
        ParameterError
            If a parameter makes no sense.
        """

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """The cost of the dearest path, known before any data."""

    @abstractmethod
    def run(self, histogram: Histogram, source: Source) -> tuple[Outcome, Cost]:
        """Draw one outcome, and return it with the cost of the steps that ran."""

    def check_domain(self, histogram: Histogram) -> Histogram:
        """Return the histogram, or refuse a domain of the wrong kind or size, which are public."""
        return histogram

    @abstractmethod
    def law(self, histogram: Histogram) -> Law:
        """Return the exact probability of every outcome, to a relative 1e-12."""

    @abstractmethod
    def chance(self, histogram: Histogram, k: int) -> float:
        """Return the probability that exactly the top ``k`` go out."""

    @abstractmethod
    def public_parameters(self) -> dict[str, Any]:
        """Return the mechanism's own parameters as plain data."""

    def release(self, histogram: Histogram, *, rng: Source | None = None) -> Release:
        """Run once on a histogram and return everything that becomes public."""
        source = resolve(rng)
        outcome, cost = self.run(histogram, source)
        dearest = self.cost
        return Release(
            outcome=outcome,
            cost=cost,
            mechanism=self.describe(),
            budget=self.budget,
            seeded=source.seeded,
            reserved=None if cost == dearest else dearest,
        )

    def describe(self) -> dict[str, Any]:
        """Return name and public parameters as plain data."""
        return {"name": self.name, **self.public_parameters(), "adjacency": str(self.adjacency)}


def check_k(k: int) -> int:
    """Return k as an integer; raise if it is not a whole number of at least 1."""
    return check_whole("k", k, "Try k=10.", most=MOST_RANKS)


def check_window(k: int, max_k: int) -> None:
    """Raise if ``max_k`` is not a whole number of at least ``k``."""
    check_max_k(max_k)
    if max_k < k:
        raise ParameterError("max_k must be at least k", f"max_k={max_k}, k={k}", "Raise max_k or lower k.")


def resolve_max_k(k: int, max_k: int | None) -> int:
    """Return how many ranks are looked at, ``max(100, 10 k)`` unless it was said; raise if it is below k."""
    k = check_k(k)
    ranks = min(max(100, 10 * k), MOST_RANKS) if max_k is None else max_k
    check_window(k, ranks)
    return ranks


def check_listable(outcomes: int, given: str, advice: str = "Sample instead.") -> None:
    """Raise if a law has too many outcomes to be listed; ``given`` names the public numbers that decide it."""
    if outcomes > LARGEST_LAW:
        raise LawTooLarge(f"a law is listed up to {LARGEST_LAW} outcomes", given, advice)
