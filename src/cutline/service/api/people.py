r"""``/me``, ``/people``, ``/tokens``, ``/healthz``."""

from __future__ import annotations

from fastapi import APIRouter, Request
from prometheus_client import generate_latest
from starlette.responses import PlainTextResponse, Response

from cutline.service.api.bodies import REFUSALS, PersonIn, TokenIn
from cutline.service.api.once import OnceRoute
from cutline.service.api.parts import Plain, TheCaller, TheOffice
from cutline.service.people import ROLES
from cutline.service.web import allow, allow_everybody
from cutline.version import __version__

router = APIRouter(prefix="/api/v1", responses=REFUSALS, tags=["people"], route_class=OnceRoute)


@router.get("/me")
@allow(*ROLES, scope="read")
def show_me(caller: TheCaller) -> Plain:
    """Return who calls, and by what."""
    scopes = None if caller.scopes is None else sorted(caller.scopes)
    return {**caller.person.to_dict(), "by": "session" if caller.by_session else "token", "scopes": scopes}


@router.get("/healthz")
@allow_everybody
def show_health(office: TheOffice) -> Plain:
    """Return that the service answers, its version, and the public key of its certificates."""
    return {"status": "ok", "version": __version__, "public_key": office.signer.public_key}


@router.get("/metrics", response_class=PlainTextResponse)
@allow("admin", scope="read")
def show_metrics(request: Request) -> Response:
    """Return public facts for Prometheus: how many requests ended how."""
    return PlainTextResponse(generate_latest(request.app.state.registry))


@router.get("/people")
@allow("admin", scope="read")
def list_people(office: TheOffice) -> Plain:
    """Return everybody, by name."""
    return {"people": [person.to_dict() for person in office.people.listed()]}


@router.post("/people", status_code=201)
@allow("admin", shows_secret=True)
def invite(office: TheOffice, body: PersonIn) -> Plain:
    """Invite somebody; the link works once and is shown here alone. Without passwords it is the page to sign in."""
    return {"name": body.name, "role": body.role, "link": office.invite(body.name, body.role)}


@router.delete("/people/{name}", status_code=204)
@allow("admin")
def disable(office: TheOffice, name: str) -> Response:
    """Let somebody sign in no more."""
    office.people.disable(name)
    return Response(status_code=204)


@router.get("/tokens")
@allow(*ROLES, scope="read")
def list_tokens(office: TheOffice, caller: TheCaller) -> Plain:
    """Return the caller's tokens, without their secrets."""
    return {"tokens": office.people.tokens(caller)}


@router.post("/tokens", status_code=201)
@allow(*ROLES, shows_secret=True)
def mint(office: TheOffice, caller: TheCaller, body: TokenIn) -> Plain:
    """Mint a token; its secret is shown here alone."""
    number, secret = office.people.mint(caller, label=body.label, scopes=body.scopes, days=body.days)
    return {"id": number, "token": secret}


@router.delete("/tokens/{number}", status_code=204)
@allow(*ROLES)
def revoke(office: TheOffice, caller: TheCaller, number: str) -> Response:
    """End a token."""
    office.people.revoke(caller, number)
    return Response(status_code=204)
