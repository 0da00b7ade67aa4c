r"""The exhaustive checks of SubsetEM, and its negative controls."""

from __future__ import annotations

from cutline.mechanisms.closed.subset import SubsetEM
from cutline.verify.check import Check
from cutline.verify.suites.mechanisms.closed_domain import drawn_at_once


def checks() -> list[Check]:
    """Return all checks of SubsetEM."""
    return drawn_at_once(SubsetEM, "subset EM")
