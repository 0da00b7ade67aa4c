"""Random costs on the whole grid against the oracle of sixty digits: no rule may be optimistic, and none may fail."""

from __future__ import annotations

import math
import random
import warnings

from cutline.privacy import (
    ZCDP,
    Adjacency,
    BitTable,
    BoundedRange,
    Cost,
    Curve,
    Gaussian,
    GaussianBit,
    LimitedDomainDraws,
    NoisyMaxGaussian,
    Pure,
)
from cutline.privacy.curves.pure import OneOrder
from cutline.privacy.rules.registry import RULES
from fuzz.oracle import delta_at, divergence
from fuzz.target import Case, Found


def rules(case: Case) -> None:
    """Compose one or two random curves and ask every rule at a random delta."""
    chance = case.random
    total = Cost(adjacency=Adjacency.ADD_REMOVE)
    delta = chance.choice((0.5, 10 ** chance.uniform(-12, -0.3), 10 ** chance.uniform(-200, -12)))
    for _ in range(1 if case.size < 4 else 2):
        curve = random_curve(chance)
        own = chance.choice((0.0, 0.0, delta * 1e-3))
        times = round(math.exp(chance.uniform(0, math.log(10) * min(case.size, 5))))
        total += times * Cost.of(curve, adjacency=Adjacency.ADD_REMOVE, delta=min(own / times, 0.5))
        order = 1 + math.exp(chance.uniform(-9, 15))
        if not curve.rdp(order) >= divergence(curve, order):
            raise Found(f"{curve}: optimistic at order {order!r}")
    for name, rule in RULES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            epsilon = rule(total, delta)
        if not epsilon >= 0 or (epsilon < math.inf and not delta_at(total, epsilon) <= delta):
            raise Found(f"{name} is optimistic: {total} at delta={delta!r} gives {epsilon!r}")


def random_curve(chance: random.Random) -> Curve:
    """Return a curve of any kind, its parameters on a logarithmic scale."""
    sigma, epsilon = 10 ** chance.uniform(-2, 12), 10 ** chance.uniform(-9, math.log10(50))
    small = 10 ** chance.uniform(-200, -0.4)
    curves: list[Curve] = [
        Gaussian(sigma=sigma, squared_sensitivity=chance.choice((1.0, 2.0, 4.0))),
        ZCDP(rho=10 ** chance.uniform(-20, 3)),
        NoisyMaxGaussian(sigma=sigma, choices=chance.randint(1, 99), change=chance.choice((1, 2))),
        Pure(epsilon=epsilon),
        OneOrder(order=1 + 10 ** chance.uniform(-2, 6), bound=10 ** chance.uniform(-9, 2)),
        BoundedRange(epsilon=epsilon),
        LimitedDomainDraws(k=chance.randint(1, 99), epsilon=epsilon, delta=small),
        GaussianBit(sigma=10 ** chance.uniform(-2, 3), offset=chance.uniform(-2, 30), reach=chance.choice((1, 2))),
        GaussianBit(sigma=10 ** chance.uniform(6, 12), offset=chance.uniform(0, 30), reach=1),
        BitTable.stability(order=1 + 10 ** chance.uniform(-1, 2), rdp=10 ** chance.uniform(-2, 1), delta=small),
    ]
    return chance.choice(curves)
