r"""One class out of ten: real teachers of handwritten digits, each with one vote, and what aggregators make of the votes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cutline.arrays import IntArray
from cutline.pate import aggregator as find_aggregator
from cutline.privacy import Budget
from cutline.sampling import SeededSource
from experiments.exp3.sweeps import DELTA
from experiments.report import Cell, Table
from experiments.trials import mean_and_error

TEACHERS, QUERIES, CLASSES = 50, 100, 10
EPSILONS = (2.0, 4.0, 8.0)
AGGREGATORS = {
    "ClassVote": "class-vote",
    "GNMax": "gnmax",
    "ConfidentClassVote": "confident-class-vote",
    "Confident-GNMax": "confident-gnmax",
}


class Shares(NamedTuple):
    """Of all public images: which share was answered rightly, and which was answered."""

    right: float
    answered: float


class Digits(NamedTuple):
    """Of one split: the share that the plain plurality has right, and what each aggregator releases at each epsilon."""

    plurality: float
    released: Mapping[tuple[str, float], Shares]


class ClassPoll(NamedTuple):
    """Votes on public images, (images, classes), and their true classes."""

    votes: IntArray
    truth: IntArray


def poll_digits(split: int, teachers: int) -> ClassPoll:
    """Train logistic teachers on a random split of the digits that come with scikit-learn, and let them vote on the rest."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    from cutline.pate.aggregators.gaussian_votes import GNMax
    from cutline.pate.teachers import Teachers

    images, digit = load_digits(return_X_y=True)
    order = np.random.default_rng(split).permutation(len(images))
    public, private = order[:QUERIES], order[QUERIES:]
    voters = Teachers(
        template=LogisticRegression(),
        features=images[private],
        labels=digit[private, None].astype(np.float64),
        ids=None,
        public=images[public],
        key=b"exp3",
        seeds=np.arange(teachers),
        classes=CLASSES,
    )
    # Every aggregator of classes counts as this one does.
    votes = voters.votes(GNMax(sigma=1.0, teachers=teachers, labels=CLASSES))
    return ClassPoll(votes, digit[public])


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitsCell:
    """One split of the digits that come with scikit-learn: public images, and private ones for the teachers."""

    split: int
    teachers: int = TEACHERS

    def __call__(self, seed: int) -> Digits:
        """Poll the teachers once and put all aggregators to the same votes, under REPLACE."""
        poll = poll_digits(self.split, self.teachers)
        source, released = SeededSource(seed), {}
        for title, name in AGGREGATORS.items():
            for epsilon in EPSILONS:
                budget = Budget(epsilon=epsilon, delta=DELTA, releases=QUERIES)
                vote = find_aggregator(name).calibrate(budget, teachers=self.teachers, labels=CLASSES)
                values = vote.release(poll.votes, rng=source).values
                answered = (values == 1).any(axis=1)
                right = answered & (values.argmax(axis=1) == poll.truth)
                released[title, epsilon] = Shares(float(right.mean()), float(answered.mean()))
        return Digits(float((poll.votes.argmax(axis=1) == poll.truth).mean()), released)


def digits_table(found: Sequence[Digits], *, teachers: int) -> Table:
    """Return how often each aggregator of classes is right."""
    rows: list[tuple[Cell, ...]] = []
    for title in AGGREGATORS:
        right = [mean_and_error([one.released[title, e].right for one in found]) for e in EPSILONS]
        answered = mean_and_error([one.released[title, EPSILONS[-1]].answered for one in found])
        rows.append((title, *right, answered))
    plurality = float(np.mean([one.plurality for one in found]))
    return Table(
        name="digits",
        title="Digits: share of public images whose released class is right, REPLACE, "
        f"mean ± standard error of {len(found)} splits",
        columns=("aggregator", *(f"epsilon {e:g}" for e in EPSILONS), f"answered, epsilon {EPSILONS[-1]:g}"),
        rows=tuple(rows),
        note=f"{teachers} logistic teachers with one vote each, {QUERIES} public images, delta = 1e-6 for all of them "
        f"together. A withheld image is not right. The class with the most votes, without privacy: {plurality:.3f}.",
    )
