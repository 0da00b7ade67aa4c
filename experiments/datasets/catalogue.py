r"""All data sets by name, and which of them a directory holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from cutline.errors import ParameterError, SourceError
from experiments.datasets import covid, labels, logs
from experiments.datasets.sources import Publication, check_directory

SOURCES: Mapping[str, Publication] = MappingProxyType(
    {
        **{name: log.source for name, log in logs.LOGS.items()},
        "covid": covid.SOURCE,
        "celeba": labels.CELEBA,
        **{name: known.source for name, known in labels.MULTILABEL.items()},
    }
)


def available(names: Sequence[str], data: Path | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    r"""Return which of the data sets can be loaded, and for each of the others a line for the page.

    Only file names are looked at: a file that is there and misshapen is refused when it is loaded.

    Parameters
    ----------
    names
        Of data sets.
    data
        The directory; None: all can be generated.

    Returns
    -------
    tuple
        The names that are there, in the order given, and the lines that say what is missing.

    Raises
    ------
    SourceError
        If the directory holds none of them.

    Examples
    --------
    >>> available(["gowalla", "tmc2007"], None)
    (('gowalla', 'tmc2007'), ())
    """
    if unknown := [name for name in names if name not in SOURCES]:
        raise ParameterError("the data set must be a known one", f"{unknown[0]!r}", f"Known: {', '.join(SOURCES)}.")
    if data is None:
        return tuple(names), ()
    check_directory(data)
    held = tuple(name for name in names if SOURCES[name].files(data) is not None)
    if not held:
        raise SourceError(
            f"the data directory must hold at least one of {', '.join(SOURCES[name].title for name in names)}",
            f"none of them in {str(data)!r}",
            f"For one: {SOURCES[names[0]].way_out}",
        )
    return held, tuple(SOURCES[name].absent(data) for name in names if name not in held)


def files_of(names: Sequence[str], data: Path) -> list[str]:
    """Return the names of the files that the data sets would be read from, of those that the directory holds."""
    found = (SOURCES[name].files(data) for name in names)
    return [path.name for paths in found if paths is not None for path in paths]
