"""Which items are at the top, and where does the top end? Answered under differential privacy, exactly.

Names are loaded when they are first used, so that ``import cutline`` and ``cutline --help`` cost nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cutline.version import __version__

if TYPE_CHECKING:
    from cutline.api import count, plan, top
    from cutline.errors import CutlineError
    from cutline.grouped import top_by
    from cutline.histogram import ClosedHistogram, OpenHistogram
    from cutline.ledger import Ledger
    from cutline.mechanisms import StableTopK
    from cutline.pate.classifier import PATEClassifier
    from cutline.privacy import Adjacency, BitTable, Budget, Cost, Filter
    from cutline.release import Release

__all__ = [
    "Adjacency",
    "BitTable",
    "Budget",
    "ClosedHistogram",
    "Cost",
    "CutlineError",
    "Filter",
    "Ledger",
    "OpenHistogram",
    "PATEClassifier",
    "Release",
    "StableTopK",
    "__version__",
    "count",
    "plan",
    "top",
    "top_by",
]

_HOMES = {
    "cutline.api": ("count", "plan", "top"),
    "cutline.errors": ("CutlineError",),
    "cutline.grouped": ("top_by",),
    "cutline.histogram": ("ClosedHistogram", "OpenHistogram"),
    "cutline.ledger": ("Ledger",),
    "cutline.mechanisms": ("StableTopK",),
    "cutline.pate.classifier": ("PATEClassifier",),
    "cutline.privacy": ("Adjacency", "BitTable", "Budget", "Cost", "Filter"),
    "cutline.release": ("Release",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(home), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'cutline' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
