r"""What the paper's setting of EXP3 costs: as printed, by its own corollary, and rigorously under both relations.

The setting: 600 queries, Gaussian noise of standard deviation 50 for choosing k among the gaps of 40 labels and of 60 for the
test, delta_t = 1e-9 for each test, delta = 1e-6 in all [ZW22, EXP3]. Figures up to the binary charge are those of
docs/errata.md, where each is derived.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cutline.mechanisms.adaptive.gap_tests import exact_offset
from cutline.privacy import (
    ZCDP,
    Adjacency,
    BitTable,
    BoundedRange,
    Cost,
    Curve,
    Gaussian,
    GaussianBit,
    NoisyMaxGaussian,
    largest,
)
from cutline.privacy.curves.bit_table import biases
from cutline.privacy.rules.registry import RULES
from experiments.report import Cell, Table

QUERIES, LABELS, DELTA = 600, 40, 1e-6
CHOOSING, TESTING, TEST_DELTA = 50.0, 60.0, 1e-9
GAP = 486  # passes the paper's test with probability 0.95
SCALE = CHOOSING * math.sqrt(6) / math.pi  # of Gumbel noise with that standard deviation
_SURE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperSetting:
    """A bit table in the paper's place: built at one order for one delta, as cheap as its gap of 486 allows."""

    adjacency: Adjacency
    order: float
    delta: float

    @property
    def distance(self) -> int:
        """The distance to instability at the gap."""
        return int(self.adjacency.distance(np.array([GAP]))[0])

    def cost(self) -> Cost:
        """Return the cost of choosing by Gumbel noise and testing by the table, once."""
        rdp = least_rdp(order=self.order, delta=self.delta, distance=self.distance)
        table = BitTable.stability(order=self.order, rdp=rdp, delta=self.delta)
        return _choice(self.adjacency) + Cost.of(table, adjacency=self.adjacency, delta=table.values[0])


# The best on a coarse grid of orders from 2 to 60 and of delta_t from 1e-12 to 1e-9, for each rule.
BEST_EXACT = (
    PaperSetting(adjacency=Adjacency.ADD_REMOVE, order=35.0, delta=3e-11),
    PaperSetting(adjacency=Adjacency.REPLACE, order=18.0, delta=3e-11),
)
BEST_RDP = (
    PaperSetting(adjacency=Adjacency.ADD_REMOVE, order=9.0, delta=3e-12),
    PaperSetting(adjacency=Adjacency.REPLACE, order=5.0, delta=3e-12),
)
AS_PRINTED = tuple(PaperSetting(adjacency=best.adjacency, order=best.order, delta=TEST_DELTA) for best in BEST_EXACT)


def privacy_table(
    needed: Mapping[str, Mapping[Adjacency, Cell]], others: Mapping[str, str], *, accuracy: float
) -> Table:
    """Return the table; ``needed``: where our aggregators reached the accuracy, ``others``: with other queries."""
    rows: list[tuple[Cell, ...]] = [
        ("the paper's claim", 3.6, None, "no derivation"),
        ("its corollary for Gaussian noisy max", corollary(), None, "logarithm of 40 paid 600 times; not for REPLACE"),
        ("the whole vector of noisy gaps", vector(), None, "RDP"),
        ("as if each step released one number", one_number(), None, "RDP, the paper's conversion; not a proof"),
    ]
    full = {adjacency: gumbel(adjacency) for adjacency in Adjacency}
    for rule, name in (("rdp-classic", "the paper's conversion"), ("rdp", "tight conversion")):
        rows.append((f"Gumbel noise of equal deviation, {name}", *_both(full, rule), "RDP, full Gaussian charge"))
    bits = {adjacency: binary(adjacency) for adjacency in Adjacency}
    rows.append(("Gumbel noise, the test charged as the bit it is", *_both(bits, "rdp"), "RDP, exact curves"))
    for rule, settings in (("exact", AS_PRINTED), ("exact", BEST_EXACT), ("rdp", BEST_RDP)):
        costs = {each.adjacency: each.cost() for each in settings}
        how = " and ".join(f"order {each.order:g}, delta_t {each.delta:.0e}" for each in settings)
        rows.append(("Gumbel noise and our bit table at the same gap", *_both(costs, rule), f"{rule}; {how}"))
    for name, found_needed in needed.items():
        rows.append(
            (
                f"{name}, simulated ballots, accuracy {accuracy:g}",
                found_needed[Adjacency.ADD_REMOVE],
                found_needed[Adjacency.REPLACE],
                f"calibrated; every query labelled; {others[name]}",
            )
        )
    return Table(
        name="privacy",
        title=f"Epsilon of {QUERIES} queries at delta = 1e-6",
        columns=("what is charged", "ADD_REMOVE", "REPLACE", "rule and setting"),
        rows=tuple(rows),
        note="ADD_REMOVE: a teacher's ballot joins or leaves, the paper's reading. REPLACE: one private record changes a whole "
        'ballot, which is what PATE must protect. "Same gap" is 486, where the paper\'s test passes with probability 0.95.',
    )


