r"""Every refusal Cutline can make.

::

    CutlineError
    ├── ParameterError (ValueError)      a public parameter is out of its range
    ├── AdjacencyError (ValueError)      two adjacency relations were mixed
    ├── BudgetError (ValueError)         the budget cannot pay for what was asked
    ├── DomainError (TypeError)          the mechanism needs the other kind of histogram
    ├── LawTooLarge (ValueError)         the exact law has too many outcomes to be listed
    ├── SourceError (ValueError)         the log cannot be opened or lacks a column
    ├── ColumnTypeError (TypeError)      a column's declared type cannot name users or items
    ├── WhereError (ValueError)          the row filter is not one row-local expression
    ├── CountsError (ValueError)         ready-made counts are not whole numbers of users
    ├── MissingExtraError (ImportError)  a package that an extra installs is missing
    ├── EngineError (RuntimeError)       the engine failed; its own words are withheld, they may quote rows
    └── LedgerError (RuntimeError)       the books cannot be kept, so nothing is released
        ├── LedgerUnavailable            the database is missing, unreachable, full, read-only or busy
        │   └── UnsettledError           the release ran and stays charged in full, but the books could not be told
        ├── SchemaError                  the database holds no ledger, or a newer one
        ├── DatasetError                 the dataset is unknown, already there, or closed
        └── SettlementError              a release does not belong to the reservation it is settled with

Every error has three parts: the rule, the value that broke it, and the way out. None of them ever holds a private
count, score, cell or draw; an error raised because of rows has a constant text.
"""

from __future__ import annotations

_LONGEST_VALUE, _LONGEST_PART = 60, 500  # characters of one value, and of all values, that a message repeats


def shortened(value: object) -> str:
    r"""Return a public value for a message: as it is written if that is short and printable, else its type.

    Examples
    --------
    >>> shortened(2**31), shortened(10**5000), shortened("a\0b")
    ('2147483648', 'a value of type int', "'a\\x00b'")
    """
    try:
        text = repr(value)
    except Exception:  # Python refuses to write integers of 5,000 digits, and a stranger's repr may raise anything
        text = ""
    return text if 0 < len(text) <= _LONGEST_VALUE and text.isprintable() else f"a value of type {type(value).__name__}"


def printable(item: object) -> str:
    r"""Return the item as text with every control or invisible character spelled out.

    Examples
    --------
    >>> print(printable("[red]tab\there\x1b[0m"), printable("café"), printable(7))
    [red]tab\there\x1b[0m café 7
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(item))


class CutlineError(Exception):
    """Root of all refusals.

    Parameters
    ----------
    rule
        The rule that was broken, as a clause without a full stop.
    value
        The public value that broke it, or an empty string.
    way_out
        What the caller can do, as a sentence.

    Examples
    --------
    >>> print(ParameterError("max_k must be at least k", "max_k=10, k=50", "Raise max_k or lower k."))
    max_k must be at least k; got max_k=10, k=50. Raise max_k or lower k.
    """

    def __init__(self, rule: str, value: str = "", way_out: str = "") -> None:
        if len(value) > _LONGEST_PART:  # a caller's own text or list, which may be of any length
            value = f"{value[:_LONGEST_PART]}..."
        super().__init__(rule, value, way_out)
        self.rule, self.value, self.way_out = rule, value, way_out

    def __str__(self) -> str:
        head = f"{self.rule}; got {self.value}." if self.value else f"{self.rule}."
        return f"{head} {self.way_out}".rstrip()

    def to_dict(self) -> dict[str, str]:
        """Return the three parts under the names that ``--json`` prints."""
        return {"rule": self.rule, "value": self.value, "way_out": self.way_out}


class ParameterError(CutlineError, ValueError):
    """A public parameter is out of its range."""


class AdjacencyError(CutlineError, ValueError):
    """Two adjacency relations were mixed."""


class BudgetError(CutlineError, ValueError):
    """The budget cannot pay for what was asked."""


class DomainError(CutlineError, TypeError):
    """The mechanism needs the other kind of histogram."""


class LawTooLarge(CutlineError, ValueError):  # noqa: N818 - says what it is
    """The exact law has too many outcomes to be listed."""


class SourceError(CutlineError, ValueError):
    """The log cannot be opened, or lacks a column."""


class ColumnTypeError(CutlineError, TypeError):
    """A column's declared type cannot name users or items."""


class WhereError(CutlineError, ValueError):
    """The row filter is not one row-local, deterministic expression."""


class CountsError(CutlineError, ValueError):
    """Ready-made counts are not whole, non-negative numbers of users."""


class MissingExtraError(CutlineError, ImportError):
    """A package that only this use needs is missing; the way out names the extra that installs it."""


class EngineError(CutlineError, RuntimeError):
    """The counting engine failed; its own message is withheld because it may quote rows."""


class LedgerError(CutlineError, RuntimeError):
    """The books cannot be kept, so nothing is released."""


class LedgerUnavailable(LedgerError):  # noqa: N818 - says what it is
    """The database is missing, unreachable, full, read-only or busy; the driver's own words are withheld."""


class UnsettledError(LedgerUnavailable):
    """The release ran and stays charged in full, but the books could not be told what it cost.

    ``release`` is what became public. It was paid for before it ran, so the caller may use it.
    """

    def __init__(self, rule: str, value: str = "", way_out: str = "", *, release: object = None) -> None:
        super().__init__(rule, value, way_out)
        self.release = release


class SchemaError(LedgerError):
    """The database holds no ledger, or one that a newer Cutline wrote."""


class DatasetError(LedgerError, ValueError):
    """The dataset is unknown, already there, or closed."""


class SettlementError(LedgerError, ValueError):
    """A release does not belong to the reservation it is settled with; the reserve stays charged."""
