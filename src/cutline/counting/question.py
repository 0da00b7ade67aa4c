r"""The question that is asked of a log: which columns, which rows, which lists, and how much memory there is for it.

All of it is public. It is checked here, before any log is opened, so that a refusal cannot depend on rows.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from cutline.errors import ParameterError, SourceError, WhereError, shortened
from cutline.histogram import Item, check_bound

Progress = Callable[[float], None]

FORMATS = ("parquet", "csv", "tsv", "json", "jsonl")  # of files
# Of a user with more items than max_items_per_user, those are kept for which (x + a) (y + b) modulo PRIME is smallest, equals
# in the items' own order. a and b are the first and the second DIGITS hexadecimal digits of the SHA-256 of the user's text
# after a fixed salt, x and y those of the item's: nothing but this user's rows decides, and no sum or product overflows.
SALTS = {"u": "cutline user ", "i": "cutline item "}
DIGITS = 7
PRIME = 2**31 - 1
QUERY_NAMES = {"user": "u", "item": "i", "by": "b"}  # what the column of each role is called in the engines' queries

_BYTES = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_AMOUNT = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([KMGT]i?B)\s*", re.ASCII | re.IGNORECASE)
_SMALLEST = 50 * 10**6
_WAYS_OUT = {"candidates": "Pass a list of distinct item names.", "groups": "Pass a list of distinct groups."}


class Columns(TypedDict, total=False):
    """What :func:`cutline.count` documents: the columns, the rows and items that count, and how much memory there is."""

    user: str | None
    item: str | None
    where: str | None
    candidates: Iterable[Item] | None
    memory_limit: str | None
    max_items_per_user: int | None
    format: str | None
    vote_parts: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    r"""A wish for one histogram per listed group.

    Parameters
    ----------
    column
        The column that names a row's group.
    groups
        The caller's public list.
    limit
        In how many of the groups one user counts; None if in all of them.
    salts
        One text per group. A user counts in those groups whose hash of salt and user is smallest, so the choice reads
        the user's own rows alone.
    """

    column: str
    groups: tuple[Item, ...]
    limit: int | None
    salts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to count, over which rows, and how much memory there is for it; made and checked by :func:`ask`.

    A question about ready counts names no columns.
    """

    user: str | None
    item: str | None
    where: str | None
    candidates: tuple[Item, ...] | None
    grouping: Grouping | None
    memory_limit: str | None
    max_items_per_user: int | None = None  # in how many items one user counts; None if in all
    format: str | None = None
    vote_parts: int | None = None  # 8: a user with many items gives each some eighths of a vote; None: keeps a few

    @property
    def roles(self) -> dict[str, str]:
        """The column of each role: ``user``, ``item`` and, with groups, ``by``; refused if one has no name."""
        named = {"user": _check_name("user", self.user), "item": _check_name("item", self.item)}
        return named if self.grouping is None else named | {"by": self.grouping.column}

    @property
    def lists(self) -> dict[str, tuple[Item, ...]]:
        """The caller's lists, ``candidates`` and ``groups``, as far as there are any."""
        listed = {} if self.candidates is None else {"candidates": self.candidates}
        return listed if self.grouping is None else listed | {"groups": self.grouping.groups}

    @property
    def group_count(self) -> int:
        """How many histograms answer it."""
        return 1 if self.grouping is None else len(self.grouping.groups)


def ask(
    *,
    user: str | None = None,
    item: str | None = None,
    where: str | None = None,
    candidates: Iterable[Item] | None = None,
    memory_limit: str | None = None,
    max_items_per_user: int | None = None,
    format: str | None = None,
    vote_parts: int | None = None,
    grouping: Grouping | None = None,
) -> Question:
    """Check the parts of a question that need no log; the parameters are those of :func:`cutline.count`."""
    check_memory_limit(memory_limit)
    if format is not None and format not in FORMATS:
        raise ParameterError(
            "the format of a file must be a known one", repr(format)[:80], f"Pass one of {', '.join(FORMATS)}."
        )
    listed = None if candidates is None else _check_list("candidates", candidates)
    user = None if user is None else _check_name("user", user)
    item = None if item is None else _check_name("item", item)
    bound = None if max_items_per_user is None else check_bound(max_items_per_user)
    if bound is not None and listed is not None:
        raise ParameterError(
            "a bound on items per user is for a domain that is open", "candidates", "Leave one of the two out."
        )
    return Question(
        user=user,
        item=item,
        where=where,
        candidates=listed,
        grouping=grouping,
        memory_limit=memory_limit,
        max_items_per_user=bound,
        format=format,
        vote_parts=None if vote_parts is None else check_parts(vote_parts, bound),
    )


def check_parts(vote_parts: object, bound: int | None) -> int | None:
    """Return in how many parts votes are counted, None for whole votes; raise if there is nothing to weigh them for."""
    if isinstance(vote_parts, bool) or vote_parts not in (1, 8) or bound is None:
        raise ParameterError(
            "vote_parts must be 1 or 8, and goes with max_items_per_user", f"vote_parts={vote_parts}", "Leave it out."
        )
    return 8 if vote_parts == 8 else None


