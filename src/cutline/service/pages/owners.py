r"""What owners do: give access, decide requests, declare versions, open periods, close; the page on which they see it all."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from cutline.errors import CutlineError, ParameterError
from cutline.ledger import Account
from cutline.privacy import Budget
from cutline.privacy.budget import parse_share
from cutline.service.api.parts import TheCaller, TheDataset, TheOffice
from cutline.service.catalogue import Dataset
from cutline.service.drawing import draw_burn_down
from cutline.service.office import Office, add_up, questions_left
from cutline.service.pages.history import show_history
from cutline.service.pages.parts import go, number, read_form, render, text, whole
from cutline.service.people import Caller
from cutline.service.planner import percent_right, plan_budget
from cutline.service.web import allow, status_of

router = APIRouter(include_in_schema=False)


@router.post("/datasets/{name}/requests/{request_id}")
@allow("owner")
async def decide(
    request: Request, office: TheOffice, caller: TheCaller, dataset: TheDataset, request_id: str
) -> Response:
    """Approve or decline a wish."""
    form = await read_form(request)
    approve = form.get("approve") == "yes"
    try:
        office.catalogue.decide(dataset, request_id, approve=approve)
    except CutlineError as error:
        return await run_in_threadpool(show_owned, request, office, caller, dataset, refused=error)
    return go(f"/datasets/{dataset.name}", done="approved" if approve else "declined")


@router.post("/datasets/{name}/grants")
@allow("owner")
async def give_access(request: Request, office: TheOffice, caller: TheCaller, dataset: TheDataset) -> Response:
    """Let somebody ask or review; whoever is new is invited, and their link is shown once."""
    form = await read_form(request)
    person, link = form.get("person", "").lower(), None
    try:
        expires = _read_date(text(form, "expires"))
        role, share = form.get("role", ""), text(form, "share")
        parse_share(share or 1)  # refused before anybody is invited, whose link would be lost
        if role in ("analyst", "reviewer") and person and office.people.find(person) is None:
            link = office.invite(person, role)
        office.catalogue.grant(dataset, person, role=role, share=share, expires=expires)
    except CutlineError as error:
        return await run_in_threadpool(show_owned, request, office, caller, dataset, refused=error, given=form)
    if link is None:
        return go(f"/datasets/{dataset.name}", done="access")
    return await run_in_threadpool(show_owned, request, office, caller, dataset, invited=person, link=link)


@router.post("/datasets/{name}/grants/{person}/end")
@allow("owner")
def take_access(office: TheOffice, dataset: TheDataset, person: str) -> Response:
    """Take access away."""
    office.catalogue.revoke(dataset, person)
    return go(f"/datasets/{dataset.name}", done="ended")


@router.post("/datasets/{name}/versions")
@allow("owner")
async def declare_version(request: Request, office: TheOffice, caller: TheCaller, dataset: TheDataset) -> Response:
    """Say that the data are new."""
    form = await read_form(request)
    try:
        office.catalogue.declare_version(dataset, form.get("version", ""))
    except CutlineError as error:
        return await run_in_threadpool(show_owned, request, office, caller, dataset, refused=error, given=form)
    return go(f"/datasets/{dataset.name}", done="version")


@router.post("/datasets/{name}/periods")
@allow("owner")
async def open_period(request: Request, office: TheOffice, caller: TheCaller, dataset: TheDataset) -> Response:
    """Plan the budget of another period, or open it."""
    form = await read_form(request)
    try:
        plan = await run_in_threadpool(read_plan, form)
        if plan is not None:
            return await run_in_threadpool(show_owned, request, office, caller, dataset, given=form, plan=plan)
        await run_in_threadpool(office.catalogue.open_period, dataset, form.get("period", ""), read_budget(form))
    except CutlineError as error:
        return await run_in_threadpool(show_owned, request, office, caller, dataset, refused=error, given=form)
    return go(f"/datasets/{dataset.name}", done="period")


@router.post("/datasets/{name}/close")
@allow("owner")
async def close(request: Request, office: TheOffice, dataset: TheDataset) -> Response:
    """Refuse every further question, for ever, if the box is ticked."""
    form = await read_form(request)
    if form.get("sure") != "yes":
        return go(f"/datasets/{dataset.name}")
    office.catalogue.close(dataset)
    return go(f"/datasets/{dataset.name}", done="closed")


def show_owned(
    request: Request,
    office: Office,
    caller: Caller,
    dataset: Dataset,
    *,
    refused: CutlineError | None = None,
    given: Mapping[str, str] | None = None,
    plan: Mapping[str, Any] | None = None,
    invited: str | None = None,
    link: str | None = None,
) -> Response:
    """Show an owner everything about a dataset, with what was filled in if a form was refused."""
    account = office.books.show(dataset.account)
    return render(
        request,
        "owner.html",
        status=200 if refused is None else status_of(refused),
        dataset=office.describe(caller, dataset),
        figure=draw_burn_down(office.books.burn_down(dataset.account), questions=account.budget.releases),
        wishes=office.catalogue.requests(dataset, caller),
        grants=[
            grant.to_dict() | _describe_spending(account, grant.person) for grant in office.catalogue.grants(dataset)
        ],
        versions=office.catalogue.versions(dataset),
        given=given or {},
        plan=plan,
        invited=invited,
        link=link,
        refusal=None if refused is None else refused.to_dict(),
        **describe_periods(office, dataset),
        **show_history(request, office, caller, dataset),
    )


def describe_periods(office: Office, dataset: Dataset) -> dict[str, Any]:
    """Return the account of each period, oldest first, and what all of them may tell together about whoever is in all."""
    accounts = office.catalogue.accounts(dataset)
    whole = office.catalogue.budgets_of_log(dataset)
    others = [budget for account, budget in whole.items() if account not in dataset.accounts]
    periods = [
        {
            "name": account.dataset.partition(":")[2],
            "epsilon": account.budget.epsilon,
            "delta": account.budget.delta,
            "right_at_most": percent_right(account.budget.epsilon, account.budget.delta),
            "left": questions_left(account),
            "state": account.state,
        }
        for account in accounts
    ]
    elsewhere = _describe_sum(others) if others else None
    return {"periods": periods, "elsewhere": elsewhere, "all_together": _describe_sum(whole.values())}


def _describe_sum(budgets: Iterable[Budget]) -> dict[str, float]:
    total = add_up(budgets)
    return {**total, "right_at_most": percent_right(**total)}


def read_plan(form: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the budget that the planner proposes, if it was asked, or if no epsilon was given; None if there is one."""
    if form.get("do") != "plan" and text(form, "epsilon") is not None:
        return None
    wished = {"questions": whole(form, "questions") or 0, "gap": whole(form, "gap") or 0}
    return plan_budget(**wished, delta=number(form, "delta"))


def read_budget(form: Mapping[str, str]) -> Budget:
    """Return the budget of a form."""
    return Budget(epsilon=number(form, "epsilon"), delta=number(form, "delta"), releases=whole(form, "questions") or 0)


def _describe_spending(account: Account, person: str) -> dict[str, Any]:
    """Return how many usual questions' worth an analyst has spent in this period."""
    spent = next((one.spent for one in account.analysts if one.name == person), None)
    return {"spent": None if spent is None else float(max(spent.shares(account.limits))) * account.budget.releases}


def _read_date(given: str | None) -> dt.date | None:
    try:
        return None if given is None else dt.date.fromisoformat(given)
    except ValueError:
        raise ParameterError("a date is written like 2026-12-31", repr(given)[:40], "Write it so.") from None
