r"""The list of datasets, a dataset as analysts and reviewers see it, and asking."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from cutline.count_errors import CountError
from cutline.errors import CutlineError
from cutline.service.api.parts import TheCaller, TheDataset, TheOffice
from cutline.service.asking import Asked
from cutline.service.catalogue import Dataset
from cutline.service.drawing import draw_burn_down, draw_chances
from cutline.service.office import Office
from cutline.service.pages.history import show_history
from cutline.service.pages.owners import describe_periods, show_owned
from cutline.service.pages.parts import go, read_form, render, text, whole
from cutline.service.people import Caller
from cutline.service.web import allow, status_of

router = APIRouter(include_in_schema=False)
_SPENDS = (1, 3, 10)  # usual questions that may be spent on one
_USUAL_K = 10  # items, where the number of those that come out is not known


@router.get("/")
@allow("admin", "owner", "analyst", "reviewer")
def show_home(request: Request, office: TheOffice, caller: TheCaller) -> Response:
    """List what the caller may see; an administrator sees people, and no data."""
    if caller.role == "admin":
        return go("/people")
    found = office.catalogue.listed(caller, limit=200)
    return render(request, "home.html", datasets=[office.describe(caller, dataset) for dataset in found])


@router.get("/datasets/{name}")
@allow("owner", "analyst", "reviewer")
def show_dataset(request: Request, office: TheOffice, caller: TheCaller, dataset: TheDataset) -> Response:
    """Show a dataset as the caller's role needs it; for an analyst the address may hold a question to begin with."""
    if caller.role == "owner":
        return show_owned(request, office, caller, dataset)
    if caller.role == "reviewer":
        return _show_review(request, office, caller, dataset)
    asked = Asked(item=dataset.description.items[0])
    try:
        asked, size = _read_question(office, dataset, request.query_params)
        known = office.desk.known_price(dataset, asked) is not None
        price = _price(office, caller, dataset, asked, size) if known else None
    except CutlineError as error:
        return _show_ask(request, office, caller, dataset, asked, refused=error)
    return _show_ask(request, office, caller, dataset, asked, size=size, price=price)


@router.post("/datasets/{name}")
@allow("analyst")
async def ask(request: Request, office: TheOffice, caller: TheCaller, dataset: TheDataset) -> Response:
    """Show the price of a question, or pay and answer it."""
    form = await read_form(request)
    asked = Asked(item=dataset.description.items[0])
    try:
        asked, size = await run_in_threadpool(_read_question, office, dataset, form)
        if form.get("do") == "pay":
            return await _pay(request, office, caller, dataset, asked)
        price = await run_in_threadpool(_price, office, caller, dataset, asked, size)
    except CutlineError as error:
        return await run_in_threadpool(_show_ask, request, office, caller, dataset, asked, refused=error)
    return await run_in_threadpool(_show_ask, request, office, caller, dataset, asked, size=size, price=price)


@router.post("/datasets/{name}/price")
@allow("analyst")
async def show_price(request: Request, office: TheOffice, caller: TheCaller, dataset: TheDataset) -> Response:
    """Return the part of the page that changes with the question, for the script that asks whenever the form changes."""
    form = await read_form(request)
    try:
        asked, size = await run_in_threadpool(_read_question, office, dataset, form)
        price = await run_in_threadpool(_price, office, caller, dataset, asked, size)
    except CutlineError as error:
        return render(request, "price.html", status=status_of(error), refusal=error.to_dict(), price=None)
    return render(request, "price.html", price=price)


@router.post("/datasets/{name}/requests")
@allow("analyst")
async def wish(request: Request, office: TheOffice, caller: TheCaller, dataset: TheDataset) -> Response:
    """Ask the owner for more."""
    form = await read_form(request)
    try:
        office.catalogue.ask_for_more(dataset, caller, wish=form.get("wish", ""), share=text(form, "share"))
    except CutlineError as error:
        asked = Asked(item=dataset.description.items[0])
        return await run_in_threadpool(_show_ask, request, office, caller, dataset, asked, refused=error)
    return go(f"/datasets/{dataset.name}", done="asked")


