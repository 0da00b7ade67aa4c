r"""Every mechanism, one file each, and the registry that feeds the command line, `verify`, the contract tests and the docs."""

from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.mechanisms.base import Mechanism
from cutline.mechanisms.registry import MECHANISMS, mechanism

__all__ = ["MECHANISMS", "Mechanism", "StableTopK", "mechanism"]
