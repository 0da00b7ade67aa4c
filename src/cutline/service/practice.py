r"""Made-up logs for practice: public names in a public shape, drawn anew each time, so that nothing real is in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cutline.demo import LANDMARKS
from cutline.errors import ParameterError
from cutline.quote import quote
from cutline.release import Release
from cutline.service.catalogue import Description

SHAPES = ("a cliff", "a long tail", "flat")
_USERS, _VISITS, _OTHERS = 3000, 6, 300


def make_counts(shape: str, names: Sequence[str]) -> dict[str, int]:
    """Return how many made-up users each name has: twelve popular ones and then a cliff, a long tail, or all alike."""
    if shape not in SHAPES:
        raise ParameterError("a made-up log has a shape", repr(shape)[:60], f"Take one of {', '.join(SHAPES)}.")
    listed = list(dict.fromkeys([*(names or LANDMARKS), *(f"place {number}" for number in range(1, _OTHERS))]))
    rank = np.arange(1, len(listed) + 1)
    weight = {
        "a cliff": np.where(rank <= 12, 1.0, 0.12 / rank**0.3),
        "a long tail": 1.0 / rank**0.7,
        "flat": np.full(len(listed), 0.15),
    }[shape]
    random = np.random.default_rng()  # data, not noise for privacy
    counts = random.binomial(_USERS, np.minimum(0.9, _VISITS * weight / weight.sum()))
    return {name: int(count) for name, count in zip(listed, counts, strict=True)}


def practise(
    description: Description, *, shape: str, k: int | None, counts: bool, epsilon: float, delta: float, releases: int
) -> Release:
    """Release the top of a made-up log with the budget of one usual question; nothing is charged."""
    ask: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "releases": releases, "counts": counts}
    if k is not None:
        ask["k"] = k
    answer: Release = quote(**ask).run(make_counts(shape, description.practice_names))
    return answer
