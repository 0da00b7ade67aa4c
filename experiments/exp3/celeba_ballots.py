r"""Ballots of 800 teachers on CelebA's attributes, simulated from the real attribute table.

Attribute i has a mean majority accuracy ``a_i``; an image is easy or hard for all teachers alike. On image x each teacher is
right about attribute i with probability ``Phi(mu_i + s xi)``, ``mu_i = s Phi^-1(a_i)``, xi standard normal and shared: it is
right if ``mu_i + s xi + e > 0`` with a standard normal e of its own. That sum, signed, is how sure it is of a yes, which is
what a ballot limit goes by.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cutline.arrays import IntArray
from experiments.datasets import LabelData
from experiments.exp3.polls import Poll

TEACHERS, QUERIES = 800, 600
LIMITS = (4, 6, 8, 10, 12, 16)
_SPREAD = 0.9
_TEST = 2
_BLOCK = 50  # teachers at a time


def simulate(
    table: LabelData,
    *,
    seed: int,
    limit: int,
    teachers: int = TEACHERS,
    queries: int = QUERIES,
    limits: tuple[int, ...] = LIMITS,
) -> Poll:
    """Return the votes on images of the test split, for ballots as they are and for each limit."""
    random = np.random.default_rng(seed)
    images = np.flatnonzero(table.split == _TEST)
    truth = table.values[random.choice(images, queries, replace=False)]
    ease = accuracies_in_probits(truth.shape[1]) + _SPREAD * random.standard_normal(truth.shape)
    sign = np.where(truth, 1.0, -1.0).astype(np.float32)
    votes: dict[int | None, IntArray] = {tau: np.zeros(truth.shape, np.int64) for tau in (None, *limits)}
    for start in range(0, teachers, _BLOCK):
        block = min(_BLOCK, teachers - start)
        own = random.standard_normal((block, *truth.shape), dtype=np.float32)
        sure_of_yes = sign * (ease.astype(np.float32) + own)
        for tau, counts in count_limited(sure_of_yes, limits).items():
            votes[tau] += counts
    return Poll(
        name="celeba", title=table.title, teachers=teachers, truth=truth, votes=votes, limit=limit,
        generated=table.generated,
    )  # fmt: skip


def accuracies_in_probits(attributes: int) -> npt.NDArray[np.float64]:
    """Return ``mu_i``: accuracies spread around 0.895 like normal quantiles, cut at 0.72 and 0.985."""
    from scipy.special import ndtri

    places = (np.arange(1, attributes + 1) - 0.5) / attributes
    accuracies = np.clip(0.895 + 0.06 * ndtri(places), 0.72, 0.985)
    return np.asarray(_SPREAD * ndtri(accuracies))


def count_limited(sure_of_yes: npt.NDArray[np.float32], limits: tuple[int, ...]) -> dict[int | None, IntArray]:
    """Count ballots that say yes where a score is above 0, cut to the ``tau`` surest for each limit; scores have no ties."""
    falling = -np.sort(-sure_of_yes, axis=-1)
    found: dict[int | None, IntArray] = {None: np.count_nonzero(sure_of_yes > 0, axis=0)}
    for tau in limits:
        least = np.maximum(falling[..., tau : tau + 1], 0.0) if tau < falling.shape[-1] else np.float32(0.0)
        found[tau] = np.count_nonzero(sure_of_yes > least, axis=0)
    return found
