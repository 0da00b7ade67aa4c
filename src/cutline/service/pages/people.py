r"""Signing in and out, invitations, people and tokens."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from cutline.errors import CutlineError
from cutline.service.api.parts import TheCaller, TheOffice
from cutline.service.pages.parts import go, read_form, render, whole
from cutline.service.people import ROLES, SCOPES
from cutline.service.web import allow, allow_everybody, status_of

router = APIRouter(include_in_schema=False)


@router.get("/sign-in")
@allow_everybody
def show_sign_in(request: Request) -> Response:
    """Show the form."""
    return render(request, "sign_in.html", name="")


@router.post("/sign-in")
@allow_everybody
async def sign_in(request: Request, office: TheOffice) -> Response:
    """Check name and password, and open a session."""
    form = await read_form(request)
    name = form.get("name", "").lower()
    try:
        gate = request.app.state.gate
        gate.sign_in_pace.count(name)
        session = await run_in_threadpool(office.people.sign_in, name, form.get("password", ""))
    except CutlineError as error:
        return render(request, "sign_in.html", status=status_of(error), name=name, refusal=error.to_dict())
    return _with_session(request, session)


@router.post("/sign-out")
@allow(*ROLES)
def sign_out(request: Request, office: TheOffice, caller: TheCaller) -> Response:
    """End the session."""
    office.people.sign_out(caller)
    response = go("/sign-in")
    response.delete_cookie(request.app.state.gate.cookie, path="/")
    return response


@router.get("/welcome/{link}")
@allow_everybody
def show_welcome(request: Request, office: TheOffice, link: str) -> Response:
    """Show whom a one-time link is for."""
    person = office.people.of_link(link)
    return render(request, "welcome.html", status=200 if person else 404, person=person)


@router.post("/welcome/{link}")
@allow_everybody
async def accept(request: Request, office: TheOffice, link: str) -> Response:
    """Set a password by a one-time link, and open a session."""
    form = await read_form(request)
    try:
        person = await run_in_threadpool(office.people.accept, link, form.get("password", ""))
    except CutlineError as error:
        found = office.people.of_link(link)
        return render(request, "welcome.html", status=status_of(error), person=found, refusal=error.to_dict())
    return _with_session(request, office.people.open_session(person.name))


@router.get("/people")
@allow("admin")
def show_people(request: Request, office: TheOffice) -> Response:
    """List everybody."""
    return render(request, "people.html", people=office.people.listed())


@router.post("/people")
@allow("admin")
async def invite(request: Request, office: TheOffice) -> Response:
    """Invite somebody, and show the link once."""
    form = await read_form(request)
    name = form.get("name", "").lower()
    try:
        link = office.people.invite(name, form.get("role", ""))
    except CutlineError as error:
        listed = office.people.listed()
        return render(request, "people.html", status=status_of(error), people=listed, refusal=error.to_dict())
    place = f"{office.config.public_origin}/welcome/{link}"
    return render(request, "people.html", people=office.people.listed(), link=place, invited=name)


@router.post("/people/{name}/end")
@allow("admin")
def disable(office: TheOffice, name: str) -> Response:
    """Let somebody sign in no more."""
    office.people.disable(name)
    return go("/people")


@router.get("/tokens")
@allow(*ROLES)
def show_tokens(request: Request, office: TheOffice, caller: TheCaller) -> Response:
    """List the caller's tokens."""
    return render(request, "tokens.html", tokens=office.people.tokens(caller), scopes=SCOPES)


@router.post("/tokens")
@allow(*ROLES)
async def mint(request: Request, office: TheOffice, caller: TheCaller) -> Response:
    """Mint a token, and show its secret once."""
    form = await read_form(request)
    secret, refusal, status = None, None, 200
    try:
        _, secret = office.people.mint(
            caller, label=form.get("label", ""), scopes=form["scopes"].split(), days=whole(form, "days") or 0
        )
    except CutlineError as error:
        refusal, status = error.to_dict(), status_of(error)
    listed = office.people.tokens(caller)
    return render(request, "tokens.html", status=status, tokens=listed, scopes=SCOPES, secret=secret, refusal=refusal)


@router.post("/tokens/{number}/end")
@allow(*ROLES)
def end_token(office: TheOffice, caller: TheCaller, number: str) -> Response:
    """End a token."""
    office.people.revoke(caller, number)
    return go("/tokens")


def _with_session(request: Request, session: str) -> Response:
    gate = request.app.state.gate
    response = go("/")
    response.set_cookie(gate.cookie, session, httponly=True, secure=gate.secure, samesite="lax", path="/")
    return response
