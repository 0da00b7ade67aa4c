r"""An answer drawn, its files, its certificate and its statement for reviewers; jobs and practice."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, Response

from cutline.errors import CutlineError
from cutline.explain import explain
from cutline.grouped import GroupedRelease
from cutline.ledger import Entry
from cutline.release import Release
from cutline.service.api.parts import TheCaller, TheDataset, TheOffice
from cutline.service.catalogue import Dataset
from cutline.service.drawing import lay_out
from cutline.service.office import hide_asker, questions_left
from cutline.service.pages.parts import go, read_form, render, whole
from cutline.service.practice import SHAPES, practise
from cutline.service.store import no_such
from cutline.service.web import allow, status_of
from cutline.service.wording import advise_next, as_curl, as_python, read_asked, say_question

router = APIRouter(include_in_schema=False)
Number = Annotated[int, Path(ge=1, lt=2**62)]
_MEANING = 2  # which section of an explanation says what the guarantee means
_FORMULA = re.compile(r"[\s'\"]*[-=+@\uff0b\uff0d\uff1d\uff20]|[\t\r\n]")  # wide ones too
_SHEET = re.compile(r"<style>(.*?)</style>", re.DOTALL)


@router.get("/datasets/{name}/answers/{number}")
@allow("owner", "analyst", "reviewer")
def show_answer(request: Request, office: TheOffice, caller: TheCaller, dataset: TheDataset, number: str) -> Response:
    """Draw an answer, or return it as a file: ``/answers/7``, ``/answers/7.csv``."""
    digits, _, form = number.partition(".")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 18):
        raise no_such("answer", number)
    entry, answer = office.answer_of(dataset, int(digits))
    if form:
        return _file(dataset, entry, answer, form)
    account = office.books.show(entry.dataset)
    asked = read_asked(entry, dataset, account)
    origin, left = office.config.public_origin, questions_left(account, caller.name)
    return render(
        request,
        "answer.html",
        name=dataset.name,
        title=dataset.description.title,
        entry=hide_asker(entry, caller),
        answer=answer,
        asked=asked,
        in_words=say_question(asked),
        lists=[(group.get(asked.by or ""), each, lay_out(each)) for group, each in answer.by_group()],
        steps=advise_next(dataset, asked, answer.next_steps, left=left["left"]),
        meaning=answer.explain().sections[_MEANING].paragraphs[0],
        repeated="free" in request.query_params,
        percent=100 * float(max(entry.charged.shares(account.limits))),
        set_aside=100 * float(max(entry.reserved.shares(account.limits))),
        period=entry.dataset.partition(":")[2],
        left=left,
        as_python=as_python(origin, dataset, asked),
        as_curl=as_curl(origin, dataset, asked),
    )


@router.get("/datasets/{name}/answers/{number}/certificate")
@allow("owner", "analyst", "reviewer")
def download_certificate(office: TheOffice, dataset: TheDataset, number: Number) -> Response:
    """Return a signed certificate as a file."""
    name = f'attachment; filename="{dataset.name}-{number}-certificate.json"'
    return JSONResponse(office.certify(dataset, number), headers={"content-disposition": name})


@router.get("/datasets/{name}/answers/{number}/statement")
@allow("owner", "analyst", "reviewer")
def show_statement(office: TheOffice, caller: TheCaller, dataset: TheDataset, number: Number) -> Response:
    """Return the printable page that `cutline explain` writes; its one style sheet is named to the browser by its digest."""
    entry, answer = office.answer_of(dataset, number)
    account = office.books.show(entry.dataset)
    known = hide_asker(entry, caller).to_dict()
    page = explain(answer.to_dict(), account=account.to_dict(), entry=known, alone=answer.alone).to_html()
    sheets = [base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode() for sheet in _SHEET.findall(page)]
    styles = " ".join(f"'sha256-{sheet}'" for sheet in sheets) or "'none'"
    policy = f"default-src 'none'; style-src {styles}; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    return HTMLResponse(page, headers={"content-security-policy": policy})


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
    return render(request, "practice.html", **shown | {"answer": answer, "rows": lay_out(answer)})


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
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
