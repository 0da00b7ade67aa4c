r"""Who somebody is: one role each, and secrets that only their owner has.

A one-time link lets a person choose a password; a password opens a session in a browser; a session
mints tokens for programs. Secrets are random, and only their digests are kept. A token has scopes and an end.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import Connection, delete, insert, select, update

from cutline.errors import ParameterError
from cutline.service import tables
from cutline.service.store import Conflict, Forbidden, Store, TooMany, Unknown, no_such, plain

ROLES = ("admin", "owner", "analyst", "reviewer")
SCOPES = ("read", "ask", "manage")
_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
_LINK_LIFE = dt.timedelta(days=7)
_SESSION_LIFE = dt.timedelta(hours=12)
_LONGEST_TOKEN_DAYS = 366
_HASHER = PasswordHasher()  # argon2id, with the library's own current parameters
_HASHING = threading.BoundedSemaphore(4)  # each hash takes 64 MiB: many guesses at once must not take all memory
_IN_LINE = threading.BoundedSemaphore(
    12
)  # those that hash or wait for it hold a thread, which others need to read a page
_NOBODYS = _HASHER.hash(secrets.token_urlsafe(16))  # so that an unknown name takes as long as a wrong password


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody who may sign in."""

    name: str
    role: str
    disabled: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"name": self.name, "role": self.role, "disabled": self.disabled}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls, and by what: a session may do all that its role may; a token, what its scopes say of that."""

    person: Person
    scopes: frozenset[str] | None = None  # None: a session
    digest: str = ""

    @property
    def name(self) -> str:
        return self.person.name

    @property
    def role(self) -> str:
        return self.person.role

    @property
    def by_session(self) -> bool:
        """Whether a person sits before a browser."""
        return self.scopes is None


class People:
    """The register of people, and their secrets."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def invite(self, name: str, role: str) -> str:
        """Register a person and return the one-time link's secret, with which they choose a password; old links end."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ParameterError(
                "a name has 1 to 64 of a-z, 0-9 and . _ @ + -", repr(name)[:80], "Try one like ann or ann@example.org."
            )
        if role not in ROLES:
            raise ParameterError("a role must be known", repr(role)[:60], f"Take one of {', '.join(ROLES)}.")
        with self._store.writing() as connection:
            found = _find(connection, name)
            if found is not None and found.role != role:
                raise Conflict("a person keeps one role", f"{name}: {found.role}", "Invite them under another name.")
            if found is None:
                row = {"name": name, "role": role, "created": self._store.now()}
                connection.execute(insert(tables.people).values(**row))
            connection.execute(
                delete(tables.secrets).where(tables.secrets.c.person == name, tables.secrets.c.kind == "link")
            )
            return self._issue(connection, "link", name, life=_LINK_LIFE)

    def accept(self, link: str, password: str) -> Person:
        """Set a password by a one-time link; every session and token of the person before it ends."""
        check_password(password)
        if self.of_link(link) is None:  # hashing is dear, and for those who have a link
            raise _used_up()
        with _hashing():
            hashed = _HASHER.hash(password)
        with self._store.writing() as connection:
            row = self._look_up(connection, "link", link)
            person = None if row is None else _find(connection, row["person"])
            if person is None or person.disabled:
                raise _used_up()
            connection.execute(delete(tables.secrets).where(tables.secrets.c.person == person.name))
            connection.execute(update(tables.people).where(tables.people.c.name == person.name).values(password=hashed))
            return person

    def of_link(self, link: str) -> Person | None:
        """Return whom a one-time link is for, or None; it stays unused."""
        with self._store.reading() as connection:
            row = self._look_up(connection, "link", link)
            return None if row is None else _find(connection, row["person"])

    def sign_in(self, name: str, password: str) -> str:
        """Check a password, and return the secret of a new session."""
        with self._store.reading() as connection:
            row = connection.execute(select(tables.people).where(tables.people.c.name == name)).first()
        known = row is not None and row.password is not None and row.disabled is None
        try:
            with _hashing():
                _HASHER.verify(row.password if known and row is not None else _NOBODYS, password[:1024])
        except (VerificationError, InvalidHashError):
            known = False
        if not known or row is None:
            raise _wrong()
        return self.open_session(str(row.name), password=row.password)

    def open_session(self, name: str, *, password: str | None = None) -> str:
        """Return the secret of a new session of somebody who has shown who they are, by the hash that is theirs still."""
        with self._store.writing() as connection:
            row = connection.execute(select(tables.people).where(tables.people.c.name == name)).first()
            if password is not None and (row is None or row.password != password):  # changed while it was checked
                raise _wrong()
            connection.execute(delete(tables.secrets).where(tables.secrets.c.expires <= self._store.now()))
            return self._issue(connection, "session", name, life=_SESSION_LIFE)

    def sign_out(self, caller: Caller) -> None:
        """End the session."""
        with self._store.writing() as connection:
            connection.execute(delete(tables.secrets).where(tables.secrets.c.digest == caller.digest))

    def of_session(self, secret: str) -> Caller | None:
        """Return who has this session open, or None."""
        return self._read_caller("session", secret)

    def of_token(self, secret: str) -> Caller | None:
        """Return whose token this is, or None."""
        return self._read_caller("token", secret)

    async def recognise(self, kind: str, secret: str) -> Caller | None:
        """Return whose session or token this is, or None; within a second it is looked up once."""
        key = (kind, digest(secret))
        return await self._store.recall.get_soon(key, lambda: self._read_caller(kind, secret))

    def mint(self, caller: Caller, *, label: str, scopes: Iterable[str], days: int) -> tuple[str, str]:
        """Return a new token's id and its secret, which is shown once."""
        if not caller.by_session:
            raise Forbidden("a token cannot mint tokens", "", "Sign in with a browser.")
        wanted = sorted(set(scopes))
        if not wanted or not set(wanted) <= set(SCOPES):
            raise ParameterError("scopes must be known", ", ".join(wanted)[:80], f"Take some of {', '.join(SCOPES)}.")
        if not 1 <= days <= _LONGEST_TOKEN_DAYS:
            raise ParameterError("a token lives for 1 to 366 days", f"days={days}", "Try days=30.")
        with self._store.writing() as connection:
            secret = self._issue(
                connection,
                "token",
                caller.name,
                life=dt.timedelta(days=days),
                label=label[:100],
                scopes=" ".join(wanted),
            )
        return digest(secret)[:16], secret

    def tokens(self, caller: Caller) -> list[dict[str, Any]]:
        """Return the caller's tokens, without their secrets."""
        shown = ("id", "label", "scopes", "created", "expires", "revoked")
        with self._store.reading() as connection:
            rows = connection.execute(
                select(tables.secrets)
                .where(tables.secrets.c.person == caller.name, tables.secrets.c.kind == "token")
                .order_by(tables.secrets.c.created.desc(), tables.secrets.c.id)
            )
            found = [plain(row) for row in rows]
        return [{name: row[name] for name in shown} | {"scopes": row["scopes"].split()} for row in found]

    def revoke(self, caller: Caller, token: str) -> None:
        """End one of the caller's tokens, for ever."""
        mine = (tables.secrets.c.person == caller.name, tables.secrets.c.kind == "token", tables.secrets.c.id == token)
        with self._store.writing() as connection:
            done = connection.execute(update(tables.secrets).where(*mine).values(revoked=self._store.now()))
            if done.rowcount == 0:
                raise no_such("token", token)

    def disable(self, name: str) -> None:
        """Let a person sign in no more; their sessions and tokens end, what they did stays on the books."""
        with self._store.writing() as connection:
            found = _find(connection, name)
            if found is None:
                raise no_such("person", name)
            active = (tables.people.c.role == "admin", tables.people.c.disabled.is_(None), tables.people.c.name != name)
            if found.role == "admin" and connection.execute(select(tables.people).where(*active)).first() is None:
                raise Conflict(
                    "somebody must be left who can invite people", repr(name), "Invite another administrator first."
                )
            connection.execute(
                update(tables.people).where(tables.people.c.name == name).values(disabled=self._store.now())
            )
            connection.execute(delete(tables.secrets).where(tables.secrets.c.person == name))

    def find(self, name: str) -> Person | None:
        """Return a person by name, or None."""
        with self._store.reading() as connection:
            return _find(connection, name)

    def listed(self) -> list[Person]:
        """Return everybody, by name."""
        with self._store.reading() as connection:
            rows = connection.execute(select(tables.people).order_by(tables.people.c.name)).all()
        return [_person(row) for row in rows]

    def _read_caller(self, kind: str, secret: str) -> Caller | None:
        with self._store.reading() as connection:
            row = self._look_up(connection, kind, secret)
            person = None if row is None else _find(connection, row["person"])
        if row is None or person is None or person.disabled:
            return None
        return Caller(
            person=person,
            scopes=None if kind == "session" else frozenset(row["scopes"].split()),
            digest=row["digest"],
        )

    def _issue(
        self, connection: Connection, kind: str, person: str, *, life: dt.timedelta, label: str = "", scopes: str = ""
    ) -> str:
        secret = f"cutline_{kind}_{secrets.token_urlsafe(32)}"
        row = {
            "digest": digest(secret),
            "id": digest(secret)[:16],
            "kind": kind,
            "person": person,
            "label": label,
            "scopes": scopes,
            "created": self._store.now(),
            "expires": self._store.now(plus=life),
        }
        connection.execute(insert(tables.secrets).values(**row))
        return secret

    def _look_up(self, connection: Connection, kind: str, secret: str) -> dict[str, Any] | None:
        """Return the row of a secret that is known, alive and of this kind."""
        row = connection.execute(
            select(tables.secrets).where(
                tables.secrets.c.digest == digest(secret),
                tables.secrets.c.kind == kind,
                tables.secrets.c.expires > self._store.now(),
                tables.secrets.c.revoked.is_(None),
            )
        ).first()
        return None if row is None else plain(row)


@contextmanager
def _hashing() -> Iterator[None]:
    """Hash when it is one's turn; those who would have to wait for long are sent away."""
    if not _IN_LINE.acquire(blocking=False):
        raise TooMany("few people can sign in at once", "more", "Wait a little.")
    try:
        with _HASHING:
            yield
    finally:
        _IN_LINE.release()


def _used_up() -> Unknown:
    return Unknown("a link works once, for a week", "", "Ask for a new one.")


def _wrong() -> Unknown:
    return Unknown("name and password must belong together", "", "Try again, or ask for a new link.")


def check_password(password: str) -> None:
    """Raise for a password that is too short to be one."""
    if not 12 <= len(password) <= 1024:
        raise ParameterError("a password has 12 to 1,024 characters", f"{len(password)} of them", "Take a sentence.")


def digest(secret: str) -> str:
    """Return what is kept of a secret. It is random and long, so a fast digest cannot be guessed back."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _find(connection: Connection, name: str) -> Person | None:
    row = connection.execute(select(tables.people).where(tables.people.c.name == name)).first()
    return None if row is None else _person(row)


def _person(row: Any) -> Person:
    return Person(name=row.name, role=row.role, disabled=row.disabled is not None)
