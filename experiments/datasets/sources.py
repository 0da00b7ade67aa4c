r"""Which files a data set comes in, and where they are published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cutline.errors import SourceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    r"""A published data set.

    Parameters
    ----------
    title
        Its name in tables and figures.
    publisher
        What to cite.
    page
        Where its publisher offers it: site and page by name.
    forms
        The sets of files that can be read, the publisher's own first. One of the sets is enough; all its files are needed.
    """

    title: str
    publisher: str
    page: str
    forms: tuple[tuple[str, ...], ...]

    def files(self, data: Path) -> tuple[Path, ...] | None:
        """Return the files of the first form that the directory holds in full, or None."""
        for form in self.forms:
            paths = tuple(data / name for name in form)
            if all(path.is_file() for path in paths):
                return paths
        return None

    def find(self, data: Path) -> tuple[Path, ...]:
        """Return the files of the first form that the directory holds in full.

        Raises
        ------
        SourceError
            If there is none; the error says which file to get, and where.
        """
        check_directory(data)
        found = self.files(data)
        if found is None:
            raise SourceError(
                f"the data directory must hold {_listed(self.forms[0])}",
                f"{str(data)!r} without {_listed(self._lacking(data))}",
                self.way_out,
            )
        return found

    @property
    def way_out(self) -> str:
        """Say where to get the files and what else will do."""
        others = "; ".join(map(_listed, self.forms[1:]))
        return (
            f"{self.title} is published as {self.publisher}; get it from {self.page}. "
            + (f"Read as well: {others}. " if others else "")
            + "Without a data directory, generated data are used."
        )

    def absent(self, data: Path) -> str:
        """Say in one line, for a page, that the data set is not there."""
        return (
            f"{self.title}: not run; the data directory is without {_listed(self._lacking(data))}. "
            f"Published as {self.publisher}; from {self.page}."
        )

    def _lacking(self, data: Path) -> list[str]:
        # Of a form that is there in part, the rest is what the user wants to hear of.
        begun = [form for form in self.forms if any((data / name).is_file() for name in form)]
        form = begun[0] if begun else self.forms[0]
        return [name for name in form if not (data / name).is_file()]


def check_directory(data: Path) -> None:
    """Refuse what is no directory."""
    if not data.is_dir():
        raise SourceError("the data must be a directory", f"{str(data)!r}", "Check the path, or leave it out.")


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
