r"""The exhaustive checks of Limited Domain and of Limited Domain in rounds, and their negative controls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Self

from cutline.histogram import Histogram
from cutline.mechanisms.open.limited_domain import LimitedDomain
from cutline.mechanisms.open.limited_rounds import LimitedRounds, Round
from cutline.outcome import Law
from cutline.privacy import Adjacency
from cutline.verify.check import Check, Subject
from cutline.verify.suites.shared import UnderReplace, controls, hold

Cases = tuple[tuple[int, int, float, float, str], ...]  # k, max_k, epsilon, delta, universe

# Candidates fewer than the items, so that ranks and the bottom come and go, and deltas large enough to see one-sided items.
_DOMAIN: Cases = (
    (1, 2, 1.0, 0.1, "open 4 x 6"),
    (2, 2, 0.7, 0.02, "open 3 x 6"),
    (2, 3, 1.5, 0.3, "open 4 x 6"),
    (3, 3, 1.2, 0.3, "open 4 x 6"),
    (3, 5, 2.0, 0.1, "open 3 x 6"),
    (1, 1, 0.5, 0.02, "open 2 x 24"),
    (2, 3, 0.8, 0.01, "open 2 x 24"),
)
_ROUNDS: Cases = (  # two rounds (k = 2) or three
    (2, 2, 2.0, 0.05, "open 4 x 6"),
    (3, 3, 7.5, 0.0013, "open 4 x 4"),
    (3, 5, 2.0, 0.05, "open 3 x 6"),
    (4, 4, 6.6, 0.0054, "open 5 x 2"),
    (7, 7, 4.0, 0.05, "open 2 x 24"),
)


def limited_domain() -> list[Check]:
    """Return all checks of Limited Domain."""
    adds, replaces = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    numbers = (1, 2, 3.0, 0.1)
    wrong: dict[str, Subject] = {
        "Limited Domain with +1 under replace": _of(partial(WrongMargin, margin=1), *numbers, replaces),
        "Limited Domain without +1": _of(partial(WrongMargin, margin=0), *numbers, adds),
        "add-remove constants under replace, limited domain": UnderReplace(subject=_of(LimitedDomain, *numbers, adds)),
        "bottom that does not count the candidates": _of(LightBottom, *numbers, adds),
        "candidates cut to the items seen": _of(SeenOnly, 1, 4, 3.0, 0.1, adds),
    }
    return hold(partial(_of, LimitedDomain), _DOMAIN) + controls(LimitedDomain.name, "open 3 x 6", 4, wrong)


def limited_rounds() -> list[Check]:
    """Return all checks of Limited Domain in rounds; the controls are rounds that are not paid for."""
    adds = Adjacency.ADD_REMOVE
    whole, linear = (partial(WrongRounds, kind=kind) for kind in (WholeDelta, Linear))
    wrong: dict[str, Subject] = {
        "rounds with the whole delta each": _of(whole, 8, 8, 0.05, 0.2, adds),
        "rounds whose epsilon grows with the draws pooled, not with their root": _of(linear, 7, 7, 1.5, 0.05, adds),
        "add-remove constants under replace, rounds": UnderReplace(subject=_of(LimitedRounds, 2, 3, 3.0, 0.1, adds)),
    }
    return hold(partial(_of, LimitedRounds), _ROUNDS) + controls(LimitedRounds.name, "open 2 x 6", 8, wrong)


def _of(
    kind: Callable[..., LimitedDomain], k: int, max_k: int, epsilon: float, delta: float, adjacency: Adjacency
) -> LimitedDomain:
    return kind(k=k, max_k=max_k, epsilon=epsilon, delta=delta, adjacency=adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongMargin(LimitedDomain):
    """Raises the bottom by less than one ballot can move two counts apart: 1 under ADD_REMOVE, 2 under REPLACE."""

    margin: int

    @property
    def _margin(self) -> int:
        return self.margin


@dataclass(frozen=True, slots=True, kw_only=True)
class LightBottom(LimitedDomain):
    """Weighs the bottom against one one-sided item, although there may be max_k of them."""

    @property
    def _bottom(self) -> Fraction:
        return 1 / Fraction(self.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenOnly(LimitedDomain):
    """Looks at as many ranks as items were seen, and takes the last seen count for the first one left out."""

    def law(self, histogram: Histogram) -> Law:
        seen = max(1, min(len(histogram.items) - 1, self.max_k))
        # The parent's law on fewer ranks; super() does not see through slots.
        return LimitedDomain.law(replace(self, max_k=seen), histogram)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongRounds(LimitedRounds):
    """Draws in rounds of a kind that costs more than is charged."""

    kind: type[Round]

    @property
    def first(self) -> Round:
        return self.kind.of(self._as_one, left=Fraction(self.delta))


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeDelta(Round):
    """Gives each round the whole delta, so that one-sided items have as many chances as there are rounds."""

    @classmethod
    def of(cls, allowance: LimitedDomain, *, left: Fraction) -> Self:  # noqa: ARG003 - never less than all of it
        return cls(domain=allowance, left=Fraction(allowance.delta))


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(Round):
    """Doubles the epsilon where the draws are halved, although twice the epsilon costs four times as much."""

    def after(self, found: int) -> Self | None:
        # The parent's next round with the epsilon's factor squared; super() does not see through slots.
        next_round = Round.after(self, found)
        if next_round is None:
            return None
        factor = next_round.domain.epsilon / self.domain.epsilon
        return replace(next_round, domain=replace(next_round.domain, epsilon=self.domain.epsilon * factor**2))
