r"""What is asked of a log: names, lists and limits, checked before anything is opened. All of it is public."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutline.counting.engines.duck.candidates import check_listed
from cutline.counting.engines.duck.columns import check_name
from cutline.counting.engines.duck.engine import check_memory_limit
from cutline.errors import ParameterError
from cutline.histogram import Item

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    r"""One histogram per listed group.

    Parameters
    ----------
    column
        The column that names a row's group.
    groups
        The caller's public list.
    limit
        How many of the groups one user counts in; None if in all of them.
    salts
        One text per group. A user's groups are those whose hash of salt and user is smallest, so the choice reads the
        user's own rows alone.
    """

    column: str
    groups: tuple[Item, ...]
    limit: int | None
    salts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to count, over which rows, and how much room there is for it."""

    user: str
    item: str
    where: str | None
    candidates: tuple[Item, ...] | None
    grouping: Grouping | None
    memory_limit: str | None
    progress: Progress | None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it names, without those of the filter."""
        by = () if self.grouping is None else (self.grouping.column,)
        return tuple(dict.fromkeys((self.user, self.item, *by)))


def ask(
    *,
    user: str | None,
    item: str | None,
    where: str | None,
    candidates: Iterable[Item] | None,
    memory_limit: str | None,
    grouping: Grouping | None = None,
    progress: Progress | None = None,
) -> Question:
    """Check the parts of a question that need no log."""
    check_memory_limit(memory_limit)
    listed = None if candidates is None else check_listed("candidates", candidates)
    return Question(
        user=check_name("user", user),
        item=check_name("item", item),
        where=where,
        candidates=listed,
        grouping=grouping,
        memory_limit=memory_limit,
        progress=progress,
    )


def group_by(
    *, by: str | None, groups: Iterable[Item] | None, max_groups_per_user: int | None, key: str | bytes | None
) -> Grouping:
    """Check a list of groups and how many of them one user may count in."""
    column = check_name("by", by)
    if groups is None:
        raise ParameterError(
            "groups must be a public list", "none", "List the groups; taken from the log, they would tell who is in it."
        )
    listed = check_listed("groups", groups)
    limit = _limit(max_groups_per_user, groups=len(listed))
    secret = _secret(key)
    salts = tuple(
        hmac.new(secret, group_text(group).encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
        for group in listed
    )
    return Grouping(column=column, groups=listed, limit=limit, salts=salts)


def group_text(group: Any) -> str:
    """Return one text per value, the same on every engine: truth values and numbers as in SQL, dates as in ISO 8601."""
    if isinstance(group, bool):
        return "true" if group else "false"
    return group.isoformat(" ") if hasattr(group, "hour") and hasattr(group, "year") else str(group)


def _limit(limit: int | None, *, groups: int) -> int | None:
    """Return the limit if it binds."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 1:
        raise ParameterError(
            "max_groups_per_user must be a whole number of at least 1", repr(limit), "Try max_groups_per_user=1."
        )
    return int(limit) if limit < groups else None


def _secret(key: str | bytes | None) -> bytes:
    if key is None:
        return b""
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode(errors="surrogatepass")
    raise ParameterError("key must be text or bytes", type(key).__name__, "Leave it out, or pass key='...'.")
