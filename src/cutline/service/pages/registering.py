r"""Registering a log: which columns, filters and groups may be asked about, and its budget, planned backwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from cutline.errors import CutlineError, ParameterError
from cutline.service.api.parts import TheCaller, TheOffice
from cutline.service.catalogue import Description, Groups
from cutline.service.office import Office
from cutline.service.pages.owners import read_budget, read_plan
from cutline.service.pages.parts import go, read_form, render, whole
from cutline.service.web import allow, status_of

router = APIRouter(include_in_schema=False)


@router.get("/register")
@allow("owner")
def show_register(request: Request, office: TheOffice) -> Response:
    """Show the form that registers a log; the address may name which one."""
    return _show(request, office, {"source": request.query_params.get("source", "")})


@router.post("/register")
@allow("owner")
async def register(request: Request, office: TheOffice, caller: TheCaller) -> Response:
    """Plan the budget, or register the log."""
    form = await read_form(request)
    try:
        plan = await run_in_threadpool(read_plan, form)
        if plan is not None:
            return await run_in_threadpool(_show, request, office, form, plan=plan)
        dataset = await run_in_threadpool(
            office.register,
            caller,
            form.get("name", ""),
            read_description(form),
            version=form.get("version", ""),
            period=form.get("period", ""),
            budget=read_budget(form),
        )
    except CutlineError as error:
        return await run_in_threadpool(_show, request, office, form, refused=error)
    return go(f"/datasets/{dataset.name}", done="registered")


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
        practice_names=tuple(_listed(form.get("practice_names", ""))),
    )


def _show(
    request: Request,
    office: Office,
    given: Mapping[str, str],
    *,
    plan: Mapping[str, Any] | None = None,
    refused: CutlineError | None = None,
) -> Response:
    sources = sorted(office.config.sources)
    source = given.get("source") or (sources[0] if len(sources) == 1 else "")
    return render(
        request,
        "register.html",
        status=200 if refused is None else status_of(refused),
        given=given,
        sources=sources,
        source=source,
        columns=office.columns(source),
        plan=plan,
        refusal=None if refused is None else refused.to_dict(),
    )


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
