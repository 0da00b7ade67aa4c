r"""Which declared column types can name users and items, and how the engine reads them.

A type is a public fact of the source: it never comes from the rows. Inside the engine the columns that were asked for
are called ``c0``, ``c1``, ...: the caller's names are matched in Python, exactly, and never reach SQL as identifiers.
"""

from __future__ import annotations

from collections.abc import Sequence

from cutline.errors import ColumnTypeError, ParameterError, SourceError, WhereError

_WHOLE = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"}
)
_FLOAT = frozenset({"FLOAT", "DOUBLE"})
_PLAIN = _WHOLE | {"VARCHAR", "BOOLEAN", "TIME", "UUID"}
# Python knows the years 1 to 9999; a value outside would come out as text, or as another date.
_DATED = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"})
# Named by their text: Python has no value, or no exact one, for them.
_AS_TEXT = frozenset(
    {
        "NULL",
        '"NULL"',
        "JSON",
        "TIMESTAMP_NS",
        "TIMESTAMP WITH TIME ZONE",
        "TIMESTAMP_NS WITH TIME ZONE",
        "TIME WITH TIME ZONE",
        "TIME_NS",
    }
)


def check_name(role: str, name: str | None) -> str:
    """Refuse a column name that is missing or is no text."""
    if not isinstance(name, str) or not name:
        raise ParameterError(f"{role} must be the name of a column", repr(name), f"Pass {role}='...'.")
    return name


def check_names(
    wanted: Sequence[str], present: Sequence[object], *, refusal: type[SourceError | WhereError] = SourceError
) -> None:
    """Refuse names that the source lacks, has twice, or has in another spelling."""
    for name in wanted:
        found = present.count(name)
        if found > 1:
            raise refusal("a column name must belong to one column", f"{name!r}, {found} times", "Rename one of them.")
        if not found:
            known = [str(other) for other in present]
            twins = [other for other in known if other.casefold() == name.casefold()]
            names = ", ".join(repr(other) for other in (twins or known)[:20]) or "none"
            raise refusal(
                "the log must have the column", repr(name), f"Column names match exactly; there are: {names}."
            )


def plain_value(role: str, name: str, column: str, declared: str) -> tuple[str, str]:
    r"""Return the SQL expression of a user or item column and its type, with NaN and dates beyond Python's as missing.

    Examples
    --------
    >>> plain_value("item", "price", "c1", "DOUBLE")
    ("CASE WHEN contains(CAST(c1 AS VARCHAR), 'nan') THEN NULL WHEN c1 = 0 THEN 0 ELSE c1 END", 'DOUBLE')
    >>> plain_value("item", "colour", "c1", "ENUM('red', 'blue')")
    ('CAST(c1 AS VARCHAR)', 'VARCHAR')
    """
    if declared in _PLAIN or declared.startswith("DECIMAL("):
        return column, declared
    if declared in _DATED:
        return f"CASE WHEN {column} >= DATE '0001-01-01' AND {column} < DATE '10000-01-01' THEN {column} END", declared
    if declared in _FLOAT:
        # Asked by its text: parquet statistics leave NaN out, and from them the engine concludes that isnan() is false.
        # The two zeros are one value with two names; whose row came first must not decide between them.
        missing = f"contains(CAST({column} AS VARCHAR), 'nan')"
        return f"CASE WHEN {missing} THEN NULL WHEN {column} = 0 THEN 0 ELSE {column} END", declared
    if declared in _AS_TEXT or (declared.startswith("ENUM(") and not declared.endswith("]")):
        return f"CAST({column} AS VARCHAR)", "VARCHAR"
    raise ColumnTypeError(
        f"the {role} column must hold text, numbers, dates or truth values",
        f"{name!r} of type {declared[:80]}",
        "Turn it into text first, for example with CAST(... AS VARCHAR) where the log is written.",
    )
