"""Which items are at the top, and where does the top end? Answered under differential privacy, exactly.

Names are loaded when they are first used, so that ``import cutline`` and ``cutline --help`` cost nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cutline.version import __version__

if TYPE_CHECKING:
    from cutline.api import count, plan, quote, read_answer, top, top_by
    from cutline.errors import CutlineError
    from cutline.explain import explain
    from cutline.histogram import BoundedHistogram, ClosedHistogram, OpenHistogram
    from cutline.ledger import Ledger
    from cutline.mechanisms import StableTopK
    from cutline.pate.classifier import PATEClassifier
    from cutline.pate.label import label
    from cutline.pate.partition import partition
    from cutline.pate.planning import plan_labels
    from cutline.privacy import Adjacency, BitTable, Budget, Cost, Filter
    from cutline.release import Release

__all__ = [
    "Adjacency",
    "BitTable",
    "BoundedHistogram",
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
    "explain",
    "label",
    "partition",
    "plan",
    "plan_labels",
    "quote",
    "read_answer",
    "top",
    "top_by",
]

_HOMES = {
    "cutline.api": ("count", "plan", "quote", "read_answer", "top", "top_by"),
    "cutline.errors": ("CutlineError",),
    "cutline.explain": ("explain",),
    "cutline.histogram": ("BoundedHistogram", "ClosedHistogram", "OpenHistogram"),
    "cutline.ledger": ("Ledger",),
    "cutline.mechanisms": ("StableTopK",),
    "cutline.pate.classifier": ("PATEClassifier",),
    "cutline.pate.label": ("label",),
    "cutline.pate.partition": ("partition",),
    "cutline.pate.planning": ("plan_labels",),
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


class _Face(ModuleType):
    """The package as its users see it: a verb keeps its name although a module is called the same, like ``quote``."""

    def __setattr__(self, name: str, value: object) -> None:
        # Importing a module binds its name in the package; a public verb of that name must not disappear behind it.
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face
