r"""Questions that are answered later: written down first, so that a crash loses none, and run by threads of this process.

A job is queued, then done or failed, and nothing in between is shown. One that was cut off in the middle is never run again by
itself: its charge is on the books. If the books hold its answer the job is done, and otherwise it failed.
"""

from __future__ import annotations

import json
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import func, insert, select, update

from cutline.errors import CutlineError
from cutline.service import tables
from cutline.service.asking import Asked, Desk, OnTick
from cutline.service.catalogue import Catalogue, Dataset
from cutline.service.people import Caller, People
from cutline.service.store import Conflict, Store, no_such, plain
from cutline.service.turns import Turns

UNEXPECTED = CutlineError(
    "something failed that should not have; the details are withheld, they may quote rows",
    "",
    "The charge stays. Tell the owner which question it was.",
)
_CUT_OFF = CutlineError(
    "the service stopped while the question ran", "", "The charge stays on the books. Asking again is a new question."
)
_THREADS = 2
_MOST_WAITING = 100  # questions of one person, so that others have their turn


class Jobs:
    """The queue, and the threads that work it off."""

    def __init__(self, store: Store, desk: Desk, catalogue: Catalogue, people: People, turns: Turns) -> None:
        self._store, self._desk, self._catalogue, self._people, self._turns = store, desk, catalogue, people, turns
        self._threads = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="cutline-job")

    def submit(self, dataset: Dataset, asked: Asked, caller: Caller) -> str:
        """Write a question down, and return the job's id."""
        waiting = select(func.count()).where(tables.jobs.c.person == caller.name, tables.jobs.c.state == "queued")
        number = secrets.token_hex(8)
        row = {
            "id": number,
            "dataset": dataset.name,
            "account": dataset.account,
            "version": dataset.version,
            "person": caller.name,
            "question": json.dumps(asked.to_dict()),
            "state": "queued",
            "created": self._store.now(),
        }
        with self._store.writing() as connection:
            if connection.execute(waiting).scalar_one() >= _MOST_WAITING:
                raise Conflict(
                    f"one person has at most {_MOST_WAITING} questions waiting", "more", "Wait for some of them."
                )
            connection.execute(insert(tables.jobs).values(**row))
        self._threads.submit(self._run, number)
        return number

    def show(self, caller: Caller, number: str) -> dict[str, Any]:
        """Return a job of the caller's as plain data."""
        with self._store.reading() as connection:
            row = connection.execute(select(tables.jobs).where(tables.jobs.c.id == number)).first()
        if row is None or row.person != caller.name:
            raise no_such("job", number)
        seen = row.visible_from is not None and row.visible_from <= time.time()
        state = row.state if seen and row.state in ("done", "failed") else "queued"
        return {
            "id": row.id,
            "dataset": row.dataset,
            "state": state,
            "created": row.created,
            "entry": row.entry if state == "done" else None,
            "problem": json.loads(row.problem) if state == "failed" else None,
        }

    def resume(self) -> None:
        """Take up what the last process left: what was not begun is run, what was cut off is looked up."""
        unfinished = select(tables.jobs).where(tables.jobs.c.state.in_(("queued", "running")))
        with self._store.reading() as connection:
            left = [plain(row) for row in connection.execute(unfinished)]
        for row in left:
            if row["state"] == "queued":
                self._threads.submit(self._run, row["id"])
                continue
            if not self._turns.is_free(row["id"]):  # another process runs it
                continue
            entry = self._find_answer(row)
            if entry is None:
                self._end(row["id"], state="failed", problem=json.dumps(_CUT_OFF.to_dict()))
            else:
                self._end(row["id"], state="done", entry=entry)

    def _find_answer(self, row: dict[str, Any]) -> int | None:
        """Return the entry of the answer to a job; None if there is none, or if the question can be asked no more."""
        caller, dataset, asked = self._read(row)
        try:
            return None if caller is None or dataset is None else self._desk.find(dataset, asked, caller)
        except CutlineError:  # one job must not keep the service from starting
            return None

    def close(self) -> None:
        """Finish what runs, and leave what is queued for the next process."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _run(self, number: str) -> None:
        with self._turns.take(number):
            self._run_alone(number)

    def _run_alone(self, number: str) -> None:
        with self._store.writing() as connection:
            mine = update(tables.jobs).where(tables.jobs.c.id == number, tables.jobs.c.state == "queued")
            if connection.execute(mine.values(state="running")).rowcount == 0:
                return
            row = plain(connection.execute(select(tables.jobs).where(tables.jobs.c.id == number)).one())
        try:
            caller, dataset, asked = self._read(row)
            if caller is None or dataset is None:
                raise no_such("dataset", row["dataset"])
            release = self._desk.answer(dataset, asked, caller)
        except OnTick as held:
            self._end(number, state="failed", problem=json.dumps(held.error.to_dict()))
        except CutlineError as error:
            self._end(number, state="failed", problem=json.dumps(error.to_dict()))
        except Exception:
            self._end(number, state="failed", problem=json.dumps(UNEXPECTED.to_dict()))
        else:
            self._end(number, state="done", entry=release.entry)

    def _read(self, row: dict[str, Any]) -> tuple[Caller | None, Dataset | None, Asked]:
        """Return who asked what of which dataset, as it was when the job was written down; None if access has ended."""
        asked = Asked(**json.loads(row["question"]))
        person = self._people.find(row["person"])
        if person is None or person.disabled:
            return None, None, asked
        caller = Caller(person=person)
        try:
            dataset = self._catalogue.find(caller, row["dataset"])
        except CutlineError:
            return caller, None, asked
        return caller, dataset.as_of(account=row["account"], version=row["version"]), asked

    def _end(self, number: str, **values: Any) -> None:
        ended = update(tables.jobs).where(tables.jobs.c.id == number)
        with self._store.writing() as connection:
            connection.execute(ended.values(**values, visible_from=self._desk.next_tick()))
