r"""The list of datasets, a dataset as analysts, owners and reviewers see it, and what owners do."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from cutline.errors import CutlineError, ParameterError
from cutline.privacy import Budget
from cutline.service.api.parts import TheCaller, TheDataset, TheOffice
from cutline.service.asking import Asked
from cutline.service.catalogue import Dataset, Description, Groups
from cutline.service.drawing import draw_burn_down
from cutline.service.office import Office
from cutline.service.pages.parts import go, number, read_form, render, text, whole
from cutline.service.people import Caller
from cutline.service.planner import plan_budget
from cutline.service.web import allow, status_of

router = APIRouter(include_in_schema=False)
_SHOWN = 30  # entries of the history on a page


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
    """Show a dataset as the caller's role needs it."""
    return _show(request, office, caller, dataset)


@router.post("/datasets/{name}")
@allow("analyst")
async def ask(request: Request, office: TheOffice, caller: TheCaller, dataset: TheDataset) -> Response:
    """Show the price of a question, or pay and answer it."""
    form = await read_form(request)
    asked = Asked(item=dataset.description.items[0])
    try:
        asked = Asked(
            item=text(form, "item") or asked.item,
            k=whole(form, "k"),
            filter=text(form, "filter"),
            by=text(form, "by"),
            counts="counts" in form,
            purpose=text(form, "purpose"),
        )
        if form.get("do") != "pay":
            price = await run_in_threadpool(office.quote, caller, dataset, asked)
            return await run_in_threadpool(_show, request, office, caller, dataset, asked=asked, price=price)
        return await _pay(request, office, caller, dataset, asked)
    except CutlineError as error:
        return await run_in_threadpool(_show, request, office, caller, dataset, asked=asked, refused=error)


@router.post("/datasets/{name}/requests")
@allow("analyst")
async def wish(request: Request, office: TheOffice, caller: TheCaller, dataset: TheDataset) -> Response:
    """Ask the owner for more."""
    form = await read_form(request)
    office.catalogue.ask_for_more(dataset, caller, wish=form.get("wish", ""), share=text(form, "share"))
    return go(f"/datasets/{dataset.name}")


@router.post("/datasets/{name}/requests/{request_id}")
@allow("owner")
async def decide(request: Request, office: TheOffice, dataset: TheDataset, request_id: str) -> Response:
    """Approve or decline a wish."""
    form = await read_form(request)
    office.catalogue.decide(dataset, request_id, approve=form.get("approve") == "yes")
    return go(f"/datasets/{dataset.name}")


@router.post("/datasets/{name}/grants")
@allow("owner")
async def give_access(request: Request, office: TheOffice, dataset: TheDataset) -> Response:
    """Let somebody ask or review."""
    form = await read_form(request)
    ends = text(form, "expires")
    try:
        expires = None if ends is None else dt.date.fromisoformat(ends)
    except ValueError:
        raise ParameterError("a date is written like 2026-12-31", repr(ends)[:40], "Write it so.") from None
    person, role = form.get("person", "").lower(), form.get("role", "")
    office.catalogue.grant(dataset, person, role=role, share=text(form, "share"), expires=expires)
    return go(f"/datasets/{dataset.name}")


@router.post("/datasets/{name}/grants/{person}/end")
@allow("owner")
def take_access(office: TheOffice, dataset: TheDataset, person: str) -> Response:
    """Take access away."""
    office.catalogue.revoke(dataset, person)
    return go(f"/datasets/{dataset.name}")


@router.post("/datasets/{name}/versions")
@allow("owner")
async def declare_version(request: Request, office: TheOffice, dataset: TheDataset) -> Response:
    """Say that the data are new."""
    form = await read_form(request)
    office.catalogue.declare_version(dataset, form.get("version", ""))
    return go(f"/datasets/{dataset.name}")


@router.post("/datasets/{name}/periods")
@allow("owner")
async def open_period(request: Request, office: TheOffice, dataset: TheDataset) -> Response:
    """Open another account."""
    form = await read_form(request)
    budget = Budget(epsilon=number(form, "epsilon"), delta=1e-6, releases=whole(form, "questions") or 0)
    office.catalogue.open_period(dataset, form.get("period", ""), budget)
    return go(f"/datasets/{dataset.name}")


@router.post("/datasets/{name}/close")
@allow("owner")
async def close(request: Request, office: TheOffice, dataset: TheDataset) -> Response:
    """Refuse every further question, for ever, if the box is ticked."""
    form = await read_form(request)
    if form.get("sure") == "yes":
        office.catalogue.close(dataset)
    return go(f"/datasets/{dataset.name}")


