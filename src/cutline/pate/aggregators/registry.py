r"""Which aggregators there are: a new one is a new file plus one line here."""

from __future__ import annotations

from cutline.errors import ParameterError
from cutline.pate.aggregators.base import Aggregator
from cutline.pate.aggregators.class_vote import ClassVote
from cutline.pate.aggregators.confident import ConfidentClassVote, ConfidentGNMax
from cutline.pate.aggregators.gaussian_votes import BinaryVote, GNMax, PateGaussian, PateTau, PowersetVote
from cutline.pate.aggregators.optimal_vote import OptimalVote
from cutline.pate.aggregators.stable_sets import StableConfident, StableMajority, StableTopKVote

AGGREGATORS: tuple[type[Aggregator], ...] = (
    OptimalVote,
    StableTopKVote,
    PateGaussian,
    PateTau,
    GNMax,
    BinaryVote,
    PowersetVote,
    StableMajority,
    StableConfident,
    ClassVote,
    ConfidentClassVote,
    ConfidentGNMax,
)


def aggregator(name: str) -> type[Aggregator]:
    """Return the aggregator class of that name, or raise and list the names there are."""
    for kind in AGGREGATORS:
        if kind.name == name:
            return kind
    names = ", ".join(kind.name for kind in AGGREGATORS)
    raise ParameterError("the aggregator must be a registered one", f"{name!r}", f"Registered: {names}.")
