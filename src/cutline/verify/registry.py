r"""Which suite of exhaustive checks belongs to which mechanism or aggregator: a new suite is a function and one line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cutline.errors import ParameterError
from cutline.verify.check import Check
from cutline.verify.suites.aggregators import gaussian_votes, stable_sets, table_votes
from cutline.verify.suites.mechanisms import (
    closed_domain,
    limited_domain,
    limited_rounds,
    stable_top_k,
    stable_top_k_fixed,
    test_first,
    top_stable,
)

SUITES: dict[str, Callable[[], list[Check]]] = {
    "stable-top-k": stable_top_k.checks,
    "test-first": test_first.checks,
    "stable-top-k-fixed": stable_top_k_fixed.checks,
    "peeling-em": closed_domain.peeling_em,
    "permute-and-flip": closed_domain.permute_and_flip,
    "limited-rounds": limited_rounds.checks,
    "limited-domain": limited_domain.checks,
    "top-stable": top_stable.checks,
    "joint-em": closed_domain.joint_em,
    "subset-em": closed_domain.subset_em,
    "optimal-vote": table_votes.optimal_vote,
    "stable-top-k-vote": stable_sets.stable_top_k_vote,
    "pate-gaussian": gaussian_votes.pate_gaussian,
    "pate-tau": gaussian_votes.pate_tau,
    "gnmax": gaussian_votes.gnmax,
    "binary-vote": gaussian_votes.binary_vote,
    "powerset-vote": gaussian_votes.powerset_vote,
    "stable-majority": table_votes.stable_majority,
    "stable-confident": stable_sets.stable_confident,
}


def checks(names: Sequence[str] | None = None) -> list[Check]:
    """Return the checks of the named mechanisms and aggregators, or of all; unknown names are refused."""
    for name in names or ():
        if name not in SUITES:
            raise ParameterError(
                "the mechanism or aggregator must be a registered one", f"{name!r}", f"Registered: {', '.join(SUITES)}."
            )
    return [check for name in names or SUITES for check in SUITES[name]()]
