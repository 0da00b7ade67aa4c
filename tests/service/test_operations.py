"""Running it: ticks, stopping, backups while it runs, one process on a file and several on a PostgreSQL server."""

import math
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import update

from cutline.ledger import Ledger
from cutline.service import tables
from cutline.service.asking import Asked, OnTick
from cutline.service.config import Config
from cutline.service.office import Office
from cutline.service.people import Caller
from cutline.service.store import Conflict

from .processes import BUDGET_OF_TEN, call, prepare, send, serving, wait_for, write_settings

ASK = "/datasets/d/releases"


def test_the_books_are_settled_on_a_tick_and_not_before(office, at_desk, monkeypatch):
    desk, clock, ann, found = at_desk
    seen = []
    settle = office.books.settle

    def settle_now(*given, **named):
        seen.append((clock.now, office.books.show("check-ins:2024").entries))
        return settle(*given, **named)

    monkeypatch.setattr(office.books, "settle", settle_now)
    first = desk.answer(found, Asked(item="venue", k=3), ann)
    assert seen == [(105.0, 1)]
    assert clock.slept == [4.75]
    again = desk.answer(found, Asked(item="venue", k=3), ann)  # from the books: nothing was read, and nothing waits
    assert (again.repeated_from, len(clock.slept)) == (first.entry, 1)


def test_a_failure_is_seen_on_a_tick_too(office, at_desk, log):
    desk, clock, ann, found = at_desk
    log.rename(log.with_suffix(".gone"))
    try:
        with pytest.raises(OnTick) as held:
            desk.answer(found, Asked(item="venue", k=4), ann)
    finally:
        log.with_suffix(".gone").rename(log)
    assert held.value.visible_from == 105.0 == math.ceil(clock.now / 7) * 7


def test_waiting_for_a_tick_keeps_no_other_question_from_reading(office, at_desk):
    """Two logs may be read at a time; here both places would be taken by questions that wait for their tick."""
    desk, _, ann, found = at_desk
    reached, go_on = threading.Semaphore(0), threading.Event()

    def sleep(_):
        reached.release()
        assert go_on.wait(60)

    desk._sleep = sleep
    with ThreadPoolExecutor(3) as threads:
        answers = [threads.submit(desk.answer, found, Asked(item="venue", k=k), ann) for k in (2, 3, 4)]
        assert all(reached.acquire(timeout=60) for _ in answers)
        go_on.set()
        assert len({answer.result().entry for answer in answers}) == 3


def test_one_process_serves_a_file(office):
    with pytest.raises(Conflict, match="one process serves"):
        Office(office.config)


@pytest.mark.slow
def test_sigterm_lets_a_question_end_and_keeps_its_answer(tmp_path):
    settings, port = write_settings(tmp_path, tick=1.0)
    token = prepare(settings, budget=BUDGET_OF_TEN)
    with serving(settings, port) as process, ThreadPoolExecutor(1) as threads, Ledger(tmp_path / "books.db") as books:
        asked = threads.submit(send, port, token, "POST", ASK, {"item": "venue", "k": 3})
        wait_for(lambda: books.show("d:1").entries)  # it has paid, and runs
        process.send_signal(signal.SIGTERM)
        status, answer = asked.result()
        assert process.wait(60) in (0, -signal.SIGTERM)  # uvicorn ends by the signal itself when all is done
        assert (status, answer["entry"]) == (200, 1)
        assert books.answer(1).answer["items"] == answer["items"]


@pytest.mark.slow
def test_a_backup_while_it_runs_holds_every_answer_that_was_given_before(tmp_path):
    settings, port = write_settings(tmp_path)
    token = prepare(settings, budget=BUDGET_OF_TEN, filters=range(10))
    with serving(settings, port), Ledger(tmp_path / "books.db") as books, ThreadPoolExecutor(2) as threads:
        given = threads.map(
            lambda n: call(port, token, "POST", ASK, {"item": "venue", "filter": f"without {n}"}), range(5)
        )
        before = len(list(given))
        later = [
            threads.submit(call, port, token, "POST", ASK, {"item": "venue", "filter": f"without {n}"})
            for n in range(5, 10)
        ]
        head = books.backup(tmp_path / "backup.db")
        assert all(answer.result()["entry"] for answer in later)
    with Ledger(tmp_path / "backup.db") as copy:
        assert copy.audit(head).passed
        assert before == 5 <= copy.show("d:1").entries <= 10
        assert all(copy.answer(number).answer for number in range(1, 6))


@pytest.fixture
def two(tmp_path, new_database):
    """Two services in two processes over one PostgreSQL server; return their ports and an analyst's token."""
    place = {"books": new_database(), "store": new_database()}
    settings = [write_settings(tmp_path, name=f"{n}.toml", **place) for n in range(2)]
    token = prepare(settings[0][0], budget=BUDGET_OF_TEN, filters=range(32))
    with serving(*settings[0]), serving(*settings[1]):
        yield [port for _, port in settings], token, place["books"]


@pytest.mark.slow
def test_several_processes_on_a_server_overspend_nothing_and_draw_equal_questions_once(two):
    ports, token, books = two

    def ask(number, asked):
        return send(ports[number % 2], token, "POST", ASK, asked)

    with ThreadPoolExecutor(16) as threads:
        same = list(threads.map(lambda n: ask(n, {"item": "venue", "k": 5}), range(16)))
        assert {status for status, _ in same} == {200}
        assert len({str(told["items"]) for _, told in same}) == 1
        assert sum(told["repeated_from"] is None for _, told in same) == 1
        questions = [{"item": "venue", "filter": f"without {n}"} for n in range(32)]
        codes = [status for status, _ in threads.map(ask, range(32), questions)]
    assert sorted(set(codes)) == [200, 409]
    assert codes.count(200) == 9
    with Ledger(books) as opened:
        assert opened.show("d:1").entries == 10
        assert opened.audit().passed


@pytest.mark.slow
def test_a_job_that_another_process_runs_is_left_to_it(tmp_path, new_database):
    settings, _ = write_settings(tmp_path, books=new_database(), store=new_database())
    prepare(settings, budget=BUDGET_OF_TEN, answers="later")
    first, second = (Office(Config.read(settings)) for _ in range(2))
    ann = Caller(person=first.people.find("ann"))
    try:
        number = first.jobs.submit(first.catalogue.find(ann, "d"), Asked(item="venue", k=3), ann)
        wait_for(lambda: first.jobs.show(ann, number)["state"] == "done")
        with first.store.writing() as connection:
            running = update(tables.jobs).where(tables.jobs.c.id == number)
            connection.execute(running.values(state="running", entry=None, visible_from=None))
        with first.jobs._turns.take(number):
            second.jobs.resume()
            assert second.jobs.show(ann, number)["state"] == "queued"
        second.jobs.resume()  # now it belongs to nobody, and its answer is on the books
        assert wait_for(lambda: second.jobs.show(ann, number)["entry"]) == 1
    finally:
        first.close()
        second.close()
