r"""The service's one file of settings, which the operator writes: where it listens, where the books are, which logs there are.

Logs are named here and nowhere else: an owner who registers a dataset in the browser chooses among these names, and no path
ever comes from a form.
"""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from cutline.errors import ParameterError, SourceError

CLAIMS = ("email", "preferred_username", "sub")
_LOOPBACK_NAMES = ("localhost",)
_EXAMPLE = """\
# Settings of `cutline serve`. Paths are relative to this file.
address = "127.0.0.1"     # other addresses need [tls], or behind_proxy = true
port = 8765
books = "books.db"        # the ledger: a file, or postgresql://host/database
store = "service.db"      # people, tokens, datasets: a file, or postgresql://host/database
signing_key = "signing.key"
tick = 1.0                # seconds: answers that read data appear on a multiple of this

# One table for each log that owners may register. What is private stays here: nobody sees a path in the browser.
# [sources.checkins]
# path = "checkins/*.parquet"
# memory_limit = "1GB"

# Sign-in through a provider of OpenID Connect. People are invited first, under the name that the provider knows.
# [openid]
# issuer = "https://login.example.org"
# client_id = "cutline"
# client_secret_file = "openid.secret"   # mode 0600
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """Where one log is: files by path or glob, or a table of a warehouse that Ibis connects to."""

    path: str | None = None
    ibis: str | None = None
    table: str | None = None
    memory_limit: str | None = None
    format: str | None = None

    def open(self) -> Any:
        """Return what `cutline.count` takes; nothing is read."""
        if self.path is not None:
            return self.path
        from cutline.extras import require

        ibis = require("ibis", extra="ibis", purpose="a table of a warehouse")
        try:
            table = ibis.connect(self.ibis).table(self.table)
        except Exception:  # whatever a driver says, it may hold a login
            table = None
        if table is None:
            raise SourceError("the warehouse must answer, and have the table", "", "Tell the operator.")
        return table


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdSettings:
    """The provider that says who somebody is, and which of its claims is their name here."""

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    client_secret_file: str | None = None
    client_secret_variable: str | None = None
    label: str = "Sign in through your company"
    claim: str = "email"

    def __post_init__(self) -> None:
        secrets = (self.client_secret, self.client_secret_file, self.client_secret_variable)
        given = [each for each in secrets if each is not None]
        if not all(isinstance(each, str) and each for each in (self.issuer, self.client_id, self.label, *given)):
            raise ParameterError("settings of [openid] are texts that are not empty", "another", "See docs/deploy.md.")
        if not is_safe_address(self.issuer) or urlsplit(self.issuer).query:
            raise ParameterError(
                "an issuer is an https address without a query, or one of this machine",
                f"issuer={self.issuer[:80]!r}",
                "Copy it from the provider's description of itself.",
            )
        if len(given) != 1:
            raise ParameterError(
                "a client secret is given in one way",
                f"{len(given)} of them",
                "Set client_secret_file, client_secret_variable or client_secret.",
            )
        if self.claim not in CLAIMS:
            raise ParameterError(
                "people are named by a known claim", f"claim={self.claim!r}"[:80], f"Take one of {', '.join(CLAIMS)}."
            )

    def read_secret(self, folder: Path) -> str:
        """Return the secret that the provider knows this service by."""
        if self.client_secret is not None:
            return self.client_secret
        secret, mode = "", 0
        if self.client_secret_variable is not None:
            secret = os.environ.get(self.client_secret_variable, "")
        elif self.client_secret_file is not None:
            path = folder / self.client_secret_file
            try:
                mode, secret = path.stat().st_mode, path.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError):
                secret = ""
        if mode & 0o077:
            raise ParameterError(
                "a client secret must be readable by its owner alone", f"mode {mode & 0o777:o}", "Run chmod 600 on it."
            )
        if not secret:
            raise ParameterError("[openid] needs its client secret", "none", "Write the file, or set the variable.")
        return secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that is fixed while the service runs."""

    folder: Path
    address: str = "127.0.0.1"
    port: int = 8765
    origin: str | None = None
    books: str = "books.db"
    store: str = "service.db"
    signing_key: str = "signing.key"
    tick: float = 1.0
    behind_proxy: bool = False
    certificate: str | None = None
    private_key: str | None = None
    sources: Mapping[str, SourceSettings] = field(default_factory=dict)
    openid: OpenIdSettings | None = None
    passwords: bool = True

    def __post_init__(self) -> None:
        if not 0.01 <= self.tick <= 600:
            raise ParameterError("tick must be from 0.01 to 600 seconds", f"tick={self.tick}", "Try tick = 1.0.")
        if not 0 < self.port < 65536:
            raise ParameterError("port must be from 1 to 65535", f"port={self.port}", "Try port = 8765.")
        if not self.passwords and self.openid is None:
            raise ParameterError(
                "somebody must be able to sign in", "passwords=False without [openid]", "Set one of the two."
            )
        if not (is_loopback(self.address) or self.certificate or self.behind_proxy):
            raise ParameterError(
                "an address that others can reach needs TLS",
                f"address={self.address!r}",
                "Set certificate and private_key under [tls], or behind_proxy = true if a proxy does it.",
            )
        if (self.behind_proxy or not is_loopback(self.address)) and not self.secure:
            raise ParameterError(
                "what browsers call a service that others can reach is https, or cookies travel in the open",
                f"origin={self.origin!r}"[:80],
                "Set origin, like https://cutline.example.org.",
            )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read the file; relative paths in it start from its folder."""
        target = Path(path)
        try:
            plain = tomllib.loads(target.read_text(encoding="utf-8"))
        except OSError:
            raise ParameterError(
                "the service needs its file of settings", f"{str(path)!r}", "Write one with `cutline serve init`."
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise ParameterError("the settings must be TOML", f"{str(path)!r}", "See docs/deploy.md.") from None
        return cls.parse(plain, folder=target.parent)

    @classmethod
    def parse(cls, plain: Mapping[str, Any], *, folder: Path) -> Self:
        """Read settings from plain data, and refuse what is not one of them."""
        given = dict(plain)
        sources = {
            str(name): _section(SourceSettings, f"sources.{name}", each)
            for name, each in _table(given.pop("sources", {}), "sources").items()
        }
        for name, source in sources.items():
            if (source.path is None) == (source.ibis is None) or (source.ibis is None) != (source.table is None):
                raise ParameterError(
                    "a source is a path, or an Ibis address with a table", f"sources.{name}", "See docs/deploy.md."
                )
        tls = _table(given.pop("tls", {}), "tls")
        openid = given.pop("openid", None)
        made: Self = _section(
            cls,
            "the settings",
            {
                **given,
                **tls,
                "folder": folder.resolve(),
                "sources": sources,
                "openid": None if openid is None else _section(OpenIdSettings, "openid", openid),
            },
        )
        return made

    @property
    def public_origin(self) -> str:
        """What browsers call this service: scheme, host and port."""
        if self.origin is not None:
            parts = urlsplit(self.origin)
            return f"{parts.scheme}://{parts.netloc}"
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}"

    @property
    def secure(self) -> bool:
        """Whether browsers reach it by TLS, so that cookies may be kept to it."""
        return self.public_origin.startswith("https:")

    def place(self, name: str) -> str:
        """Return where a file is that the settings name; addresses of databases are returned as they are."""
        return name if "://" in name else str(self.folder / name)


def write_example(path: Path) -> None:
    """Write a file of settings with every line explained; never over another."""
    with path.open("x", encoding="utf-8") as file:
        file.write(_EXAMPLE)


def is_safe_address(address: str) -> bool:
    """Return whether an address is of https, or of this machine, and is nothing but an address."""
    if not address.isascii() or not address.isprintable() or " " in address:
        return False
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or "@" in parts.netloc or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def is_loopback(address: str) -> bool:
    """Return whether an address is reached from this machine alone."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address in _LOOPBACK_NAMES


def _table(plain: object, name: str) -> dict[str, Any]:
    if not isinstance(plain, dict):
        raise ParameterError(f"{name} must be a table of TOML", name, "See docs/deploy.md.")
    return plain


def _section(kind: type[Any], name: str, plain: object) -> Any:
    """Build one part of the settings from its table; names and types must be those of its fields."""
    given = _table(plain, name)
    fields = kind.__dataclass_fields__
    unknown = sorted(set(given) - set(fields))
    if unknown:
        raise ParameterError(f"{name} has no such setting", ", ".join(unknown), f"Known: {', '.join(fields)}.")
    try:
        made = kind(**given)
    except TypeError:
        raise ParameterError(f"{name} lacks a setting", name, f"Known: {', '.join(fields)}.") from None
    for key, value in given.items():
        wanted = type(fields[key].default)
        if wanted in (int, float, str, bool) and not _fits(value, wanted):
            raise ParameterError(f"{key} must be of type {wanted.__name__}", f"{key}={value!r}", "See docs/deploy.md.")
    return made


def _fits(value: object, wanted: type) -> bool:
    if wanted is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is wanted
