r"""What the suites of selection from a closed domain share: their sizes, and all of the two that draw at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cutline.mechanisms.closed.joint import JointEM
from cutline.mechanisms.closed.subset import SubsetEM
from cutline.privacy import Adjacency
from cutline.verify.check import Check, Subject
from cutline.verify.suites.shared import Altered, Named, Relabelled, controls_of, holds

Cases = Mapping[str, tuple[tuple[int, float], ...]]  # by universe: k and epsilon

# Rounds can draw every candidate; a draw of all at once leaves at least one out.
IN_ROUNDS: Cases = {
    "closed 4 x 6": ((1, 1.0), (2, 0.8), (3, 0.5)),
    "closed 3 x 6": ((2, 2.0), (3, 0.7)),
    "closed 2 x 24": ((1, 0.3), (2, 1.5)),
}
AT_ONCE: Cases = {
    "closed 4 x 6": ((1, 1.0), (2, 0.8), (3, 2.0)),
    "closed 3 x 6": ((1, 0.5), (2, 1.5)),
    "closed 2 x 24": ((1, 0.3),),
}


def selections(kind: Callable[..., Named], cases: Cases) -> list[Check]:
    """Return the checks that a selection of k candidates keeps its claim."""
    return [
        holds(f"k={k}, epsilon={epsilon}", kind(k=k, epsilon=epsilon, adjacency=adjacency), size, max_k=k)
        for adjacency in Adjacency
        for size, parameters in cases.items()
        for k, epsilon in parameters
    ]


def drawn_at_once(kind: type[JointEM | SubsetEM], called: str) -> list[Check]:
    """Return all checks of a mechanism that draws its k candidates at once, and its negative controls."""
    adds, replaces = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    two = kind(k=2, epsilon=1.0, adjacency=adds)
    wrong: dict[str, Subject] = {
        f"{called}, weights exp(eps u)": HalfNoise(subject=two),
        f"{called}, weights exp(eps u) under replace": HalfNoise(subject=replace(two, adjacency=replaces)),
        f"{called}, add-remove constants under replace": Relabelled(subject=two, adjacency=replaces),
    }
    return selections(kind, AT_ONCE) + controls_of(kind.name, wrong, "closed 4 x 6", max_k=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfNoise(Altered):
    """Weights ``exp(epsilon * u)``, as if one person moved all utilities in one direction, at the price of epsilon."""

    subject: JointEM | SubsetEM

    def law(self, data: Any, /) -> Mapping[Hashable, float]:
        return replace(self.subject, epsilon=self.subject.adjacency.gap_range * self.subject.epsilon).law(data)
