r"""``/quotes``, ``/releases``, ``/jobs``, certificates and the audit of the books."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import JSONResponse, Response

from cutline.service.api.bodies import REFUSALS, AskedIn, Limit, QuoteIn
from cutline.service.api.once import OnceRoute
from cutline.service.api.parts import Plain, TheCaller, TheDataset, TheOffice
from cutline.service.web import allow

router = APIRouter(prefix="/api/v1", responses=REFUSALS, tags=["releases"], route_class=OnceRoute)
Entry = Annotated[int, Path(ge=1, lt=2**62)]


@router.post("/datasets/{name}/quotes")
@allow("analyst", scope="ask")
async def price(office: TheOffice, caller: TheCaller, dataset: TheDataset, body: QuoteIn) -> Plain:
    """Return what a question would cost and could show; nothing is read and nothing charged."""
    return await office.quote_soon(caller, dataset, body.asked(), size=body.size)


@router.post(
    "/datasets/{name}/releases",
    response_model=Plain,
    responses={202: {"description": "Answered later; see Location.", "model": dict[str, Any]}},
)
@allow("analyst", scope="ask")
async def ask(
    request: Request, office: TheOffice, caller: TheCaller, dataset: TheDataset, body: AskedIn
) -> Response | Plain:
    """Pay, count, draw, settle. Whether it is answered now or later is fixed by the dataset."""
    asked = body.asked()

    def run() -> Response | Plain:
        if dataset.description.answers == "later":
            office.desk.price(dataset, asked)  # refuses what cannot be asked, before it is written down
            number = office.jobs.submit(dataset, asked, caller)
            place = {"location": f"/api/v1/jobs/{number}"}
            return JSONResponse({"id": number, "state": "queued"}, status_code=202, headers=place)
        return office.desk.answer(dataset, asked, caller).to_dict()

    answer: Response | Plain = await request.app.state.queue.wait(run)
    return answer


@router.get("/jobs/{number}")
@allow("analyst", scope="read")
def show_job(office: TheOffice, caller: TheCaller, number: str) -> Plain:
    """Return a question that is answered later: queued, done or failed."""
    return office.jobs.show(caller, number)


@router.get("/datasets/{name}/releases")
@allow("owner", "analyst", "reviewer", scope="read")
def list_releases(
    office: TheOffice,
    caller: TheCaller,
    dataset: TheDataset,
    before: Annotated[int | None, Query(ge=1, lt=2**62)] = None,
    limit: Limit = 50,
) -> Plain:
    """Return what was asked, newest first."""
    shown = office.history(caller, dataset, before=before, limit=limit)
    return {"releases": shown, "next": shown[-1]["entry"] if len(shown) == limit else None}


@router.get("/datasets/{name}/releases/{number}")
@allow("owner", "analyst", "reviewer", scope="read")
def show_release(
    office: TheOffice, dataset: TheDataset, number: Entry, form: Literal["plain", "record"] = "plain"
) -> Plain:
    """Return one answer, as it was given: as plain data, or as a record that the library reads back."""
    entry, answer = office.answer_of(dataset, number)
    if form == "plain":
        return answer.to_dict()
    return {"answer": entry.answer, "account": None if answer.account is None else dict(answer.account)}


@router.get("/datasets/{name}/releases/{number}/certificate")
@allow("owner", "analyst", "reviewer", scope="read")
def certify(office: TheOffice, dataset: TheDataset, number: Entry) -> Plain:
    """Return a signed certificate of one answer, which `cutline verify-release` checks offline."""
    return office.certify(dataset, number)


@router.get("/datasets/{name}/audit")
@allow("owner", "reviewer", scope="read")
def audit(
    office: TheOffice,
    dataset: TheDataset,
    head: Annotated[str | None, Query(pattern="^[0-9a-f]{64}$")] = None,
) -> Plain:
    """Recompute the books, every sum and the chain, and return what does not fit; with the heads of this dataset."""
    found = office.books.audit(head).to_dict()
    return {"dataset": dataset.name, **found}
