r"""A POST with an Idempotency-Key is done once, and the next ones with the same key are answered as the first was.

A caller that lost an answer to a broken connection sends the same request again, and pays for nothing twice. What shows a
secret takes no key, since a secret is shown once and kept nowhere.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakValueDictionary

from anyio.to_thread import run_sync
from fastapi import Request
from fastapi.routing import APIRoute
from sqlalchemy import delete, insert, select
from starlette.responses import Response

from cutline.errors import CutlineError, ParameterError
from cutline.service import tables
from cutline.service.office import Office
from cutline.service.store import Conflict, plain
from cutline.service.web import Rule, problem, rule_of, status_of

_HEADER = "idempotency-key"
_KEPT = dt.timedelta(days=7)  # for as long a key is known; the answer itself is on the books for ever
_NOTHING_DONE = (401, 403, 404, 413, 429, 503)  # refusals after which the same request may well be taken
_DESCRIBED = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 100},
    "description": "A POST with a key that was used is answered as it was then.",
}
Handler = Callable[[Request], Awaitable[Response]]


class OnceRoute(APIRoute):
    """A route whose POST may carry a key."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **named: Any) -> None:
        rule = getattr(endpoint, "rule", None)
        if "POST" in (named.get("methods") or ()) and isinstance(rule, Rule) and not rule.shows_secret:
            named["openapi_extra"] = {"parameters": [_DESCRIBED]}
        super().__init__(path, endpoint, **named)

    def get_route_handler(self) -> Any:
        """Return what answers a request: as always, or once for each key."""
        handle = super().get_route_handler()

        async def handle_once(request: Request) -> Response:
            key = request.headers.get(_HEADER)
            if key is None or request.method != "POST":
                return await handle(request)
            if not 1 <= len(key) <= 100 or rule_of(self.endpoint).shows_secret:
                raise ParameterError(
                    "an Idempotency-Key has 1 to 100 characters, and stands before nothing that shows a secret",
                    f"{len(key)} characters",
                    "Shorten it, or leave it out.",
                )
            await request.app.state.gate.check(request)  # before anything that was answered is shown again
            if self.path.startswith("/api/v1/datasets/{name}"):
                await request.app.state.office.catalogue.find_soon(request.state.caller, request.path_params["name"])
            once: Once = request.app.state.once
            return await once.run(request, key, handle)

        return handle_once


class Once:
    """What was answered to which key of whom."""

    def __init__(self, office: Office) -> None:
        self._office = office
        # A lock lives as long as somebody waits for it.
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def run(self, request: Request, key: str, handle: Handler) -> Response:
        """Handle the request, or answer as before; with one key the whole request must be the same."""
        person = request.state.caller.name
        text = request.url.path.encode() + b"\n" + await request.body()
        digest = hashlib.sha256(text).hexdigest()
        lock = self._locks.setdefault((person, key), asyncio.Lock())
        async with lock:
            known = await run_sync(self._find, person, key)
            if known is None:
                try:
                    response = await handle(request)
                except CutlineError as error:
                    if status_of(error) in _NOTHING_DONE:
                        raise
                    response = problem(error)
                await run_sync(self._keep, person, key, digest, response)
                return response
        if known["digest"] != digest:
            raise Conflict("a key stands for one request", repr(key), "Take a new Idempotency-Key.")
        headers = {"location": known["location"]} if known["location"] else None
        media = "application/problem+json" if known["status"] >= 400 else "application/json"
        return Response(known["body"], status_code=known["status"], headers=headers, media_type=media)

    def _find(self, person: str, key: str) -> dict[str, Any] | None:
        wanted = select(tables.replays).where(tables.replays.c.person == person, tables.replays.c.key == key)
        with self._office.store.reading() as connection:
            row = connection.execute(wanted).first()
        return None if row is None else plain(row)

    def _keep(self, person: str, key: str, digest: str, response: Response) -> None:
        row = {
            "person": person,
            "key": key,
            "digest": digest,
            "location": response.headers.get("location", ""),
            "body": json.dumps(json.loads(bytes(response.body))),
            "status": response.status_code,
            "created": self._office.store.now(),
        }
        forgotten = delete(tables.replays).where(tables.replays.c.created < self._office.store.now(plus=-_KEPT))
        with self._office.store.writing() as connection:
            connection.execute(forgotten)
            connection.execute(insert(tables.replays).values(**row))
