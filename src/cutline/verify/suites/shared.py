r"""What the suites share: how a check that must hold or fail is stated, and how a subject is altered for a negative control."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cutline.mechanisms.base import Mechanism
from cutline.privacy import Adjacency, Cost
from cutline.verify.check import Check, Subject
from cutline.verify.universe import Histograms, Universe


def holds(words: str, mechanism: Mechanism, size: str, *, max_k: int) -> Check:
    """Return the check that a mechanism keeps its claim; the words tell it from others of that mechanism and size."""
    # The universe follows the mechanism, not its claim: a claim under another relation is then refused.
    return Check(
        name=f"{mechanism.name}: {words}; {mechanism.adjacency}; {size}",
        mechanism=mechanism.name,
        expected="holds",
        subject=mechanism,
        universe=Histograms.named(size, mechanism.adjacency, max_k=max_k),
    )


def hold(build: Callable[..., Mechanism], cases: Iterable[tuple[Any, ...]]) -> list[Check]:
    """Return the checks that a mechanism keeps its claim under both relations.

    A case is k, max_k, whatever else ``build`` takes before the adjacency, and the universe.
    """
    return [
        holds(f"k = {k} of {max_k}", build(k, max_k, *others, adjacency), size, max_k=max_k)
        for adjacency in Adjacency
        for k, max_k, *others, size in cases
    ]


def controls(mechanism: str, size: str, max_k: int, wrong: Mapping[str, Subject]) -> list[Check]:
    """Return the negative controls of the mechanism of that name: what is wrong, each under the relation it claims."""
    return [
        fails(words, mechanism, subject, Histograms.named(size, subject.cost.adjacency, max_k=max_k))
        for words, subject in wrong.items()
    ]


def fails(words: str, name: str, subject: Subject, universe: Universe) -> Check:
    """Return a negative control of the mechanism or aggregator of that name: a subject whose claim must be found broken."""
    return Check(name=f"control: {words}", mechanism=name, expected="fails", subject=subject, universe=universe)


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    """A subject with the law and the cost it has; a negative control changes one of the two."""

    subject: Subject

    @property
    def cost(self) -> Cost:
        return self.subject.cost

    def law(self, data: Any, /) -> Mapping[Any, float]:
        return self.subject.law(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderReplace(Altered):
    """A subject made for ADD_REMOVE that claims its cost under REPLACE: a negative control."""

    @property
    def cost(self) -> Cost:
        return Cost(adjacency=Adjacency.REPLACE, uses=self.subject.cost.uses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Charged(Altered):
    """A subject that charges another's cost: a negative control."""

    charge: Cost

    @property
    def cost(self) -> Cost:
        return self.charge
