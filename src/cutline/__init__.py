"""Which items are at the top, and where does the top end? Answered under differential privacy, exactly."""

from __future__ import annotations

__version__ = "0.1.0"