@router.get("/register")
@allow("owner")
def show_register(request: Request, office: TheOffice) -> Response:
    """Show the form that registers a log."""
    return render(request, "register.html", given={}, sources=sorted(office.config.sources), plan=None)


@router.post("/register")
@allow("owner")
async def register(request: Request, office: TheOffice, caller: TheCaller) -> Response:
    """Plan the budget, or register the log."""
    form = await read_form(request)
    shown: dict[str, Any] = {"given": form, "sources": sorted(office.config.sources), "plan": None}
    try:
        if form.get("do") == "plan":
            wished = {"questions": whole(form, "questions") or 0, "gap": whole(form, "gap") or 0}
            shown["plan"] = await run_in_threadpool(plan_budget, **wished, delta=number(form, "delta"))
            return render(request, "register.html", **shown)
        budget = Budget(
            epsilon=number(form, "epsilon"), delta=number(form, "delta"), releases=whole(form, "questions") or 0
        )
        dataset = await run_in_threadpool(
            office.register,
            caller,
            form.get("name", ""),
            read_description(form),
            version=form.get("version", ""),
            period=form.get("period", ""),
            budget=budget,
        )
    except CutlineError as error:
        return render(request, "register.html", status=status_of(error), refusal=error.to_dict(), **shown)
    return go(f"/datasets/{dataset.name}")


def read_description(form: Mapping[str, str]) -> Description:
    """Return what the form declares about a log."""
    limit = whole(form, "max_groups_per_user")
    groups = {
        column: Groups(values=tuple(_listed(values)), max_groups_per_user=limit)
        for column, values in _lines(form.get("groups", ""), "groups").items()
    }
    return Description(
        title=form.get("title", "")[:200],
        source=form.get("source", ""),
        user=form.get("user", ""),
        items=tuple(_listed(form.get("items", ""))),
        filters=_lines(form.get("filters", ""), "filters"),
        groups=groups,
        max_items_per_user=whole(form, "max_items_per_user"),
        answers=form.get("answers", "now"),
    )


async def _pay(request: Request, office: Office, caller: Caller, dataset: Dataset, asked: Asked) -> Response:
    """Run the question, now or as a job, and send the browser to its answer."""

    def run() -> Response:
        if dataset.description.answers == "later":
            office.desk.price(dataset, asked)
            return go(f"/datasets/{dataset.name}/jobs/{office.jobs.submit(dataset, asked, caller)}")
        release = office.desk.answer(dataset, asked, caller)
        free = "?free" if release.repeated_from is not None else ""
        return go(f"/datasets/{dataset.name}/answers/{release.entry}{free}")

    response: Response = await request.app.state.once.wait(run)
    return response


def _show(
    request: Request,
    office: Office,
    caller: Caller,
    dataset: Dataset,
    *,
    asked: Asked | None = None,
    price: Mapping[str, Any] | None = None,
    refused: CutlineError | None = None,
) -> Response:
    rows = office.history(caller, dataset, before=None, limit=_SHOWN)
    shown: dict[str, Any] = {"dataset": office.describe(caller, dataset), "rows": rows}
    if caller.role == "analyst":
        return render(
            request,
            "ask.html",
            status=200 if refused is None else status_of(refused),
            asked=asked or Asked(item=dataset.description.items[0]),
            price=price,
            wishes=office.catalogue.requests(dataset, caller),
            refusal=None if refused is None else refused.to_dict(),
            **shown,
        )
    shown["figure"] = draw_burn_down(office.books.burn_down(dataset.account))
    shown["grants"] = [grant.to_dict() for grant in office.catalogue.grants(dataset)]
    if caller.role == "owner":
        return render(request, "owner.html", wishes=office.catalogue.requests(dataset, caller), **shown)
    audit = office.books.audit().to_dict()
    return render(request, "review.html", audit=audit, public_key=office.signer.public_key, **shown)


def _listed(values: str) -> list[str]:
    return [value.strip() for value in values.split(",") if value.strip()]


def _lines(given: str, what: str) -> dict[str, str]:
    """Return lines of the form ``name = value`` by name."""
    found = {}
    for line in filter(None, map(str.strip, given.splitlines())):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not (name and equals and value):
            raise ParameterError(f"{what} are lines like name = value", repr(line)[:80], "Write one a line.")
        found[name] = value
    return found
