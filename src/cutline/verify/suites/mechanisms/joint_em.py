r"""The exhaustive checks of JointEM, and its negative controls."""

from __future__ import annotations

from cutline.mechanisms.closed.joint import JointEM
from cutline.verify.check import Check
from cutline.verify.suites.mechanisms.closed_domain import drawn_at_once


def checks() -> list[Check]:
    """Return all checks of JointEM."""
    return drawn_at_once(JointEM, "joint EM")
