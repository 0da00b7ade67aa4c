r"""Where a ledger may be: the path of a file, or the URL of one of two databases; nothing else is tried, or created.

What cannot be read is never repeated in the refusal: whatever was mistyped, it may hold a password.
"""

from __future__ import annotations

import os
import re

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from cutline.errors import ParameterError

_LONGEST = 255 - len("-journal")  # bytes of a file's name, with what SQLite adds to it
_ADDRESSES = "Write it like books.db, sqlite:///books.db or postgresql://host/database."


def parse_address(given: str | os.PathLike[str]) -> URL:
    """Read a path or an address; other databases than the two are refused, and so is what only looks like an address.

    Examples
    --------
    >>> parse_address("books.db").render_as_string()
    'sqlite:///books.db'
    >>> parse_address("postgresql://ann@host/books").drivername
    'postgresql+psycopg'
    """
    address = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(address, str):
        raise ParameterError("a ledger's address must be a path or a URL", type(given).__name__, _ADDRESSES)
    url = URL.create("sqlite", database=address) if "://" not in address else _read_url(address)
    if url is None or ("://" not in address and _looks_like_an_address(address)):
        raise ParameterError("a ledger's address must be a path or a URL", "one that cannot be read", _ADDRESSES)
    kind = url.drivername
    if kind in ("postgres", "postgresql", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    if kind not in ("sqlite", "sqlite+pysqlite"):
        raise ParameterError("a ledger is kept in SQLite or PostgreSQL", repr(kind), _ADDRESSES)
    memory = not url.database or ":memory:" in url.database or url.query.get("mode") == "memory"
    if memory:
        raise ParameterError("a ledger must outlive its process", "a database in memory", "Give the path of a file.")
    _check_options(url)
    if (
        max(len(os.fsencode(part)) for part in (url.database or "").split("/")) > _LONGEST
        or len(address) > 4 * _LONGEST
    ):
        raise ParameterError("a ledger's path must be one that a disk can hold", "one that is too long", _ADDRESSES)
    return url


def _read_url(address: str) -> URL | None:
    """Return the parts of a URL, or None. With two @ the parser would take a part of a password for the host."""
    try:
        url = make_url(address) if address.isprintable() and address.count("@") <= 1 else None
    except (ArgumentError, ValueError):
        return None
    # A slash too many makes a name of the login: postgresql:///ann:password@host/books.
    login = url is not None and url.drivername.startswith("postgres") and re.search(r"[@:=\s]", url.database or "")
    return None if login else url


# What a mistyped URL or a list of connection parameters looks like; a file of such a name can be given as sqlite:///name.
_LOOKS_LIKE_AN_ADDRESS = re.compile(
    r"(?!file:)[a-z][a-z0-9+.-]+:"  # postgresql:host, postgres:/x; one letter is a drive
    r"|[a-z][a-z0-9+.-]*//"  # mysql//host
    r"|(.*[\s;&?])?(host|hostaddr|port|dbname|database|user|username|password|passfile|service|sslmode)\s*="
    r"|[^/]*:[^/]*@",  # ann:password@host
    re.IGNORECASE,
)


def _looks_like_an_address(text: str) -> bool:
    return not text.isprintable() or bool(_LOOKS_LIKE_AN_ADDRESS.match(text))


def _check_options(url: URL) -> None:
    """Refuse options of SQLite that switch off its locks or its disk, or that would be ignored."""
    path, options = url.database or "", dict(url.query)
    plain = not options and not path.startswith("file:")
    known = options.pop("mode", "rw") in ("ro", "rw") and options.pop("uri", None) == "true" and not options
    if not (plain or (known and path.startswith("file:") and "?" not in path)):
        raise ParameterError(
            "a ledger's file has no options but mode=ro or mode=rw",
            "another option, or one without uri=true",
            "Write it like sqlite:///file:books.db?mode=ro&uri=true, or give the path alone.",
        )
