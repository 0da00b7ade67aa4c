r"""Covid-19 cases by state and day."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cutline.errors import SourceError
from experiments.datasets import files
from experiments.datasets.generated import generated_epidemic
from experiments.datasets.sources import Publication

FIRST_DAY = dt.date(2020, 3, 1)  # of what is read
LAST_DAY = dt.date(2020, 6, 30)
_DAYS = (LAST_DAY - FIRST_DAY).days + 1
_STATES = 55
SOURCE = Publication(
    title="Covid-19 cases by state",
    publisher="us-states.csv of covid-19-data by The New York Times",
    page="GitHub, repository nytimes/covid-19-data",
    forms=(("us-states.csv",), ("nyt_us_states_cases_2020-03_06.csv",)),
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class CovidData:
    """Cumulative cases: one row per day from `FIRST_DAY`, one column per state."""

    title: str
    note: str
    generated: bool
    states: tuple[str, ...]
    cumulative: npt.NDArray[np.int64]

    def new_cases(self) -> npt.NDArray[np.int64]:
        """Return daily new cases; a revision downwards counts as none."""
        return np.maximum(np.diff(self.cumulative, axis=0, prepend=0), 0)


def load_covid(data: Path | None) -> CovidData:
    """Return cases from 2020-03-01 to 2020-06-30: of the directory's file, or generated if there is no directory.

    Examples
    --------
    >>> cases = load_covid(None)
    >>> cases.cumulative.shape, cases.title
    ((122, 55), 'Covid-19 cases by state (generated)')
    """
    if data is None:
        return CovidData(
            title="Covid-19 cases by state (generated)",
            note="Cases by state and day are generated: exponential growth that slows down, in 55 states; no real data.",
            generated=True,
            states=tuple(f"State {i + 1:02d}" for i in range(_STATES)),
            cumulative=generated_epidemic(days=_DAYS, states=_STATES),
        )
    (path,) = SOURCE.find(data)
    states, cumulative = _read(path)
    return CovidData(
        title=SOURCE.title,
        note=f"Cumulative cases by state and day, {FIRST_DAY} to {LAST_DAY}, {len(states)} states and territories. "
        f"Published as {SOURCE.publisher}.",
        generated=False,
        states=states,
        cumulative=cumulative,
    )


def _read(path: Path) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    types = {"date": pa.date32(), "state": pa.string(), "cases": pa.int64()}
    try:
        rows = csv.read_csv(
            path, convert_options=csv.ConvertOptions(include_columns=list(types), column_types=types)
        ).drop_null()
    except (OSError, KeyError, pa.ArrowException):
        raise SourceError(
            "the file must have the columns date, state and cases", f"{path.name!r}", "Fetch it again."
        ) from None
    rows = rows.filter(pc.less_equal(rows["date"], pa.scalar(LAST_DAY)))
    names, state = np.unique(rows["state"].to_numpy(), return_inverse=True)
    day = (rows["date"].to_numpy() - np.datetime64(FIRST_DAY)).astype("timedelta64[D]").astype(np.int64)
    inside = day >= 0  # what came before only tells that a state had cases
    files.check_shape(
        path, {"days": len(np.unique(day[inside])), "states": len(names)}, {"days": _DAYS, "states": _STATES}
    )
    first = np.full(len(names), _DAYS)
    np.minimum.at(first, state, np.maximum(day, 0))
    _check_every_day(path, names, first, day[inside], state[inside])
    cumulative = np.zeros((_DAYS, len(names)), dtype=np.int64)  # before its first row a state had no case
    cumulative[day[inside], state[inside]] = rows["cases"].to_numpy()[inside]
    return tuple(map(str, names)), cumulative


def _check_every_day(path: Path, names: Any, first: Any, day: Any, state: Any) -> None:
    """Refuse a state that has a day twice, or has none of the days since its first row: a hole would count as no cases."""
    found = np.zeros((_DAYS, len(names)), dtype=np.int64)
    np.add.at(found, (day, state), 1)
    wanted = np.arange(_DAYS)[:, None] >= first
    for wrong, words in ((found > 1, "more than one"), (wanted & (found == 0), "none")):
        if wrong.any():
            where = np.argwhere(wrong)[0]
            raise SourceError(
                "every state must have one row a day from its first row on",
                f"{words} for {names[where[1]]} on {FIRST_DAY + dt.timedelta(days=int(where[0]))} in {path.name!r}",
                "Rows may have been lost or doubled: fetch it again.",
            )
