r"""The exhaustive checks of Limited Domain in rounds, and its negative controls: rounds that are not paid for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

from cutline.mechanisms.open.limited_domain import LimitedDomain
from cutline.mechanisms.open.limited_rounds import LimitedRounds, Round
from cutline.privacy import Adjacency
from cutline.verify.check import Check, Subject
from cutline.verify.suites.mechanisms.limited_domain import Cases, limited
from cutline.verify.suites.shared import Relabelled, controls_of

# Two rounds (k = 2) or three. Fewer candidates than items, so that the bottom moves too.
_CASES: Cases = (
    (2, 2, 2.0, 0.05, "open 4 x 6"),
    (3, 3, 7.5, 0.0013, "open 4 x 4"),
    (3, 5, 2.0, 0.05, "open 3 x 6"),
    (4, 4, 6.6, 0.0054, "open 5 x 2"),
    (7, 7, 4.0, 0.05, "open 2 x 24"),
)


def checks() -> list[Check]:
    """Return all checks of Limited Domain in rounds."""
    return limited(LimitedRounds, _CASES) + controls()


def controls() -> list[Check]:
    """Return the negative controls, each at parameters under which it must fail."""
    adds = Adjacency.ADD_REMOVE
    right = LimitedRounds(k=2, max_k=3, epsilon=3.0, delta=0.1, adjacency=adds)
    wrong: dict[str, Subject] = {
        "rounds with the whole delta each": WholeDelta(k=8, max_k=8, epsilon=0.05, delta=0.2, adjacency=adds),
        "rounds whose epsilon grows with the draws pooled, not with their root": Linear(
            k=7, max_k=7, epsilon=1.5, delta=0.05, adjacency=adds
        ),
        "add-remove constants under replace, rounds": Relabelled(subject=right, adjacency=Adjacency.REPLACE),
    }
    return controls_of(LimitedRounds.name, wrong, "open 2 x 6", max_k=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeDelta(LimitedRounds):
    """Gives each round the whole delta, so that one-sided items have as many chances as there are rounds."""

    @property
    def first(self) -> Round:
        return _WholeDeltaRound.of(self._as_one, left=Fraction(self.delta))


@dataclass(frozen=True, slots=True, kw_only=True)
class _WholeDeltaRound(Round):
    @classmethod
    def of(cls, allowance: LimitedDomain, *, left: Fraction) -> Self:  # noqa: ARG003 - never less than all of it
        return cls(domain=allowance, left=Fraction(allowance.delta))


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(LimitedRounds):
    """Doubles the epsilon where the draws are halved, although twice the epsilon costs four times as much."""

    @property
    def first(self) -> Round:
        return _LinearRound.of(self._as_one, left=Fraction(self.delta))


@dataclass(frozen=True, slots=True, kw_only=True)
class _LinearRound(Round):
    def after(self, found: int) -> Self | None:
        # The parent's next round with the epsilon's factor squared; super() does not see through slots.
        next_round = Round.after(self, found)
        if next_round is None:
            return None
        factor = next_round.domain.epsilon / self.domain.epsilon
        return replace(next_round, domain=replace(next_round.domain, epsilon=self.domain.epsilon * factor**2))
