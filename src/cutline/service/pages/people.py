r"""Signing in and out, invitations, people and tokens."""

from __future__ import annotations

from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from cutline.errors import CutlineError
from cutline.service.api.parts import TheCaller, TheOffice
from cutline.service.office import Office
from cutline.service.openid import BACK, OpenId
from cutline.service.pages.parts import go, read_form, render, whole
from cutline.service.people import ROLES, SCOPES
from cutline.service.store import Forbidden, no_such
from cutline.service.web import allow, allow_everybody, status_of

router = APIRouter(include_in_schema=False)


@router.get("/sign-in")
@allow_everybody
def show_sign_in(request: Request, office: TheOffice) -> Response:
    """Show the form."""
    return _show_sign_in(request, office)


@router.post("/sign-in")
@allow_everybody
async def sign_in(request: Request, office: TheOffice) -> Response:
    """Check name and password, and open a session."""
    _refuse_if_off(office)
    form = await read_form(request)
    name = form.get("name", "").lower()
    try:
        gate = request.app.state.gate
        gate.sign_in_pace.count(name)
        session = await run_in_threadpool(office.people.sign_in, name, form.get("password", ""))
    except CutlineError as error:
        return _show_sign_in(request, office, error, name=name)
    return _with_session(request, session)


@router.get("/sign-in/openid")
@allow_everybody
async def begin_openid(request: Request, office: TheOffice) -> Response:
    """Send the browser to the provider, with a ticket by which it is known when it returns."""
    openid = _find_openid(office)
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return go("/sign-in")  # another site must not sign anybody in; a person decides that on our page
    try:
        ticket, place = await run_sync(openid.begin, limiter=openid.turns)
    except CutlineError as error:
        return _show_sign_in(request, office, error)
    gate = request.app.state.gate
    response = go(place)
    # Lax, since the provider sends the browser back by a link from its own site.
    response.set_cookie(
        gate.openid_cookie, ticket, max_age=600, httponly=True, secure=gate.secure, samesite="lax", path="/"
    )
    return response


@router.get(BACK)
@allow_everybody
async def finish_openid(request: Request, office: TheOffice) -> Response:
    """Open a session for whom the provider vouches, if they were invited."""
    openid, gate = _find_openid(office), request.app.state.gate
    try:
        ticket = request.cookies.get(gate.openid_cookie)
        name = await run_sync(openid.finish, ticket, dict(request.query_params), limiter=openid.turns)
        person = await run_in_threadpool(office.people.find, name)
        if person is None or person.disabled:
            raise Forbidden(
                "whoever signs in must have been invited, and not ended",
                repr(name)[:80],
                "Ask an administrator to invite this name.",
            )
        response = _with_session(request, await run_in_threadpool(office.people.open_session, person.name))
    except CutlineError as error:
        return _show_sign_in(request, office, error)
    _drop_cookie(request, response, gate.openid_cookie)
    return response


@router.post("/sign-out")
@allow(*ROLES)
def sign_out(request: Request, office: TheOffice, caller: TheCaller) -> Response:
    """End the session."""
    office.people.sign_out(caller)
    response = go("/sign-in")
    _drop_cookie(request, response, request.app.state.gate.cookie)
    return response


@router.get("/welcome/{link}")
@allow_everybody
def show_welcome(request: Request, office: TheOffice, link: str) -> Response:
    """Show whom a one-time link is for."""
    _refuse_if_off(office)
    person = office.people.of_link(link)
    return render(request, "welcome.html", status=200 if person else 404, person=person)


@router.post("/welcome/{link}")
@allow_everybody
async def accept(request: Request, office: TheOffice, link: str) -> Response:
    """Set a password by a one-time link, and open a session."""
    _refuse_if_off(office)
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
        place = office.invite(name, form.get("role", ""))
    except CutlineError as error:
        listed = office.people.listed()
        return render(request, "people.html", status=status_of(error), people=listed, refusal=error.to_dict())
    once = office.config.passwords
    return render(request, "people.html", people=office.people.listed(), link=place, invited=name, once=once)


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


def _show_sign_in(request: Request, office: Office, error: CutlineError | None = None, *, name: str = "") -> Response:
    shown: dict[str, Any] = {"name": name, "passwords": office.config.passwords, "openid": None}
    if office.openid is not None:
        shown["openid"] = office.openid.label
    if error is None:
        return render(request, "sign_in.html", **shown)
    return render(request, "sign_in.html", status=status_of(error), refusal=error.to_dict(), **shown)


def _find_openid(office: Office) -> OpenId:
    if office.openid is None:
        raise no_such("way to sign in", "openid")
    return office.openid


def _refuse_if_off(office: Office) -> None:
    if not office.config.passwords:
        raise Forbidden("passwords are off here", "", "Sign in through the provider.")


def _drop_cookie(request: Request, response: Response, name: str) -> None:
    # A browser forgets a cookie with the prefix __Host- only if it is told so as it was told the cookie.
    secure = request.app.state.gate.secure
    response.delete_cookie(name, path="/", httponly=True, secure=secure, samesite="lax")


def _with_session(request: Request, session: str) -> Response:
    gate = request.app.state.gate
    response = go("/")
    response.set_cookie(gate.cookie, session, httponly=True, secure=gate.secure, samesite="lax", path="/")
    return response
