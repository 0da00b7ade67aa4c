"""The judge of one pair of laws: optimal, strict to a hair, and without overflow."""

import math

import numpy as np
import pytest
from flint import arb
from scipy.optimize import minimize

from cutline.verify.claim import closest, converted, judge


def test_closest_pair_is_optimal_against_a_numerical_optimiser():
    rng = np.random.default_rng(0)
    for _ in range(12):
        p, q = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
        delta, order = float(rng.uniform(0.02, 0.3)), float(rng.uniform(1.3, 6.0))
        high_p, high_q = p / (1 - delta), q / (1 - delta)
        ratios, kept = closest(high_p[None], high_q[None])
        ours = math.log(max(1.0, float((kept * ratios ** (order - 1)).sum()))) / (order - 1)

        def divergence(z, order=order):
            a, b = z[:4], z[4:]
            return math.log(max(1e-300, float(np.sum(a**order * np.maximum(b, 1e-12) ** (1 - order))))) / (order - 1)

        found = minimize(
            divergence,
            np.concatenate([p, q]),
            bounds=[(1e-9, u) for u in [*high_p, *high_q]],
            constraints=[
                {"type": "eq", "fun": lambda z: z[:4].sum() - 1},
                {"type": "eq", "fun": lambda z: z[4:].sum() - 1},
            ],
            options={"maxiter": 500, "ftol": 1e-12},
        )
        assert ours == pytest.approx(found.fun, abs=2e-5)


def test_a_claim_a_hair_too_small_is_caught():
    p, q = np.array([[0.6, 0.4]]), np.array([[0.5, 0.5]])
    exact = float((arb(0.6) ** 2 / arb(0.5) + arb(0.4) ** 2 / arb(0.5)).log())
    none = np.array([])
    assert judge(p, q, delta=0.0, rdp={2.0: exact}, epsilons=none).violations == 0
    assert judge(p, q, delta=0.0, rdp={2.0: exact * (1 - 1e-6)}, epsilons=none).violations == 1


def test_one_sided_mass_needs_delta():
    p, q = np.array([[0.95, 0.05]]), np.array([[1.0, 0.0]])
    none = np.array([])
    assert judge(p, q, delta=0.05, rdp={2.0: 0.0}, epsilons=none).violations == 0
    assert judge(p, q, delta=0.049, rdp={2.0: 5.0}, epsilons=none).violations == 1


def test_hockey_stick_alone_can_fail_a_claim():
    p, q = np.array([[0.9, 0.1]]), np.array([[0.1, 0.9]])
    assert judge(p, q, delta=0.0, rdp={64.0: 0.5}, epsilons=np.array([0.5])).violations == 1
    assert converted(0.5, {64.0: 0.5}) < 0.1


def test_a_large_ratio_at_a_high_order_is_judged_without_overflow():
    p, q, none = np.array([[0.1, 0.9]]), np.array([[1e-8, 1 - 1e-8]]), np.array([])
    divergence = (math.log(0.1) + 63 * math.log(1e7)) / 63  # the other outcome adds nothing a float could show
    assert judge(p, q, delta=0.0, rdp={64.0: divergence * (1 + 1e-7)}, epsilons=none).violations == 0
    assert judge(p, q, delta=0.0, rdp={64.0: divergence * (1 - 1e-7)}, epsilons=none).violations == 1


def test_the_claim_at_order_infinity_is_checked_too():
    p, q = np.array([[1e-6, 1 - 1e-6]]), np.array([[1e-6 / 3, 1 - 1e-6 / 3]])
    none = np.array([])
    assert judge(p, q, delta=0.0, rdp={64.0: 1.0, math.inf: 1.0}, epsilons=none).violations == 1
    assert judge(p, q, delta=0.0, rdp={64.0: 1.1, math.inf: 1.1}, epsilons=none).violations == 0
