r"""What a mechanism is, and which there are: a new mechanism is a new file plus one line here."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, Self

from cutline.errors import ParameterError
from cutline.histogram import Histogram
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.mechanisms.closed.joint import JointEM
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.closed.permute_and_flip import PermuteAndFlip
from cutline.mechanisms.closed.subset import SubsetEM
from cutline.mechanisms.fixed.stable_fixed import StableTopKFixed
from cutline.mechanisms.fixed.test_first import TestFirst
from cutline.mechanisms.open.limited_domain import LimitedDomain
from cutline.mechanisms.open.limited_rounds import LimitedRounds
from cutline.mechanisms.open.top_stable import TopStable
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.release import Law, Release
from cutline.sampling import Source


class Mechanism(Protocol):
    """Frozen, keyword-only, public parameters only; the cost is known before any data."""

    name: ClassVar[str]
    ordered: ClassVar[bool]  # whether the released items come in an order that means something
    domains: ClassVar[tuple[str, ...]]  # "open", "closed" or both
    reference: ClassVar[str]  # key in docs/references.md
    cost_rule: ClassVar[str]  # how one use is charged, in a few words
    variants: ClassVar[tuple[dict[str, Any], ...]]  # parameters worth comparing in a plan; {} is the default

    @property
    def adjacency(self) -> Adjacency:
        """Who is protected."""
        ...

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        adjacency: Adjacency = ...,
        limits: Filter | None = None,
        **public: Any,
    ) -> Self:
        """Spend the budget as well as public numbers allow."""
        ...

    @property
    def cost(self) -> Cost:
        """The dearest path."""
        ...

    def release(self, histogram: Histogram, *, rng: Source | None = None) -> Release:
        """Run once."""
        ...

    def law(self, histogram: Histogram) -> Law:
        """Return the exact probability of every outcome."""
        ...

    def chance(self, histogram: Histogram, k: int) -> float:
        """Return the probability that exactly the top ``k`` go out."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return name and public parameters as plain data."""
        ...


MECHANISMS: dict[str, Any] = {
    kind.name: kind
    for kind in (
        StableTopK,
        TestFirst,
        StableTopKFixed,
        PeelingEM,
        PermuteAndFlip,
        LimitedRounds,
        LimitedDomain,
        TopStable,
        JointEM,
        SubsetEM,
    )
}


def mechanism(name: str) -> Any:
    """Return the mechanism class of that name."""
    if name not in MECHANISMS:
        raise ParameterError(
            "the mechanism must be a registered one", f"{name!r}", f"Registered: {', '.join(MECHANISMS)}."
        )
    return MECHANISMS[name]
