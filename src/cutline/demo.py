r"""A made-up city: who checked in where, on which day.

Twelve landmarks draw most people; then popularity falls off a cliff into a long tail of cafés, bakeries and gyms. People
differ a lot in how much they go out and come back to places they like; a few rows lack a user or a venue, as in any log.
"""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from cutline.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

LANDMARKS = (
    "Airport Terminal 2",
    "Botanical Garden",
    "Central Station",
    "City Library",
    "Farmers' Market",
    "Harbour Front",
    "National Museum",
    "Old Town Square",
    "Opera House",
    "Riverside Park",
    "Stadium",
    "University Campus",
)
_FIRST = (
    "Amber", "Blue Door", "Canal", "Copper", "Corner", "Daily", "Elm Street", "Garden", "Golden", "Hilltop", "Iron",
    "Lantern", "Little", "Maple", "Market Lane", "Mill", "North", "Olive", "Orchard", "Paper", "Red Brick", "Silver",
    "Station Road", "Sunny", "Velvet",
)  # fmt: skip
_SECOND = (
    "Bakery", "Barbers", "Bistro", "Bookshop", "Café", "Cinema", "Deli", "Dentist", "Florist", "Gym", "Hostel",
    "Laundry", "Noodles", "Pharmacy", "Pizzeria", "Pub", "Records", "Tea Room", "Wine Bar", "Yoga",
)  # fmt: skip
_START = dt.date(2024, 3, 1)
_DAYS = 92
_MISSING = 0.01  # of the rows, for each of the two columns


def write_checkins(path: str | os.PathLike[str], *, users: int = 3000, seed: int = 0) -> None:
    """Write the log of `checkins` to a parquet file."""
    import pyarrow.parquet as pq

    pq.write_table(checkins(users=users, seed=seed), os.fspath(path))


def checkins(*, users: int = 3000, seed: int = 0) -> pa.Table:
    r"""Return a log with the columns ``user_id`` (integer), ``venue`` (text) and ``day`` (date), in no order.

    Parameters
    ----------
    users
        How many people there are.
    seed
        Equal seeds give equal logs.

    Examples
    --------
    >>> log = checkins(users=50)
    >>> log.column_names, log.equals(checkins(users=50)), log.equals(checkins(users=50, seed=1))
    (['user_id', 'venue', 'day'], True, False)
    """
    import pyarrow as pa

    if isinstance(users, bool) or not isinstance(users, int) or users < 1:
        raise ParameterError("users must be a whole number of at least 1", f"users={users}", "Try users=3000.")
    # Data, not noise for privacy: numpy's generator will do.
    random = np.random.default_rng(seed)
    names, appeal = _venues(random)
    energy = random.lognormal(0.0, 0.45, size=users)
    visits = random.poisson(energy[:, None] * appeal)
    person, venue = np.nonzero(visits)
    again = visits[person, venue]
    person, venue = np.repeat(person, again), np.repeat(venue, again)
    order = random.permutation(len(person))
    person, venue = person[order], venue[order]
    day = np.datetime64(_START) + random.integers(_DAYS, size=len(person))
    identity = random.permutation(np.arange(10_000, 10_000 + 7 * users))[:users]
    return pa.table(
        {
            "user_id": pa.array(identity[person], mask=random.random(len(person)) < _MISSING),
            "venue": pa.array(names[venue].tolist(), mask=random.random(len(person)) < _MISSING),
            "day": pa.array(day),
        }
    )


def _venues(random: np.random.Generator) -> tuple[Any, Any]:
    """Return names and the visits each expects from an average person; landmarks first."""
    places = [f"{first} {second}" for first in _FIRST for second in _SECOND]
    random.shuffle(places)
    landmarks = random.permutation(np.linspace(0.62, 0.46, len(LANDMARKS)))
    tail = 0.20 / np.arange(1, len(places) + 1) ** 0.6
    return np.array([*LANDMARKS, *places], dtype=object), np.concatenate([landmarks, tail])
