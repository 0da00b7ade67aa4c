r"""What is written into the books: names, times, descriptions and costs, as text."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from cutline.errors import ParameterError
from cutline.privacy import Cost

# The package's face is above this layer; its version is a fact about the whole, asked for by name.
VERSION: str = import_module("cutline").__version__
_LONGEST_NAME = 200


def named(what: str, name: object) -> str:
    """Return a name that both databases and every screen can hold."""
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= _LONGEST_NAME
        or not name.isprintable()
        or name != name.strip()
    ):
        raise ParameterError(
            f"{what} must be a name of 1 to {_LONGEST_NAME} printable characters", repr(name)[:80], "Try another name."
        )
    return name


def description(mechanism: Mapping[str, Any]) -> str:
    """Return a mechanism's public parameters as text."""
    try:
        return json.dumps(dict(mechanism), allow_nan=False)
    except (TypeError, ValueError):
        raise ParameterError(
            "a mechanism is described to a ledger in plain data", type(mechanism).__name__, "Pass mechanism.describe()."
        ) from None


@lru_cache(maxsize=64)
def cost_text(cost: Cost) -> tuple[str, str]:
    """Return a cost as text, and its digest: a table of a thousand values is written once, not once per release."""
    plain = json.dumps(cost.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(plain.encode()).hexdigest(), plain


def now() -> str:
    """Return the time by the clock, in UTC."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
