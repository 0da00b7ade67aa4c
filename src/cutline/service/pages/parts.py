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


def render(request: Request, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    """Return a page; every value in it is escaped by the template."""
    shared = {"caller": getattr(request.state, "caller", None), "version": __version__, "refusal": None}
    return _TEMPLATES.TemplateResponse(request, template, {**shared, **context}, status_code=status)


def refuse(request: Request, error: CutlineError) -> Response:
    """Return the page of a refusal; whoever is not signed in is sent to do so."""
    if isinstance(error, Unknown) and getattr(request.state, "caller", None) is None and request.url.path != "/sign-in":
        return go("/sign-in")
    return render(request, "refused.html", status=status_of(error), refusal=error.to_dict())


def go(place: str) -> RedirectResponse:
    """Send the browser elsewhere after a form was taken, so that loading the page again does nothing twice."""
    return RedirectResponse(place, status_code=303)


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
