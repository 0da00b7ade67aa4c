r"""Privacy is verified, not asserted: exact laws of all small inputs, every pair of neighbours, no violation."""

from cutline.verify.check import Check, Report
from cutline.verify.suite import checks

__all__ = ["Check", "Report", "checks"]
