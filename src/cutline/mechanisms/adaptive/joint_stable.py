r"""StableTopK by one draw: where the top ends and whether to show it, drawn together and paid for once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from cutline.errors import ParameterError
from cutline.mechanisms.adaptive.best_form import calibrate_wished
from cutline.mechanisms.adaptive.choosers import Preference
from cutline.mechanisms.adaptive.joint_draw import JointDraw
from cutline.mechanisms.adaptive.stable_top_k import StableSet
from cutline.mechanisms.base import Parameter, declare
from cutline.privacy import Adjacency, Budget, Filter
from cutline.privacy.curves.base import check_flag


@dataclass(frozen=True, slots=True, kw_only=True)
class JointStable(StableSet):
    r"""The top set at a privately chosen k, unordered and without noise, or nothing; both decided by one draw.

    Choosing k and testing it are two steps with two prices. Here the set at k goes out with probability
    ``b_k^2 / (1 + b_k B)``, with ``b_k = w_k exp(epsilon d_k / 2)`` and B the sum of all b_k, and nothing otherwise: for one or
    two releases that needs the smallest gap. It is what ``stable-top-k`` takes by itself where it is best.

    **Privacy.** (epsilon, delta)-DP under the stated adjacency; among other releases, delta-approximate at the curve of pure
    DP [docs/proofs/joint-stable.md]. A withheld release does not show k.

    Parameters
    ----------
    preference
        The window of k, and perhaps a clip; public.
    chooser
        The `JointDraw`: epsilon, delta and the public prior.

    Examples
    --------
    >>> from cutline.mechanisms.one_gap import one_gap
    >>> joint = JointStable.calibrate(Budget(epsilon=1.0, delta=1e-6), max_k=100)
    >>> one_gap(joint.chance, max_k=100)
    22
    """

    name: ClassVar[str] = "joint-stable"
    reference: ClassVar[str] = "this project"
    cost_rule: ClassVar[str] = "one pure step + delta"
    parameters: ClassVar[tuple[Parameter, ...]] = declare("max_k", "min_k", "clip", "prior", "prefer_larger")

    def __post_init__(self) -> None:
        StableSet.__post_init__(self)
        if not isinstance(self.chooser, JointDraw):
            raise ParameterError("joint-stable draws once", f"choose={self.chooser.name}", "Use stable-top-k.")

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
        limits: Filter | None = None,
        max_k: int = 100,
        min_k: int = 1,
        clip: int | None = None,
        prior: Sequence[float] | None = None,
        prefer_larger: bool = False,
    ) -> Self:
        r"""Calibrate as `Mechanism.calibrate` says.

        Of releases that are planned together, epsilons and deltas are added, or the optimal composition of pure steps is
        taken, whichever needs the smaller gap.

        Parameters
        ----------
        max_k, min_k
            The window k is chosen from; all of it, however few items were seen.
        clip
            A gap above this counts as this.
        prior
            A positive number for every k of the window, how much it is wished for: twice the number makes k twice as likely
            beside others, and is worth ``1.4 / epsilon`` users of gap (twice that under REPLACE). It must be public.
        prefer_larger
            The prior that grows like k, and a clip at the gap that is shown 99 times in 100 at any k: of cuts whose gaps are
            that large, each is drawn with a probability proportional to its k.
        """
        adjacency = Adjacency(adjacency)
        preference, joint = calibrate_wished(
            budget,
            limits,
            adjacency=adjacency,
            preference=Preference(max_k=max_k, min_k=min_k, clip=clip),
            prior=prior,
            prefer_larger=check_flag("prefer_larger", prefer_larger),
        )
        return cls(preference=preference, chooser=joint, adjacency=adjacency, budget=budget)
