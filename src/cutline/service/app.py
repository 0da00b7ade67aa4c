r"""The application: routes, gate and envelope around one office."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry, Counter
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from cutline.errors import CutlineError, ParameterError
from cutline.service import api, pages
from cutline.service.api.once import Once
from cutline.service.api.parts import Queue
from cutline.service.office import Office
from cutline.service.pages.parts import FOLDER
from cutline.service.pages.parts import refuse as refuse_page
from cutline.service.store import NotFound
from cutline.service.web import Envelope, Gate, problem, rule_of
from cutline.version import __version__

ROUTERS = (*api.ROUTERS, *pages.ROUTERS)


def list_routes() -> list[APIRoute]:
    """Return every route of the service, by which its rules are checked before it starts."""
    return [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]


def create_app(office: Office) -> FastAPI:
    """Return the application; a route without a rule raises."""
    gate = Gate(office.people, origin=office.config.public_origin, secure=office.config.secure)
    registry = CollectorRegistry()  # without the default collectors: memory and CPU time tell about data
    counted = Counter(
        "cutline_requests_total",
        "Requests by route, method and status.",
        ("route", "method", "status"),
        registry=registry,
    )

    @asynccontextmanager
    async def alive(_: FastAPI) -> AsyncIterator[None]:
        office.jobs.resume()
        yield
        office.close()

    async def check(request: Request) -> None:
        await gate.check(request)

    app = FastAPI(
        title="Cutline",
        version=__version__,
        description="Which items are at the top of a sensitive log? Answered under differential privacy, within a budget.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # the address it would send browsers to is the one a caller names as the host
        lifespan=alive,
        dependencies=[Depends(check)],
        separate_input_output_schemas=False,
    )
    app.state.office, app.state.gate, app.state.registry = office, gate, registry
    app.state.once, app.state.queue = Once(office), Queue()
    app.mount("/static", StaticFiles(directory=FOLDER / "static"))
    for route in list_routes():
        rule_of(route.endpoint)
    for router in ROUTERS:
        app.include_router(router)

    @app.exception_handler(CutlineError)
    async def refuse(request: Request, error: CutlineError) -> Response:
        return problem(error) if _is_api(request) else refuse_page(request, error)

    @app.exception_handler(RequestValidationError)
    async def refuse_body(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:]) or "the body"
        told = ParameterError(f"{place}: {first['msg'].lower()}", "another", "See the description of the API.")
        return await refuse(request, told)

    @app.exception_handler(HTTPException)
    async def refuse_route(request: Request, error: HTTPException) -> Response:
        told = NotFound if error.status_code == 404 else CutlineError
        said = told(str(error.detail).rstrip("."), "", "Check the address.")
        response = problem(said, error.status_code) if _is_api(request) else refuse_page(request, said)
        response.status_code = error.status_code
        response.headers.update(error.headers or {})
        return response

    def count(route: str, method: str, status: int) -> None:
        counted.labels(route, method, str(status)).inc()

    app.add_middleware(Envelope, secure=office.config.secure, count=count, refuse=_refuse_in_kind)
    return app


def _refuse_in_kind(request: Request, error: CutlineError, status: int) -> Response:
    """Return a refusal as whoever asked reads it: a page for a browser, problem+json for a program."""
    if _is_api(request):
        return problem(error, status)
    try:
        page = refuse_page(request, error)
    except Exception:  # what failed may be the pages themselves
        return problem(error, status)
    page.status_code = status
    return page


def _is_api(request: Request) -> bool:
    return request.url.path.startswith("/api/")
