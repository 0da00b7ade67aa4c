r"""What every request passes: who calls, whether the route's rule lets them, and how a refusal looks.

Each route carries a `Rule`, put there by `allow`; an application with a route that has none does not start. Browsers are
believed by their cookie only from pages of this service; programs show a token. Refusals are ``application/problem+json`` with
the library's own three parts: rule, value, way_out.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request
from starlette.responses import JSONResponse, Response

from cutline.errors import (
    AdjacencyError,
    BudgetError,
    CutlineError,
    DatasetError,
    EngineError,
    LedgerError,
    MissingExtraError,
    SourceError,
)
from cutline.service.people import ROLES, Caller, People
from cutline.service.store import Conflict, Forbidden, NotFound, TooLarge, TooMany, TooSlow, Unavailable, Unknown

LARGEST_BODY = 256 * 1024
SLOWEST_BODY = 30.0  # seconds
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")  # anybody can invent others; they count as one
_LONGEST_NAME = 100  # of a caller that is remembered; what a stranger writes into a form may be of any length
SESSION_COOKIE = "cutline_session"
OPENID_COOKIE = "cutline_openid"
_STATUS: tuple[tuple[type[CutlineError], int], ...] = (
    (TooMany, 429),
    (TooLarge, 413),
    (TooSlow, 408),
    (NotFound, 404),
    (DatasetError, 404),
    (Forbidden, 403),
    (Unknown, 401),
    (Conflict, 409),
    (BudgetError, 409),
    (AdjacencyError, 409),
    (EngineError, 500),
    (SourceError, 500),
    (MissingExtraError, 500),
    (LedgerError, 503),
    (Unavailable, 502),
)
_HEADERS = (
    (
        b"content-security-policy",
        (
            b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            b"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),  # for pages with a policy of their own
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_log = logging.getLogger("cutline.service")
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Who may call a route: these roles, nobody else; ``scope`` is what a token needs, and without one no token will do."""

    roles: frozenset[str]
    scope: str | None
    public: bool = False
    shows_secret: bool = False  # once, so that it is never kept for an Idempotency-Key


def allow(*roles: str, scope: str | None = None, shows_secret: bool = False) -> Callable[[Endpoint], Endpoint]:
    """Mark an endpoint with the roles that may call it and the scope that a token needs for it."""
    unknown = set(roles) - set(ROLES)
    if unknown or not roles:
        raise ValueError(f"not roles: {sorted(unknown)}")
    return _mark(Rule(roles=frozenset(roles), scope=scope, shows_secret=shows_secret))


def allow_everybody(endpoint: Endpoint) -> Endpoint:
    """Mark an endpoint that anybody may call."""
    return _mark(Rule(roles=frozenset(ROLES), scope=None, public=True))(endpoint)


def rule_of(endpoint: Callable[..., Any]) -> Rule:
    """Return an endpoint's rule, or raise: a route without one must not be served."""
    rule = getattr(endpoint, "rule", None)
    if not isinstance(rule, Rule):
        raise TypeError(f"{endpoint.__qualname__} has no rule; mark it with allow(...)")
    return rule


def _mark(rule: Rule) -> Callable[[Endpoint], Endpoint]:
    def mark(endpoint: Endpoint) -> Endpoint:
        endpoint.rule = rule  # type: ignore[attr-defined]
        return endpoint

    return mark


class Gate:
    """Checks each request against its route's rule and returns who calls."""

    def __init__(self, people: People, *, origin: str, secure: bool) -> None:
        self._people, self._origin, self.secure = people, origin, secure
        # A name that browsers let no other host write, so that nobody plants a session or a sign-in of their own.
        prefix = "__Host-" if secure else ""
        self.cookie, self.openid_cookie = prefix + SESSION_COOKIE, prefix + OPENID_COOKIE
        self._pace = Pace(per_minute=600)
        self.sign_in_pace = Pace(per_minute=10)
        self._door = Pace(per_minute=60)  # forms that anybody may send

    async def check(self, request: Request) -> None:
        """Find out who calls and refuse whom the rule does not name; the caller is left in ``request.state.caller``."""
        rule = rule_of(request.scope["endpoint"])
        caller = await self._caller(request)
        request.state.caller = caller
        self._pace.count(caller.name if caller else _peer(request))
        changes = request.method not in ("GET", "HEAD")
        if changes and (caller is None or caller.by_session):
            self._refuse_other_sites(request)
        if rule.public:
            if changes:
                self._door.count(_peer(request))
            return
        if caller is None:
            raise Unknown("this needs somebody who is signed in, or a token", "", "Sign in, or send a bearer token.")
        if caller.scopes is not None and (rule.scope is None or rule.scope not in caller.scopes):
            needed = "a browser" if rule.scope is None else f"the scope {rule.scope}"
            raise Forbidden(f"this needs {needed}", "a token without it", "Mint one with it, or sign in.")
        if caller.role not in rule.roles:
            raise Forbidden(
                f"this is for {' and '.join(sorted(rule.roles))}", caller.role, "Ask somebody who has that role."
            )

    async def _caller(self, request: Request) -> Caller | None:
        header = request.headers.get("authorization", "")
        kind, _, secret = header.partition(" ")
        if header:
            caller = await self._people.recognise("token", secret.strip()) if kind.lower() == "bearer" else None
            if caller is None:
                self._pace.count(_peer(request))
                raise Unknown("a token must be known and alive", "another", "Mint a new one in the browser.")
            return caller
        cookie = request.cookies.get(self.cookie)
        return None if cookie is None else await self._people.recognise("session", cookie)

    def _refuse_other_sites(self, request: Request) -> None:
        """Believe a browser's cookie only if the request was made by a page of this service."""
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        if origin is not None and origin != self._origin:
            raise Forbidden("a form must be sent by a page of this service", "another origin", "Open the page anew.")
        if origin is None and site not in ("same-origin", "none"):
            raise Forbidden("a form must be sent by a page of this service", "no origin", "Send an Origin header.")


