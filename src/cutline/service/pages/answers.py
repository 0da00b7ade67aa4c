r"""An answer drawn, its files, its certificate and its statement for reviewers; jobs and practice."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import shlex
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, Response

from cutline.errors import CutlineError
from cutline.grouped import GroupedRelease
from cutline.ledger import Entry
from cutline.release import Release
from cutline.service.api.parts import TheCaller, TheDataset, TheOffice
from cutline.service.catalogue import Dataset
from cutline.service.drawing import draw_release
from cutline.service.office import questions_left
from cutline.service.pages.parts import go, read_form, render, whole
from cutline.service.practice import SHAPES, practise
from cutline.service.store import no_such
from cutline.service.web import allow, status_of

router = APIRouter(include_in_schema=False)
Number = Annotated[int, Path(ge=1, lt=2**62)]
_SHEET = re.compile(r"<style>(.*?)</style>", re.DOTALL)


@router.get("/datasets/{name}/answers/{number}")
@allow("owner", "analyst", "reviewer")
def show_answer(request: Request, office: TheOffice, dataset: TheDataset, number: str) -> Response:
    """Draw an answer, or return it as a file: ``/answers/7``, ``/answers/7.csv``."""
    digits, _, form = number.partition(".")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 18):
        raise no_such("answer", number)
    entry, answer = office.answer_of(dataset, int(digits))
    if form:
        return _file(dataset, entry, answer, form)
    figures: list[tuple[Any, str]] = [(None, draw_release(answer))] if isinstance(answer, Release) else []
    if isinstance(answer, GroupedRelease):
        figures = [(group, draw_release(each)) for group, each in answer.releases.items()]
    question = dict(entry.question or {})
    left = questions_left(office.books.show(entry.dataset))
    return render(
        request,
        "answer.html",
        name=dataset.name,
        title=dataset.description.title,
        what=question.get("item"),
        by=question.get("by"),
        entry=entry,
        answer=answer,
        why=getattr(answer, "why", ""),
        steps=[step.to_dict() for step in answer.next_steps],
        figures=figures,
        repeated="free" in request.query_params,
        charged=f"{'the full price' if entry.charged == entry.reserved else 'less than the price: what ran'}",
        left=f"{left['left']} of {left['of']} usual questions",
        as_python=_as_python(office.config.public_origin, dataset, question),
        as_curl=_as_curl(office.config.public_origin, dataset, question),
    )


@router.get("/datasets/{name}/answers/{number}/certificate")
@allow("owner", "analyst", "reviewer")
def download_certificate(office: TheOffice, dataset: TheDataset, number: Number) -> Response:
    """Return a signed certificate as a file."""
    name = f'attachment; filename="{dataset.name}-{number}-certificate.json"'
    return JSONResponse(office.certify(dataset, number), headers={"content-disposition": name})


@router.get("/datasets/{name}/answers/{number}/statement")
@allow("owner", "analyst", "reviewer")
def show_statement(office: TheOffice, dataset: TheDataset, number: Number) -> Response:
    """Return the printable page that `cutline explain` writes; its one style sheet is named to the browser by its digest."""
    _, answer = office.answer_of(dataset, number)
    page = answer.explain().to_html()
    sheets = [base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode() for sheet in _SHEET.findall(page)]
    styles = " ".join(f"'sha256-{sheet}'" for sheet in sheets) or "'none'"
    return HTMLResponse(page, headers={"content-security-policy": f"default-src 'none'; style-src {styles}"})


@router.get("/datasets/{name}/jobs/{number}")
@allow("analyst")
def show_job(request: Request, office: TheOffice, caller: TheCaller, dataset: TheDataset, number: str) -> Response:
    """Show a question that is answered later, or send the browser to its answer."""
    job = office.jobs.show(caller, number)
    if job["state"] == "done":
        return go(f"/datasets/{dataset.name}/answers/{job['entry']}")
    return render(request, "job.html", job=job)


@router.get("/datasets/{name}/practice")
@allow("analyst")
def show_practice(request: Request, dataset: TheDataset) -> Response:
    """Show the form of made-up data."""
    return render(request, "practice.html", **_practice(dataset))


@router.post("/datasets/{name}/practice")
@allow("analyst")
async def run_practice(request: Request, office: TheOffice, dataset: TheDataset) -> Response:
    """Release the top of made-up data; nothing is read and nothing charged."""
    form = await read_form(request)
    shown = _practice(dataset) | {"shape": form.get("shape"), "counts": "counts" in form, "k": form.get("k")}
    budget = office.books.show(dataset.account).budget
    try:
        answer = await run_in_threadpool(
            practise,
            dataset.description,
            shape=form.get("shape", ""),
            k=whole(form, "k"),
            counts="counts" in form,
            epsilon=budget.epsilon,
            delta=budget.delta,
            releases=budget.releases,
        )
    except CutlineError as error:
        return render(request, "practice.html", status=status_of(error), refusal=error.to_dict(), **shown)
    return render(request, "practice.html", **shown | {"answer": answer, "figure": draw_release(answer)})


def _practice(dataset: Dataset) -> dict[str, Any]:
    described = {"name": dataset.name, "title": dataset.description.title}
    return {"dataset": described, "shapes": SHAPES, "shape": SHAPES[0], "k": "", "counts": False, "answer": None}


def _file(dataset: Dataset, entry: Entry, answer: Release | GroupedRelease, form: str) -> Response:
    """Return an answer as CSV, Arrow or JSON."""
    name = {"content-disposition": f'attachment; filename="{dataset.name}-{entry.id}.{form}"'}
    if form == "json":
        return JSONResponse(answer.to_dict(), headers=name)
    table = answer.to_arrow()
    if form == "csv":
        written = io.StringIO()
        writer = csv.writer(written)
        writer.writerow(table.column_names)
        writer.writerows([[_safe_cell(value) for value in row.values()] for row in table.to_pylist()])
        return Response(written.getvalue(), media_type="text/csv; charset=utf-8", headers=name)
    if form == "arrow":
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as file:
            file.write_table(table)
        return Response(bytes(sink.getvalue()), media_type="application/vnd.apache.arrow.file", headers=name)
    raise no_such("file", form)


def _safe_cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _body(question: dict[str, Any]) -> dict[str, Any]:
    return {name: question[name] for name in ("item", "k", "by") if question.get(name) is not None}


def _as_python(origin: str, dataset: Dataset, question: dict[str, Any]) -> str:
    words = ", ".join(f"{name}={value!r}" for name, value in _body(question).items())
    return (
        f"from cutline.client import Client\n\nservice = Client({origin!r}, token=...)\n"
        f"release = service.top({dataset.name!r}, {words})"
    )


def _as_curl(origin: str, dataset: Dataset, question: dict[str, Any]) -> str:
    body = shlex.quote(json.dumps(_body(question), ensure_ascii=False))
    return (
        f"curl {origin}/api/v1/datasets/{dataset.name}/releases \\\n  -H 'Authorization: Bearer '\"$TOKEN\" \\\n"
        f"  -H 'Content-Type: application/json' \\\n  -d {body}"
    )
