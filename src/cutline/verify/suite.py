r"""All exhaustive checks: one suite for each registered mechanism, positive checks and negative controls together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cutline.mechanisms.registry import MECHANISMS, mechanism
from cutline.verify.check import Check
from cutline.verify.suites.mechanisms import (
    joint_em,
    limited_domain,
    limited_rounds,
    noisy_choosers,
    peeling_em,
    permute_and_flip,
    stable_top_k,
    stable_top_k_fixed,
    subset_em,
    test_first,
    top_stable,
)

SUITES: dict[str, Callable[[], list[Check]]] = {
    "stable-top-k": lambda: [*stable_top_k.checks(), *noisy_choosers.checks()],
    "test-first": test_first.checks,
    "stable-top-k-fixed": stable_top_k_fixed.checks,
    "peeling-em": peeling_em.checks,
    "permute-and-flip": permute_and_flip.checks,
    "limited-rounds": limited_rounds.checks,
    "limited-domain": limited_domain.checks,
    "top-stable": top_stable.checks,
    "joint-em": joint_em.checks,
    "subset-em": subset_em.checks,
}


def checks(names: Sequence[str] | None = None) -> list[Check]:
    """Return the checks of the named mechanisms, or of all; unknown names are refused."""
    for name in names or ():
        mechanism(name)
    return [check for name in names or MECHANISMS for check in SUITES[name]()]