class Pace:
    """How many calls one caller may make in a minute; a bucket that fills by itself."""

    def __init__(self, *, per_minute: int) -> None:
        self._rate, self._full = per_minute / 60, float(per_minute)
        self._left: dict[str, tuple[float, float]] = {}
        self._guard = threading.Lock()

    def count(self, who: str) -> None:
        """Take one call off, or raise."""
        who, now = who[:_LONGEST_NAME], time.monotonic()
        with self._guard:
            left, then = self._left.get(who, (self._full, now))
            left = min(self._full, left + (now - then) * self._rate)
            if len(self._left) > 10_000:  # those that are full again need not be remembered
                self._left = {
                    name: kept
                    for name, kept in self._left.items()
                    if kept[0] + (now - kept[1]) * self._rate < self._full
                }
            self._left[who] = (max(0.0, left - 1), now)
        if left < 1:
            raise TooMany("there is a limit to calls in a minute", f"more than {self._full:.0f}", "Wait a little.")


def refuse_program(_: Request, error: CutlineError, status: int) -> Response:
    """Return a refusal for a program, whoever asked."""
    return problem(error, status)


class Envelope:
    """The outermost layer: refuses large bodies, adds the headers that keep a browser safe, and logs without data."""

    def __init__(
        self,
        app: Any,
        *,
        secure: bool,
        count: Callable[[str, str, int], None],
        refuse: Callable[[Request, CutlineError, int], Response] = refuse_program,
    ) -> None:
        self._app, self._count, self._refuse = app, count, refuse
        self._headers = _HEADERS + (((b"strict-transport-security", b"max-age=31536000"),) if secure else ())

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, begun, slow = 500, False, False
        body = None
        try:
            async with asyncio.timeout(SLOWEST_BODY):
                body = await _read_body(receive)
        except TimeoutError:
            slow = True

        async def replayed() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            message, body = {"type": "http.request", "body": body, "more_body": False}, None
            return message

        async def marked(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                known = {name.lower() for name, _ in message["headers"]}
                added = [pair for pair in self._headers if pair[0] not in known]
                if b"cache-control" not in known:
                    added.append((b"cache-control", b"no-store"))
                message["headers"] = [*message["headers"], *added]
            await send(message)

        try:
            if body is None:
                refusal = _TOO_SLOW if slow else _TOO_LARGE
                await self._refuse(Request(scope), refusal, status_of(refusal))(scope, receive, marked)
            else:
                await self._app(scope, replayed, marked)
        except Exception:  # whatever it is, its text may quote rows
            if not begun:
                await self._refuse(Request(scope), UNEXPECTED, 500)(scope, receive, marked)
        finally:
            route = getattr(scope.get("route"), "path", "unknown")
            caller = scope.get("state", {}).get("caller")
            method = scope["method"] if scope["method"] in _METHODS else "another"
            self._count(route, method, status)
            event = {"event": "request", "route": route, "method": method, "status": status}
            _log.info(json.dumps(event | {"person": caller.name if isinstance(caller, Caller) else None}))


async def _read_body(receive: Receive) -> bytes | None:
    """Return the whole body, or None if it is larger than any question is."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = bool(message.get("more_body", False))
        if len(body) > LARGEST_BODY:
            return None
    return body


_TOO_LARGE = TooLarge("a body has at most 256 KiB", "a larger one", "Send a shorter one.")
_TOO_SLOW = TooSlow("a body is sent within half a minute", "a slower one", "Send it again.")
UNEXPECTED = CutlineError(
    "something failed that should not have; the details are withheld, they may quote rows",
    "",
    "Tell the operator when it was.",
)


def status_of(error: CutlineError) -> int:
    """Return the status of HTTP that says what kind of refusal it is."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 422)


def problem(error: CutlineError, status: int | None = None) -> JSONResponse:
    """Return a refusal as RFC 9457 has it, with the library's three parts."""
    code = status_of(error) if status is None else status
    body = {"type": "about:blank", "title": type(error).__name__, "status": code, "detail": str(error)}
    headers = {"retry-after": "10"} if code == 429 else {"www-authenticate": "Bearer"} if code == 401 else None
    return JSONResponse(
        body | error.to_dict(), status_code=code, media_type="application/problem+json", headers=headers
    )


def _peer(request: Request) -> str:
    return request.client.host if request.client else "unknown"
