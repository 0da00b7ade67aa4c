r"""``/datasets`` and what their owners do with them: versions, periods, grants, requests, plans."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from cutline.service.api.bodies import (
    REFUSALS,
    Cursor,
    DatasetIn,
    DecisionIn,
    GrantIn,
    Limit,
    PeriodIn,
    PlanIn,
    RequestIn,
    VersionIn,
)
from cutline.service.api.once import OnceRoute
from cutline.service.api.parts import Plain, TheCaller, TheDataset, TheOffice
from cutline.service.planner import plan_budget
from cutline.service.web import allow

router = APIRouter(prefix="/api/v1", responses=REFUSALS, tags=["datasets"], route_class=OnceRoute)


@router.get("/datasets")
@allow("owner", "analyst", "reviewer", scope="read")
def list_datasets(office: TheOffice, caller: TheCaller, after: Cursor = None, limit: Limit = 50) -> Plain:
    """Return the datasets that the caller may see, by name."""
    found = office.catalogue.listed(caller, after=after or "", limit=limit)
    shown = [office.describe(caller, dataset) for dataset in found]
    return {"datasets": shown, "next": found[-1].name if len(found) == limit else None}


@router.post("/datasets", status_code=201)
@allow("owner", scope="manage")
def register(office: TheOffice, caller: TheCaller, body: DatasetIn) -> Plain:
    """Register a log and open its first account; columns, filters and groups are tried, and no row is read."""
    dataset = office.register(
        caller,
        body.name,
        body.description(),
        version=body.version,
        period=body.period,
        budget=body.budget.budget(),
    )
    return office.describe(caller, dataset)


@router.post("/plans")
@allow("owner", scope="read")
def plan(body: PlanIn) -> Plain:
    """Work backwards: return the smallest epsilon for so many questions that see so small a gap."""
    return plan_budget(questions=body.questions, gap=body.gap, delta=body.delta)


@router.get("/datasets/{name}")
@allow("owner", "analyst", "reviewer", scope="read")
def show_dataset(office: TheOffice, caller: TheCaller, dataset: TheDataset) -> Plain:
    """Return one dataset: what may be asked of it, and what is left."""
    return office.describe(caller, dataset)


@router.post("/datasets/{name}/close")
@allow("owner", scope="manage")
def close(office: TheOffice, caller: TheCaller, dataset: TheDataset) -> Plain:
    """Refuse every further question, for ever."""
    office.catalogue.close(dataset)
    return office.describe(caller, dataset)


@router.get("/datasets/{name}/versions")
@allow("owner", "analyst", "reviewer", scope="read")
def list_versions(office: TheOffice, dataset: TheDataset) -> Plain:
    """Return all versions of the data, newest first."""
    return {"versions": office.catalogue.versions(dataset)}


@router.post("/datasets/{name}/versions", status_code=201)
@allow("owner", scope="manage")
def declare_version(office: TheOffice, dataset: TheDataset, body: VersionIn) -> Plain:
    """Say that the data are new."""
    office.catalogue.declare_version(dataset, body.version)
    return {"version": body.version}


@router.post("/datasets/{name}/periods", status_code=201)
@allow("owner", scope="manage")
def open_period(office: TheOffice, caller: TheCaller, dataset: TheDataset, body: PeriodIn) -> Plain:
    """Open another account; what was spent before stays spent, and the sums add up."""
    office.catalogue.open_period(dataset, body.period, body.budget.budget())
    return office.describe(caller, office.catalogue.find(caller, dataset.name))


@router.get("/datasets/{name}/grants")
@allow("owner", "reviewer", scope="read")
def list_grants(office: TheOffice, dataset: TheDataset) -> Plain:
    """Return who may ask or review."""
    return {"grants": [grant.to_dict() for grant in office.catalogue.grants(dataset)]}


@router.post("/datasets/{name}/grants", status_code=201)
@allow("owner", scope="manage")
def give_access(office: TheOffice, dataset: TheDataset, body: GrantIn) -> Plain:
    """Let somebody ask or review."""
    given = office.catalogue.grant(dataset, body.person, role=body.role, share=body.share, expires=body.expires)
    return given.to_dict()


@router.delete("/datasets/{name}/grants/{person}", status_code=204)
@allow("owner", scope="manage")
def take_access(office: TheOffice, dataset: TheDataset, person: str) -> Response:
    """Take access away."""
    office.catalogue.revoke(dataset, person)
    return Response(status_code=204)


@router.get("/datasets/{name}/requests")
@allow("owner", "analyst", "reviewer", scope="read")
def list_requests(office: TheOffice, caller: TheCaller, dataset: TheDataset) -> Plain:
    """Return wishes for more, newest first."""
    return {"requests": office.catalogue.requests(dataset, caller)}


@router.post("/datasets/{name}/requests", status_code=201)
@allow("analyst", scope="ask")
def wish(office: TheOffice, caller: TheCaller, dataset: TheDataset, body: RequestIn) -> Plain:
    """Ask the owner for more."""
    return {"id": office.catalogue.ask_for_more(dataset, caller, wish=body.wish, share=body.share)}


@router.post("/datasets/{name}/requests/{number}")
@allow("owner", scope="manage")
def decide(office: TheOffice, dataset: TheDataset, number: str, body: DecisionIn) -> Plain:
    """Approve or decline a wish."""
    office.catalogue.decide(dataset, number, approve=body.approve)
    return {"id": number, "state": "approved" if body.approve else "declined"}
