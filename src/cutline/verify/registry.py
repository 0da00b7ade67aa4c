r"""Which suite of exhaustive checks belongs to which mechanism or aggregator: a new suite is a new file plus one line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cutline.errors import ParameterError
from cutline.verify.check import Check
from cutline.verify.suites.aggregators import (
    binary_vote,
    gnmax,
    optimal_vote,
    pate_gaussian,
    pate_tau,
    powerset_vote,
    stable_confident,
    stable_majority,
    stable_top_k_vote,
)
from cutline.verify.suites.mechanisms import (
    joint_em,
    limited_domain,
    limited_rounds,
    peeling_em,
    permute_and_flip,
    stable_top_k,
    stable_top_k_fixed,
    subset_em,
    test_first,
    top_stable,
)

SUITES: dict[str, Callable[[], list[Check]]] = {
    "stable-top-k": stable_top_k.checks,
    "test-first": test_first.checks,
    "stable-top-k-fixed": stable_top_k_fixed.checks,
    "peeling-em": peeling_em.checks,
    "permute-and-flip": permute_and_flip.checks,
    "limited-rounds": limited_rounds.checks,
    "limited-domain": limited_domain.checks,
    "top-stable": top_stable.checks,
    "joint-em": joint_em.checks,
    "subset-em": subset_em.checks,
    "optimal-vote": optimal_vote.checks,
    "stable-top-k-vote": stable_top_k_vote.checks,
    "pate-gaussian": pate_gaussian.checks,
    "pate-tau": pate_tau.checks,
    "gnmax": gnmax.checks,
    "binary-vote": binary_vote.checks,
    "powerset-vote": powerset_vote.checks,
    "stable-majority": stable_majority.checks,
    "stable-confident": stable_confident.checks,
}


def checks(names: Sequence[str] | None = None) -> list[Check]:
    """Return the checks of the named mechanisms and aggregators, or of all; unknown names are refused."""
    for name in names or ():
        if name not in SUITES:
            raise ParameterError(
                "the mechanism or aggregator must be a registered one", f"{name!r}", f"Registered: {', '.join(SUITES)}."
            )
    return [check for name in names or SUITES for check in SUITES[name]()]
