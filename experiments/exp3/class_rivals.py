r"""Which draw of one class needs the least epsilon: the table of classes, and what else could have been taken.

All are put to the votes of the digits under REPLACE, and right is what they are right by their law, in floats: nothing is
released here. The rivals that are no aggregators of the package are priced by the best rule that is proved for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from cutline.arrays import FloatArray
from cutline.pate.aggregators.class_vote import ClassVote
from cutline.pate.aggregators.gaussian_votes import GNMax
from cutline.privacy import Adjacency, BitTable, BoundedRange, Budget, Cost, largest
from cutline.privacy.rules.rdp import rdp_within
from cutline.privacy.rules.registry import RULES
from experiments.exp3.digits import CLASSES, QUERIES, ClassPoll, poll_digits
from experiments.exp3.least_epsilon import least_epsilon
from experiments.exp3.sweeps import DELTA
from experiments.report import Cell, Table

TARGETS = (0.7, 0.78, 0.85)
_TRIED = (1.0, 2.0, 4.0, 8.0, 16.0)
_ORDERS = np.geomspace(1.5, 60.0, 25)  # for the table of the margin
_DRAWS = 40  # of noise, the same at every epsilon
_FASTEST = 10.0  # rate of the exponential mechanism at which hardly anything but the plurality comes out


def class_vote_needs(poll: ClassPoll, teachers: int, target: float) -> float | None:
    """Return the least epsilon of the table of classes."""

    def right(epsilon: float) -> float:
        weights = ClassVote.calibrate(_budget(epsilon), teachers=teachers, labels=CLASSES).weigh(poll.votes)
        exact = weights.astype(object)
        return _right(poll, np.asarray(exact / exact.sum(axis=1, keepdims=True), dtype=np.float64))

    return least_epsilon(right, _TRIED, target)


def noisy_max_needs(poll: ClassPoll, teachers: int, target: float) -> float | None:
    """Return the least epsilon of the largest noisy count."""
    noise = np.random.default_rng(0).normal(size=(_DRAWS, *poll.votes.shape))

    def right(epsilon: float) -> float:
        sigma = GNMax.calibrate(_budget(epsilon), teachers=teachers, labels=CLASSES).sigma
        return float(((poll.votes + sigma * noise).argmax(axis=2) == poll.truth).mean())

    return least_epsilon(right, _TRIED, target)


def exponential_needs(poll: ClassPoll, teachers: int, target: float) -> float | None:  # noqa: ARG001 - whatever their number
    """Return the least epsilon of the exponential mechanism on votes, by its exact composition, which is its best price."""

    def right(rate: float) -> float:
        weights = np.exp(rate / 2 * (poll.votes - poll.votes.max(axis=1, keepdims=True)))
        return _right(poll, weights / weights.sum(axis=1, keepdims=True))

    if right(_FASTEST) < target:
        return None
    rate = largest(lambda rate: right(rate) < target, low=1e-3, high=_FASTEST, relative=1e-4)
    total = QUERIES * Cost.of(BoundedRange(epsilon=rate), adjacency=Adjacency.REPLACE)
    needed = min(RULES[rule](total, DELTA) for rule in ("rdp", "exact"))
    return needed if needed <= _TRIED[-1] else None


def margin_needs(poll: ClassPoll, teachers: int, target: float) -> float | None:  # noqa: ARG001
    r"""Return the least epsilon, at the best order, of a bit table on the winner's margin, the others being equally likely.

    Neighbours with different winners have margins of at most 2 together, so at the distance 0 = ceil(margin / 2) - 1 all
    classes are equally likely; then one vote moves the distance by at most 1, and the winner against the rest is a coin.
    """
    ordered = np.sort(poll.votes, axis=1)
    distance = np.maximum(np.ceil((ordered[:, -1] - ordered[:, -2]) / 2).astype(np.int64) - 1, 0)
    hit = poll.votes.argmax(axis=1) == poll.truth

    def right(epsilon: float) -> float:
        best = 0.0
        for order in _ORDERS.tolist():
            rdp = rdp_within(order=order, epsilon=epsilon, delta=DELTA, slack=0.0) / QUERIES
            if rdp > 0:
                chance = BitTable.stability(order=order, rdp=rdp, delta=1 / CLASSES)(distance)
                best = max(best, float(np.where(hit, chance, (1 - chance) / (CLASSES - 1)).mean()))
        return best

    return least_epsilon(right, _TRIED, target)


RIVALS: Mapping[str, Callable[[ClassPoll, int, float], float | None]] = MappingProxyType(
    {
        "ClassVote": class_vote_needs,
        "GNMax": noisy_max_needs,
        "exponential mechanism": exponential_needs,
        "bit table on the margin": margin_needs,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalsCell:
    """All rivals on the same votes of several splits."""

    splits: int
    teachers: int
    targets: tuple[float, ...] = TARGETS

    def __call__(self, seed: int) -> dict[str, list[float | None]]:  # noqa: ARG002 - splits have seeds of their own
        """Return the epsilon that each rival needs for each share of right classes."""
        polls = [poll_digits(split, self.teachers) for split in range(self.splits)]
        poll = ClassPoll(*(np.concatenate(parts) for parts in zip(*polls, strict=True)))
        return {
            title: [needs(poll, self.teachers, target) for target in self.targets] for title, needs in RIVALS.items()
        }


def rivals_table(found: Mapping[str, list[float | None]], targets: tuple[float, ...], *, teachers: int) -> Table:
    """Return which epsilon each rival needs."""
    rows: list[tuple[Cell, ...]] = [
        (title, *(f"> {_TRIED[-1]:g}" if epsilon is None else f"{epsilon:.2f}" for epsilon in needed))
        for title, needed in found.items()
    ]
    return Table(
        name="digits-needed",
        title="Digits: epsilon that equal classes need, REPLACE",
        columns=("one draw a query", *(f"{target:g} right" for target in targets)),
        rows=tuple(rows),
        note=f"{teachers} logistic teachers, {QUERIES} public images, delta = 1e-6, the splits of the table above; searched to "
        "0.5%. The exponential mechanism is paid for by its exact composition, the margin at its best order.",
    )


def _right(poll: ClassPoll, laws: FloatArray) -> float:
    return float(laws[np.arange(len(laws)), poll.truth].mean())


def _budget(epsilon: float) -> Budget:
    return Budget(epsilon=epsilon, delta=DELTA, releases=QUERIES)
