r"""Privacy is verified, not asserted: exact laws of all small inputs, every pair of neighbours, no violation.

A new mechanism or aggregator brings its suite of checks: a function and one line here, or a row of the aggregators' table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from cutline.errors import ParameterError
from cutline.pate.aggregators.registry import AGGREGATORS
from cutline.verify.check import Check, Report
from cutline.verify.run import run_checks
from cutline.verify.suites import aggregators
from cutline.verify.suites.mechanisms import (
    bounded,
    closed_domain,
    fixed_k,
    hinted,
    joint_stable,
    limited_domain,
    peel_then_test,
    stable_top_k,
    top_stable,
)

__all__ = ["Check", "Report", "checks", "run_checks"]

SUITES: dict[str, Callable[[], list[Check]]] = {
    "stable-top-k": lambda: stable_top_k.checks() + hinted.checks(),
    "joint-stable": joint_stable.checks,
    "test-first": fixed_k.test_first,
    "stable-top-k-fixed": fixed_k.stable_top_k_fixed,
    "peeling-em": closed_domain.peeling_em,
    "permute-and-flip": closed_domain.permute_and_flip,
    "find-then-choose": bounded.find_then_choose,
    "peel-then-test": peel_then_test.checks,
    "table-threshold": bounded.table_threshold,
    "limited-rounds": limited_domain.limited_rounds,
    "limited-domain": limited_domain.limited_domain,
    "top-stable": top_stable.checks,
    "joint-em": closed_domain.joint_em,
    "subset-em": closed_domain.subset_em,
    **{kind.name: partial(aggregators.checks, kind.name) for kind in AGGREGATORS},
}


def checks(names: Sequence[str] | None = None) -> list[Check]:
    """Return the checks of the named mechanisms and aggregators, or of all; unknown names are refused."""
    for name in names or ():
        if name not in SUITES:
            raise ParameterError(
                "the mechanism or aggregator must be a registered one", f"{name!r}", f"Registered: {', '.join(SUITES)}."
            )
    return [check for name in names or SUITES for check in SUITES[name]()]
