r"""What was asked, a page at a time, with how each answer ended."""

from __future__ import annotations

import re
from typing import Any

from fastapi import Request

from cutline.service.catalogue import Dataset
from cutline.service.office import Office
from cutline.service.people import Caller

_SHOWN = 30


def show_history(request: Request, office: Office, caller: Caller, dataset: Dataset) -> dict[str, Any]:
    """Return the rows of a page, newest first, from before the entry that the address names, and where the next one begins."""
    given = request.query_params.get("before", "")
    before = int(given) if re.fullmatch("[1-9][0-9]{0,16}", given) else None
    rows = office.history(caller, dataset, before=before, limit=_SHOWN)
    for row in rows:
        if row["answered"]:
            _, answer = office.answer_of(dataset, row["entry"])
            row |= {"status": answer.status, "guarantee": answer.guarantee}
    return {"rows": rows, "older": rows[-1]["entry"] if len(rows) == _SHOWN else None}
