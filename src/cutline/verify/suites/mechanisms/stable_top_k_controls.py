r"""Mechanisms that are wrong on purpose. The checker must fail every one of them: a checker that cannot fail proves nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.histogram import Histogram, OpenHistogram
from cutline.mechanisms.adaptive.choosers import GapArgmax, GapExponential
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.mechanisms.adaptive.preference import UNIT
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.privacy import Adjacency, BitTable
from cutline.release import Law


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfNoise(GapExponential):
    """Draws k with Gumbel scale 1/epsilon, as if one person moved all gaps together, and charges epsilon."""

    def law(self, scores: IntArray, adjacency: Adjacency) -> FloatArray:
        return GapExponential(epsilon=2 * self.epsilon).law(scores, adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestAtZero(TableTest):
    """Takes a gap of 1 for a distance of 1, although one person can already change the set there."""

    def chances(self, gaps: IntArray, slack: IntArray, adjacency: Adjacency) -> tuple[FloatArray, FloatArray]:
        yes = self.table(np.minimum(adjacency.distance(gaps + 1), slack))
        return yes, 1 - yes


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedTable(TableTest):
    """Rounds the upper end of its table to exactly 1, and charges the table it was built from."""

    def chances(self, gaps: IntArray, slack: IntArray, adjacency: Adjacency) -> tuple[FloatArray, FloatArray]:
        values = np.asarray(self.table.values)
        rounded = BitTable(values=tuple(np.where(values > 0.99, 1.0, values).tolist()))
        yes = rounded(np.minimum(adjacency.distance(gaps), slack))
        return yes, 1 - yes


@dataclass(frozen=True, slots=True, kw_only=True)
class CarelessArgmax(GapArgmax):
    """Halves the margin but forgets that two gaps can move towards each other."""

    def slack(self, scores: IntArray, adjacency: Adjacency) -> IntArray:
        two = np.partition(scores, -2, axis=-1)[..., -2:]
        return adjacency.margin_distance(two[..., 1] - two[..., 0] + adjacency.gap_range * UNIT, unit=UNIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutToSeen(StableTopK):
    """Chooses k among as many ranks as items were seen, which tells how many there were."""

    def law(self, histogram: Histogram) -> Law:
        assert isinstance(histogram, OpenHistogram)  # noqa: S101
        seen = max(1, min(len(histogram.items), self.max_k))
        # The parent's law on a shorter window; super() does not see through slots.
        return StableTopK.law(replace(self, preference=replace(self.preference, max_k=seen)), histogram)