def corollary() -> float:
    """Return what the paper's corollary gives, by its own conversion."""
    choose, test = NoisyMaxGaussian(sigma=CHOOSING, choices=LABELS), Gaussian(sigma=TESTING)
    left = DELTA - QUERIES * TEST_DELTA
    orders = 1 + np.exp(np.linspace(-1, 5, 2000))
    epsilons = (QUERIES * (choose.corollary(a) + test.rdp(a)) + math.log(1 / left) / (a - 1) for a in orders.tolist())
    return float(min(epsilons))


def vector() -> float:
    """Return what releasing all 39 noisy gaps would cost, and the test."""
    choose = _of(NoisyMaxGaussian(sigma=CHOOSING, choices=LABELS - 1))
    return RULES["rdp"](QUERIES * (choose + _of(Gaussian(sigma=TESTING), TEST_DELTA)), DELTA)


def one_number() -> float:
    """Return what comes out if each step is charged as one number of sensitivity 1; no proof is known."""
    cost = _of(Gaussian(sigma=CHOOSING)) + _of(Gaussian(sigma=TESTING), TEST_DELTA)
    return RULES["rdp-classic"](QUERIES * cost, DELTA)


def gumbel(adjacency: Adjacency) -> Cost:
    """Return the cost of one query with Gumbel noise as zCDP and the full Gaussian charge for the test."""
    rho = (adjacency.gap_range / SCALE) ** 2 / 8
    test = Gaussian(sigma=TESTING, squared_sensitivity=float(adjacency.gap_change**2))
    return _of(ZCDP(rho=rho), adjacency=adjacency) + _of(test, TEST_DELTA, adjacency=adjacency)


def binary(adjacency: Adjacency) -> Cost:
    """Return the cost of one query with exact curves: bounded range, and the test's one bit."""
    bit = GaussianBit(sigma=TESTING, offset=exact_offset(TEST_DELTA), reach=adjacency.gap_change)
    return _choice(adjacency) + _of(bit, TEST_DELTA, adjacency=adjacency)


def least_rdp(*, order: float, delta: float, distance: int) -> float:
    """Return the smallest cost at which a stability table passes with probability 0.95 at the distance; a hair above."""

    def sure(inverse: float) -> bool:
        steps = biases(delta, order=order, rdp=1 / inverse, stop=1 - _SURE)
        return next((n for n, p in enumerate(steps) if p >= _SURE or n > distance), distance) <= distance

    return (1 + 1e-6) / largest(sure, low=1.0, high=1e6, relative=1e-6)


def _choice(adjacency: Adjacency) -> Cost:
    return _of(BoundedRange(epsilon=adjacency.gap_range / SCALE), adjacency=adjacency)


def _of(curve: Curve, delta: float = 0.0, *, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Cost:
    return Cost.of(curve, adjacency=adjacency, delta=delta)


def _both(costs: dict[Adjacency, Cost], rule: str) -> tuple[float, float]:
    add, replace = (RULES[rule](QUERIES * costs[each], DELTA) for each in (Adjacency.ADD_REMOVE, Adjacency.REPLACE))
    return add, replace
