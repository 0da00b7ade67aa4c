r"""What the suites share: checks that must hold or fail, the universes of the SPEC's sizes, and altered mechanisms."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

from cutline.privacy import Adjacency, Cost
from cutline.verify.check import Check, Subject
from cutline.verify.universe import Universe, closed_histograms, open_histograms


class Named(Subject, Protocol):
    """A subject that says what it is called and whom it protects, as every mechanism does."""

    name: ClassVar[str]

    @property
    def adjacency(self) -> Adjacency:
        """Who is protected."""
        ...


def holds(words: str, mechanism: Named, size: str, *, max_k: int) -> Check:
    """Return the check that a mechanism keeps its claim; the words tell it from others of that mechanism and size."""
    # The universe follows the mechanism, not its claim: a claim under another relation is then refused.
    return Check(
        name=f"{mechanism.name}: {words}; {mechanism.adjacency}; {size}",
        mechanism=mechanism.name,
        expected="holds",
        subject=mechanism,
        universe=universe(size, mechanism.adjacency, max_k=max_k),
    )


def controls_of(mechanism: str, wrong: Mapping[str, Subject], size: str, *, max_k: int) -> list[Check]:
    """Return the negative controls of the mechanism of that name: what is wrong, each under the relation it claims."""
    return [
        Check(
            name=f"control: {words}",
            mechanism=mechanism,
            expected="fails",
            subject=subject,
            universe=universe(size, subject.cost.adjacency, max_k=max_k),
        )
        for words, subject in wrong.items()
    ]


def universe(size: str, adjacency: Adjacency, *, max_k: int) -> Callable[[], Universe]:
    """Return the universe named like ``open 4 x 6`` or ``closed 3 x 6``: domain, items, largest count."""
    domain, items, _, largest = size.split()
    if domain == "open":
        return partial(open_histograms, items=int(items), largest=int(largest), adjacency=adjacency, max_k=max_k)
    return partial(closed_histograms, items=int(items), largest=int(largest), adjacency=adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    """A mechanism with the law and the cost it has; a negative control changes one of the two."""

    mechanism: Subject

    @property
    def cost(self) -> Cost:
        return self.mechanism.cost

    def law(self, data: Any, /) -> Mapping[Hashable, float]:
        return self.mechanism.law(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relabelled(Altered):
    """A mechanism of one adjacency that claims its cost under another."""

    adjacency: Adjacency

    @property
    def cost(self) -> Cost:
        return Cost(adjacency=self.adjacency, uses=self.mechanism.cost.uses)
