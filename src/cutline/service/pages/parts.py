r"""What the pages share: templates, forms, and how a refusal becomes a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.templating import Jinja2Templates

from cutline.errors import CutlineError, ParameterError
from cutline.service.store import Unknown
from cutline.service.web import status_of
from cutline.version import __version__

FOLDER = Path(__file__).parents[1]
_TEMPLATES = Jinja2Templates(directory=FOLDER / "templates")
# What a page says after a form was taken. The address names the sentence, so nobody else can put words on a page.
_DONE = {
    "access": "Access is given.",
    "ended": "Access is taken away. What was asked stays on the books.",
    "version": "Questions are about the new version of the data from now on.",
    "period": "The period is open, and pays from now on.",
    "closed": "Closed. Every further question is refused.",
    "approved": "The request is approved.",
    "declined": "The request is declined.",
    "asked": "The owner sees your request, and decides.",
    "registered": "The log is registered, and its budget is fixed. Give somebody access next.",
}


def render(request: Request, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    """Return a page; every value in it is escaped by the template."""
    shared = {
        "caller": getattr(request.state, "caller", None),
        "version": __version__,
        "refusal": None,
        "done": _DONE.get(request.query_params.get("done", "")),
        "path": request.url.path,
    }
    return _TEMPLATES.TemplateResponse(request, template, {**shared, **context}, status_code=status)


def refuse(request: Request, error: CutlineError) -> Response:
    """Return the page of a refusal; whoever is not signed in is sent to do so."""
    if isinstance(error, Unknown) and getattr(request.state, "caller", None) is None and request.url.path != "/sign-in":
        return go("/sign-in")
    return render(request, "refused.html", status=status_of(error), refusal=error.to_dict())


def go(place: str, *, done: str | None = None) -> RedirectResponse:
    """Send the browser elsewhere after a form was taken, so that loading the page again does nothing twice."""
    return RedirectResponse(place if done is None else f"{place}?done={done}", status_code=303)


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form as text, without spaces around; files are refused."""
    kind = request.headers.get("content-type", "").partition(";")[0]
    if kind != "application/x-www-form-urlencoded":
        raise ParameterError("a form is sent as a form", repr(kind)[:60], "Use the page.")
    async with request.form(max_fields=60) as form:
        fields = {name: value.strip() for name, value in form.items() if isinstance(value, str)}
        fields["scopes"] = " ".join(value for value in form.getlist("scopes") if isinstance(value, str))
    return fields


def text(form: Mapping[str, str], name: str) -> str | None:
    """Return a field, or None if it is empty."""
    return form.get(name) or None


def whole(form: Mapping[str, str], name: str) -> int | None:
    """Return a field as a whole number, or None if it is empty."""
    value = text(form, name)
    if value is None:
        return None
    if not value.isascii() or not value.isdigit() or len(value) > 12:
        raise ParameterError(f"{name} must be a whole number", f"{name}={value[:40]!r}", "Write digits alone.")
    return int(value)


def number(form: Mapping[str, str], name: str) -> float:
    """Return a field as a number."""
    value = form.get(name, "")
    try:
        return float(value)
    except ValueError:
        raise ParameterError(f"{name} must be a number", f"{name}={value[:40]!r}", "Write one like 1.5.") from None