def vote_limits(bound: int, parts: int) -> list[int]:
    """Return, for each part of a vote, up to how many items a user may have to give it to each of them.

    Of n items each gets ``min(parts, isqrt(parts^2 bound // n))`` parts, and ``isqrt(a // n) >= j`` if ``n <= a // j^2``.

    Examples
    --------
    >>> vote_limits(10, 8)
    [640, 160, 71, 40, 25, 17, 13, 10]
    """
    return [parts**2 * bound // part**2 for part in range(1, parts + 1)]


def group_by(
    *, by: str | None, groups: Iterable[Item] | None, max_groups_per_user: int | None, key: str | bytes | None
) -> Grouping:
    """Check a list of groups and how many of them one user may count in."""
    column = _check_name("by", by)
    if groups is None:
        raise ParameterError(
            "groups must be a public list", "none", "List the groups; taken from the log, they would tell who is in it."
        )
    listed = _check_list("groups", groups)
    limit = _check_limit(max_groups_per_user, groups=len(listed))
    secret = _encode_key(key)
    salts = tuple(
        hmac.new(secret, _group_text(group).encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
        for group in listed
    )
    return Grouping(column=column, groups=listed, limit=limit, salts=salts)


def check_present(
    wanted: Iterable[str], present: Sequence[object], *, refusal: type[SourceError | WhereError] = SourceError
) -> None:
    """Refuse names that a source lacks, has twice, or has in another spelling."""
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


def check_memory_limit(memory_limit: str | None) -> None:
    """Refuse a memory limit that is not an amount like ``1GB`` of at least 50MB.

    Examples
    --------
    >>> check_memory_limit("1GB")
    >>> check_memory_limit("lots")
    Traceback (most recent call last):
    ...
    cutline.errors.ParameterError: memory_limit must be at least 50MB; got 'lots'. Write it like memory_limit='1GB'.
    """
    if memory_limit is None:
        return
    match = isinstance(memory_limit, str) and _AMOUNT.fullmatch(memory_limit)
    if not match or float(match[1]) * _BYTES[match[2].upper()] < _SMALLEST:
        raise ParameterError(
            "memory_limit must be at least 50MB", shortened(memory_limit), "Write it like memory_limit='1GB'."
        )


def _check_name(role: str, name: str | None) -> str:
    if not isinstance(name, str) or not name:
        raise ParameterError(f"{role} must be the name of a column", shortened(name), f"Pass {role}='...'.")
    return name


def _check_list(role: str, values: Iterable[Any]) -> tuple[Item, ...]:
    """Refuse a list that is empty, or has missing or repeated names; ``role`` is candidates or groups."""
    way_out = _WAYS_OUT[role]
    single = (
        isinstance(values, str | bytes | Mapping) or getattr(values, "shape", None) == ()
    )  # numpy's array of no dimension
    if single or not isinstance(values, Iterable):
        raise ParameterError(f"{role} must be a list of plain values", type(values).__name__, way_out)
    if hasattr(values, "columns") or hasattr(values, "column_names"):  # it would give the names of its columns
        raise ParameterError(
            f"{role} must be one list", f"a table, {type(values).__name__}", "Pass one of its columns."
        )
    listed = tuple(_plain(value) for value in values)
    if not listed:
        raise ParameterError(f"{role} must name at least one", "an empty list", way_out)
    seen: set[Item] = set()
    for value in listed:
        nan = isinstance(value, float) and value != value
        if value is None or nan or type(value).__name__ in ("NAType", "NaTType"):
            raise ParameterError(f"{role} must not be missing", repr(value), "Take it out of the list.")
        try:
            repeated = value in seen
            seen.add(value)
        except TypeError:
            raise ParameterError(f"{role} must be plain values", type(value).__name__, way_out) from None
        if repeated:
            raise ParameterError(f"{role} must not repeat", repr(value), "List each once.")
    return listed


def _plain(value: Any) -> Any:
    """Return a value of an array of numpy or pyarrow as Python has it."""
    library = type(value).__module__.partition(".")[0]
    if library == "pyarrow":
        return value.as_py()
    return value.item() if library == "numpy" else value


def _check_limit(limit: int | None, *, groups: int) -> int | None:
    """Return the limit if it binds, or None if a user may count in every group."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 1:
        raise ParameterError(
            "max_groups_per_user must be a whole number of at least 1", repr(limit), "Try max_groups_per_user=1."
        )
    return int(limit) if limit < groups else None


def _encode_key(key: str | bytes | None) -> bytes:
    if not isinstance(key, str | bytes | None):
        raise ParameterError("key must be text or bytes", type(key).__name__, "Leave it out, or pass key='...'.")
    return key.encode(errors="surrogatepass") if isinstance(key, str) else key or b""


def _group_text(group: Any) -> str:
    """Return one text per value, the same on every engine: truth values and numbers as in SQL, dates as in ISO 8601."""
    if isinstance(group, bool):
        return "true" if group else "false"
    return group.isoformat(" ") if hasattr(group, "hour") and hasattr(group, "year") else str(group)