def _read_question(office: Office, dataset: Dataset, form: Mapping[str, str]) -> tuple[Asked, int | None]:
    """Return the question of a form or an address, and the size of the gap whose chance is wanted."""
    spend = whole(form, "spend") or 1
    of = office.books.show(dataset.account).budget.releases
    asked = Asked(
        item=text(form, "item") or dataset.description.items[0],
        k=whole(form, "k"),
        filter=text(form, "filter"),
        by=text(form, "by"),
        counts="counts" in form,
        share=f"{spend}/{of}" if spend > 1 else None,
        purpose=(text(form, "purpose") or "")[:500] or None,
    )
    return asked, whole(form, "size")


def _price(office: Office, caller: Caller, dataset: Dataset, asked: Asked, size: int | None) -> dict[str, Any]:
    """Return everything about a question that is shown before it is paid for."""
    told = office.quote(caller, dataset, asked, size=size)
    sight, counts = office.desk.price(dataset, asked).sight, told["mechanism"].get("counts")
    left, of = told["questions_left"]["left"], office.books.show(dataset.account).budget.releases
    takes = max(1, math.ceil(told["share_percent"] / 100 * of - 1e-6))
    listed = asked.k or _USUAL_K
    return told | {
        "figure": "" if sight is None else draw_chances(sight.curve, size=size),
        "takes": takes,
        "left_after": max(0, left - takes),
        "listed": listed,
        "plus_minus": None if not counts else CountError.of_release(counts, listed).half_width,
        "answered": office.desk.find(dataset, asked, caller),
    }


async def _pay(request: Request, office: Office, caller: Caller, dataset: Dataset, asked: Asked) -> Response:
    """Run the question, now or as a job, and send the browser to its answer."""

    def run() -> Response:
        if dataset.description.answers == "later":
            office.desk.price(dataset, asked)
            return go(f"/datasets/{dataset.name}/jobs/{office.jobs.submit(dataset, asked, caller)}")
        release = office.desk.answer(dataset, asked, caller)
        free = "?free" if release.repeated_from is not None else ""
        return go(f"/datasets/{dataset.name}/answers/{release.entry}{free}")

    response: Response = await request.app.state.queue.wait(run)
    return response


def _show_ask(
    request: Request,
    office: Office,
    caller: Caller,
    dataset: Dataset,
    asked: Asked,
    *,
    size: int | None = None,
    price: Mapping[str, Any] | None = None,
    refused: CutlineError | None = None,
) -> Response:
    described = office.describe(caller, dataset)
    left = described["questions_left"]["left"]
    spend = 1 if asked.share is None else int(asked.share.partition("/")[0])
    return render(
        request,
        "ask.html",
        status=200 if refused is None else status_of(refused),
        dataset=described,
        asked=asked,
        size=size,
        spend=spend,
        spends=sorted({each for each in (*_SPENDS, spend) if each <= max(left, 1)}),
        price=price,
        wishes=office.catalogue.requests(dataset, caller),
        refusal=None if refused is None else refused.to_dict(),
        **show_history(request, office, caller, dataset),
    )


def _show_review(request: Request, office: Office, caller: Caller, dataset: Dataset) -> Response:
    account = office.books.show(dataset.account)
    return render(
        request,
        "review.html",
        dataset=office.describe(caller, dataset),
        figure=draw_burn_down(office.books.burn_down(dataset.account), questions=account.budget.releases),
        grants=[grant.to_dict() for grant in office.catalogue.grants(dataset)],
        audit=office.books.audit().to_dict(),
        public_key=office.signer.public_key,
        **describe_periods(office, dataset),
        **show_history(request, office, caller, dataset),
    )
