r"""The rules that turn a cost, fixed in advance, into an epsilon at a given delta. The smallest valid one is the answer.

Every rule is a function ``(cost, delta) -> epsilon`` that is right or infinite, never optimistic; a rule that does not
apply to a cost returns infinity. Most rules price a bag of uses, in whatever order they are played. A planned rule prices a
number of releases of one kind, one after the other: it is slower and tighter, and asked only where the plan is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from cutline.privacy.curves.base import Composition
from cutline.privacy.rules.adaptive import adaptive
from cutline.privacy.rules.advanced import advanced
from cutline.privacy.rules.exact import exact
from cutline.privacy.rules.gdp import gdp
from cutline.privacy.rules.pld import pld
from cutline.privacy.rules.pure import pure
from cutline.privacy.rules.rdp import rdp, rdp_classic
from cutline.privacy.rules.zcdp import zcdp

Rule: TypeAlias = Callable[[Composition, float], float]


class PlannedRule(Protocol):
    """A rule for ``releases`` releases, each of which costs ``cost``, that come one after the other."""

    def __call__(self, cost: Composition, delta: float, *, releases: int = 1) -> float: ...


# Quick ones first: a budget asks one after another until one is enough.
RULES: dict[str, Rule] = {
    "rdp": rdp,
    "rdp-classic": rdp_classic,
    "zcdp": zcdp,
    "gdp": gdp,
    "pure": pure,
    "advanced": advanced,
    "exact": exact,
    "pld": pld,
}

PLANNED_RULES: dict[str, PlannedRule] = {"adaptive": adaptive}
