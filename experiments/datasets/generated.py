r"""Made-up data of a given shape, from a fixed seed. Data, not noise for privacy: numpy's generator will do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutline.privacy import largest
from experiments.trials import seed_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa


def generated_log(name: str, *, users: int, items: int, pairs: int, top: int) -> pa.Table:
    r"""Return distinct (user, item) pairs whose counts fall like a power of the rank, with some roughness.

    Parameters
    ----------
    name
        Decides the seed.
    users, items, pairs
        How many of each; the number of pairs is met but for rounding.
    top
        About the count of the largest item; with the number of pairs it decides the skew.

    Examples
    --------
    >>> log = generated_log("example", users=500, items=300, pairs=4000, top=200)
    >>> log.column_names, log.num_rows, log.equals(generated_log("example", users=500, items=300, pairs=4000, top=200))
    (['user', 'item'], 4000, True)
    """
    import pyarrow as pa

    random = np.random.default_rng(seed_of("log", name))
    ranks = np.arange(1, items + 1, dtype=np.float64)
    rough = np.exp(random.normal(0.0, 0.1, size=items))

    def counts(exponent: float) -> npt.NDArray[np.int64]:
        return np.clip(np.rint(top * rough * ranks**-exponent), 1, users).astype(np.int64)

    exponent = largest(lambda s: int(counts(s).sum()) >= pairs, low=0.01, high=5.0, relative=1e-6)
    each = counts(exponent)
    # The users of an item are a run of a shuffled circle: exactly as many as its count, and nobody twice.
    item = np.repeat(np.arange(items), each)
    place = (
        np.arange(len(item))
        - np.repeat(np.cumsum(each) - each, each)
        + np.repeat(random.integers(users, size=items), each)
    )
    circle = random.permutation(users)
    label = random.permutation(items)  # so that no order of the items tells the counts
    return pa.table({"user": circle[place % users], "item": label[item]})


def generated_epidemic(*, days: int, states: int) -> npt.NDArray[np.int64]:
    """Return cumulative cases, one row a day: every state grows, slower from week to week, from a start of its own."""
    random = np.random.default_rng(seed_of("epidemic"))
    start = np.exp(random.normal(2.5, 1.4, size=states))
    growth = random.normal(0.24, 0.03, size=states)
    day = np.arange(days)[:, None]
    expected = start * np.exp(growth * 25 * (1 - np.exp(-day / 25)))
    new = np.diff(expected, axis=0, prepend=0.0)
    return np.cumsum(random.poisson(new * np.exp(random.normal(0.0, 0.12, size=new.shape))), axis=0)


def generated_labels(
    name: str, *, examples: int, labels: int, per_example: float, features: int
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    r"""Return (X, Y): Y has labels of falling frequency, ``per_example`` on average; each binary feature leans on some labels.

    Examples
    --------
    >>> X, Y = generated_labels("example", examples=2000, labels=10, per_example=2.0, features=50)
    >>> X.shape, Y.shape, abs(float(Y.sum(axis=1).mean()) - 2.0) < 0.1
    ((2000, 50), (2000, 10), True)
    """
    random = np.random.default_rng(seed_of("labels", name))
    falling = np.arange(1, labels + 1) ** -0.8
    scale = largest(lambda s: np.minimum(s * falling, 0.85).sum() <= per_example, low=1e-6, high=1e4, relative=1e-9)
    truth = random.random((examples, labels)) < np.minimum(scale * falling, 0.85)
    leaning = random.normal(0.0, 1.0, size=(labels, features)) * (random.random((labels, features)) < 4 / labels) * 2.5
    score = truth.astype(np.float32) @ leaning.astype(np.float32) - 2.0
    seen = random.random((examples, features), dtype=np.float32) < 1 / (1 + np.exp(-score))
    return seen, truth
