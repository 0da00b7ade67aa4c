r"""Privacy is verified, not asserted: exact laws of all small inputs, every pair of neighbours, no violation."""

from cutline.verify.check import Check, Report
from cutline.verify.registry import checks
from cutline.verify.run import run_checks

__all__ = ["Check", "Report", "checks", "run_checks"]
