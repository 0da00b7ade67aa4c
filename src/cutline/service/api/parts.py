r"""What the routes share: who calls, which dataset they mean, and how a POST with a key is answered once."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import json
import time
from collections.abc import Callable
from typing import Annotated, Any
from weakref import WeakValueDictionary

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Depends, Request
from sqlalchemy import delete, insert, select
from starlette.responses import JSONResponse, Response

from cutline.errors import CutlineError
from cutline.service import tables
from cutline.service.asking import OnTick
from cutline.service.catalogue import Dataset
from cutline.service.office import Office
from cutline.service.people import Caller
from cutline.service.store import Conflict, plain
from cutline.service.web import problem

Plain = dict[str, Any]
_KEPT = dt.timedelta(days=7)  # for as long a key is known; the answer itself is on the books for ever
_AT_ONCE = 32  # questions that wait for their answer at the same time; more wait for these


async def _office(request: Request) -> Office:
    office: Office = request.app.state.office
    return office


async def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


TheOffice = Annotated[Office, Depends(_office)]
TheCaller = Annotated[Caller, Depends(_caller)]


async def _dataset(name: str, office: TheOffice, caller: TheCaller) -> Dataset:
    return await office.catalogue.find_soon(caller, name)


TheDataset = Annotated[Dataset, Depends(_dataset)]


class Once:
    """Answers a POST once for each Idempotency-Key, and the next ones with the same key as the first."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._limiter: CapacityLimiter | None = None
        # A lock lives as long as somebody waits for it.
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def run(self, caller: Caller, key: str | None, text: str, do: Callable[[], Any]) -> Response:
        """Do it, or answer as before; ``text`` is the whole request, which must be the same for the same key."""
        if key is None:
            return await self._answer(do)
        digest = hashlib.sha256(text.encode()).hexdigest()
        lock = self._locks.setdefault((caller.name, key), asyncio.Lock())
        async with lock:
            known = await run_sync(self._find, caller.name, key)
            if known is None:
                response = await self._answer(do)
                await run_sync(self._keep, caller.name, key, digest, response)
                return response
        if known["digest"] != digest:
            raise Conflict("a key stands for one request", repr(key), "Take a new Idempotency-Key.")
        headers = {"location": known["location"]} if known["location"] else None
        media = "application/problem+json" if known["status"] >= 400 else "application/json"
        return Response(known["body"], status_code=known["status"], headers=headers, media_type=media)

    async def wait(self, do: Callable[[], Any]) -> Any:
        """Run in a thread; return what comes out, which was settled on its tick, or raise on one what failed."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(_AT_ONCE)
        try:
            return await run_sync(do, limiter=self._limiter)
        except OnTick as held:
            failed, visible_from = held.error, held.visible_from
        while (left := visible_from - time.time()) > 0:
            await asyncio.sleep(left)
        raise failed

    async def _answer(self, do: Callable[[], Any]) -> Response:
        try:
            found = await self.wait(do)
        except CutlineError as error:
            return problem(error)
        return found if isinstance(found, Response) else JSONResponse(found)

    def _find(self, person: str, key: str) -> Plain | None:
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
