r"""The exhaustive checks of JointStable: both relations and domains, windows, priors and clips, and negative controls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from cutline.arrays import IntArray
from cutline.histogram import Histogram
from cutline.mechanisms.adaptive.choosers import UNIT, Preference
from cutline.mechanisms.adaptive.joint_draw import JointDraw
from cutline.mechanisms.adaptive.joint_stable import JointStable
from cutline.outcome import Law
from cutline.privacy import Adjacency
from cutline.verify.check import Check, Subject
from cutline.verify.suites.shared import Altered, UnderReplace, controls, holds

Case: TypeAlias = tuple[str, Preference, tuple[float, ...], tuple[float, float], str]  # prior, claim, universe

_MAX_K = 5
_EQUAL, _UNEQUAL = (1.0,) * _MAX_K, (0.2, 3.0, 1.0, 0.5, 2.0)
_PLAIN, _WINDOW, _ONE = Preference(max_k=_MAX_K), Preference(min_k=2, max_k=3), Preference(min_k=2, max_k=2)
_CLIPPED = Preference(max_k=_MAX_K, clip=4)
# Steep ones saturate within counts up to 6; the tight one keeps all but a thousandth of what is claimed; gentle ones take 24.
_STEEP, _TIGHT, _GENTLE, _GENTLE_TIGHT = (2.0, 0.02), (3.0, 1e-7), (0.5, 1e-3), (1.0, 1e-8)

_CASES: tuple[Case, ...] = (
    ("steep", _PLAIN, _EQUAL, _STEEP, "open 4 x 4"),
    ("tight", _PLAIN, _EQUAL, _TIGHT, "open 4 x 6"),
    ("prior", _PLAIN, _UNEQUAL, _STEEP, "open 3 x 6"),
    ("prior, clip 4", _CLIPPED, _UNEQUAL, _STEEP, "open 3 x 6"),
    ("window 2..3, prior", _WINDOW, (1.0, 4.0), _STEEP, "open 4 x 4"),
    ("fixed k", _ONE, (1.0,), _STEEP, "open 3 x 6"),
    *(("steep", _PLAIN, _EQUAL, _STEEP, f"closed {items} x 6") for items in (1, 2, 3)),
    ("prior", _PLAIN, _UNEQUAL, _STEEP, "closed 4 x 4"),
    ("gentle", _PLAIN, _EQUAL, _GENTLE, "open 2 x 24"),
    ("gentle, tight", Preference(max_k=2), (1.0, 1.0), _GENTLE_TIGHT, "open 2 x 24"),
)


def checks() -> list[Check]:
    """Return all checks of JointStable."""
    found = [
        holds(words, _of(preference, prior, claim, adjacency), size, max_k=_MAX_K)
        for adjacency in Adjacency
        for words, preference, prior, claim, size in _CASES
    ]
    steep = _of(_PLAIN, _EQUAL, _STEEP)
    wrong: dict[str, Subject] = {
        f"joint draw at 0.7 epsilon; {adjacency}": replace(
            _of(_PLAIN, _EQUAL, _STEEP, adjacency), chooser=TooSteep(epsilon=2.0, delta=0.02, prior=_EQUAL)
        )
        for adjacency in Adjacency
    }
    wrong["joint draw, add-remove constants under replace"] = UnderReplace(subject=steep)
    wrong["joint draw that shows the set at a gap of 1"] = replace(
        steep, chooser=AtZero(epsilon=2.0, delta=0.02, prior=_EQUAL)
    )
    seen = {
        "joint draw, window and weights of the seen items": OfSeenItems(subject=_of(_PLAIN, _EQUAL, (0.3, 1e-3))),
    }
    return (
        found
        + controls(JointStable.name, "open 3 x 6", _MAX_K, wrong)
        + controls(JointStable.name, "open 2 x 24", _MAX_K, seen)
    )


def _of(
    preference: Preference,
    prior: tuple[float, ...],
    claim: tuple[float, float],
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> JointStable:
    epsilon, delta = claim
    return JointStable(
        preference=preference,
        chooser=JointDraw(epsilon=epsilon, delta=delta, prior=prior),
        adjacency=adjacency,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TooSteep(JointDraw):
    """Weighs a distance by 0.7 epsilon, although the set's chance is a product of two weights."""

    def _rate(self, adjacency: Adjacency) -> Fraction:
        return JointDraw._rate(self, adjacency) * Fraction(7, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtZero(JointDraw):
    """Takes a gap of 1 for a distance of 1, although one person can already change the set there."""

    @staticmethod
    def _steps(scores: IntArray, adjacency: Adjacency) -> IntArray:
        return JointDraw._steps(scores + UNIT, adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfSeenItems(Altered):
    """Draws among as many cuts as items were seen, with weights for these alone, which tells how many there were."""

    subject: JointStable

    def law(self, histogram: Histogram, /) -> Law:
        seen = max(1, min(len(histogram.items), self.subject.max_k))
        chooser = self.subject.chooser
        assert isinstance(chooser, JointDraw)  # noqa: S101 - for the type checker
        return replace(
            self.subject, preference=Preference(max_k=seen), chooser=replace(chooser, prior=(1.0,) * seen)
        ).law(histogram)
