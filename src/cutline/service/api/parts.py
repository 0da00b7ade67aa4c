r"""What the routes share: who calls, which dataset they mean, and how a question waits for its answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated, Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Depends, Request

from cutline.service.asking import OnTick
from cutline.service.catalogue import Dataset
from cutline.service.office import Office
from cutline.service.people import Caller

Plain = dict[str, Any]
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


class Queue:
    """Runs questions that wait for their answer, so many at a time."""

    def __init__(self) -> None:
        self._limiter: CapacityLimiter | None = None  # belongs to the loop that serves

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
