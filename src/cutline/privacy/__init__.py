r"""Arithmetic about privacy: who is protected, what a use costs, what a budget allows.

Everything here is public, inert data and pure functions. Nothing draws a random bit and nothing sees a log.
"""

from cutline.privacy.adjacency import Adjacency
from cutline.privacy.budget import Budget, Filter
from cutline.privacy.cost import Cost
from cutline.privacy.curves.base import Curve, Use
from cutline.privacy.curves.bit_table import BitTable
from cutline.privacy.curves.bounded_range import BoundedRange, LimitedDomainDraws
from cutline.privacy.curves.gaussian import ZCDP, Gaussian, NoisyMaxGaussian
from cutline.privacy.curves.gaussian_bit import GaussianBit
from cutline.privacy.curves.pure import OneOrder, Pure
from cutline.privacy.curves.weighted_table import WeightedTable
from cutline.rounding import largest

__all__ = [
    "ZCDP",
    "Adjacency",
    "BitTable",
    "BoundedRange",
    "Budget",
    "Cost",
    "Curve",
    "Filter",
    "Gaussian",
    "GaussianBit",
    "LimitedDomainDraws",
    "NoisyMaxGaussian",
    "OneOrder",
    "Pure",
    "Use",
    "WeightedTable",
    "largest",
]
