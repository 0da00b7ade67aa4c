r"""Every mechanism, one file each, and the registry that feeds the command line, `verify`, the contract tests and the docs."""

from cutline.mechanisms.registry import MECHANISMS, Mechanism, mechanism
from cutline.mechanisms.stable_top_k import StableTopK

__all__ = ["MECHANISMS", "Mechanism", "StableTopK", "mechanism"]
