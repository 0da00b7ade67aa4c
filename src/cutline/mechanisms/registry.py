r"""Which mechanisms there are: a new one is a new file plus one line here."""

from __future__ import annotations

from cutline.errors import ParameterError
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.mechanisms.base import Mechanism
from cutline.mechanisms.closed.joint import JointEM
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.closed.permute_and_flip import PermuteAndFlip
from cutline.mechanisms.closed.subset import SubsetEM
from cutline.mechanisms.fixed.stable_fixed import StableTopKFixed
from cutline.mechanisms.fixed.test_first import TestFirst
from cutline.mechanisms.open.limited_domain import LimitedDomain
from cutline.mechanisms.open.limited_rounds import LimitedRounds
from cutline.mechanisms.open.top_stable import TopStable

MECHANISMS: tuple[type[Mechanism], ...] = (
    StableTopK,
    TestFirst,
    StableTopKFixed,
    PeelingEM,
    PermuteAndFlip,
    LimitedRounds,
    LimitedDomain,
    TopStable,
    JointEM,
    SubsetEM,
)


def mechanism(name: str) -> type[Mechanism]:
    """Return the mechanism class of that name; an unknown name is refused."""
    by_name = {kind.name: kind for kind in MECHANISMS}
    if name not in by_name:
        raise ParameterError(
            "the mechanism must be a registered one", f"{name!r}", f"Registered: {', '.join(by_name)}."
        )
    return by_name[name]
