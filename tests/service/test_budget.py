"""Nobody overspends: many at once, the same question, answers that come later, and requests that are sent twice."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from .conftest import DATASET, NAMES

ASK = "/api/v1/datasets/many/releases"


@pytest.fixture
def many(client, sign_in, request):
    """Register the check-ins with some filters and a budget of ten questions."""
    filters = {f"without {n}": f"user_id % 100 <> {n}" for n in range(getattr(request, "param", 3))}
    owner = sign_in("owner")
    made = client.post("/api/v1/datasets", json=DATASET | {"name": "many", "filters": filters}, headers=owner)
    assert made.status_code == 201, made.text
    sign_in("analyst")
    given = {"person": NAMES["analyst"], "role": "analyst"}
    client.post("/api/v1/datasets/many/grants", json=given, headers=owner)
    return list(filters)


@pytest.mark.parametrize("many", [32], indirect=True)
def test_of_64_different_questions_at_once_exactly_ten_are_answered_and_charged(client, sign_in, office, many):
    headers = sign_in("analyst")

    def ask(number):
        asked = {"item": "venue", "filter": many[number // 2], "counts": number % 2 == 0}
        return client.post(ASK, json=asked, headers=headers)

    with ThreadPoolExecutor(64) as threads:
        answers = list(threads.map(ask, range(64)))
    codes = [answer.status_code for answer in answers]
    assert sorted(set(codes)) == [200, 409]
    assert codes.count(200) == 10
    account = office.books.show("many:2024")
    assert account.entries == 10
    assert account.remaining_releases == 0
    assert office.books.audit().passed


def test_the_same_question_from_64_clients_is_one_draw_and_charged_once(client, sign_in, office, many):
    headers = sign_in("analyst")

    def ask(_):
        return client.post(ASK, json={"item": "venue", "k": 5}, headers=headers).json()

    with ThreadPoolExecutor(64) as threads:
        answers = list(threads.map(ask, range(64)))
    assert len({str(answer["items"]) for answer in answers}) == 1
    assert sum(answer["repeated_from"] is None for answer in answers) == 1
    assert office.books.show("many:2024").entries == 1


def test_a_post_with_a_key_is_answered_as_it_was_then(client, sign_in, office, many):
    headers = sign_in("analyst") | {"idempotency-key": "one"}
    first = client.post(ASK, json={"item": "venue", "k": 5}, headers=headers)
    again = client.post(ASK, json={"item": "venue", "k": 5}, headers=headers)
    assert again.json() == first.json()
    assert again.json()["repeated_from"] is None
    other = client.post(ASK, json={"item": "venue", "k": 6}, headers=headers)
    assert other.status_code == 409
    assert office.books.show("many:2024").entries == 1


def test_owners_posts_with_a_key_are_done_once_too(client, sign_in, office, many):
    owner = sign_in("owner") | {"idempotency-key": "new-period"}
    body = {"period": "2025", "budget": {"epsilon": 2.0, "questions": 5}}
    told = [client.post("/api/v1/datasets/many/periods", json=body, headers=owner) for _ in range(2)]
    assert [each.status_code for each in told] == [201, 201]
    assert told[0].json() == told[1].json()
    wish = {"wish": "a report"}
    analyst = sign_in("analyst") | {"idempotency-key": "more"}
    numbers = {client.post("/api/v1/datasets/many/requests", json=wish, headers=analyst).json()["id"] for _ in range(3)}
    assert len(numbers) == 1


def test_a_key_shows_nothing_to_whom_access_was_taken_from(client, sign_in, many):
    headers = sign_in("analyst") | {"idempotency-key": "one"}
    assert client.post(ASK, json={"item": "venue", "k": 5}, headers=headers).status_code == 200
    assert client.delete("/api/v1/datasets/many/grants/ann", headers=sign_in("owner")).status_code == 204
    assert client.post(ASK, json={"item": "venue", "k": 5}, headers=headers).status_code == 404


def test_what_shows_a_secret_takes_no_key(client, sign_in, office, many):
    headers = sign_in("analyst") | {"idempotency-key": "one"}
    refused = client.post("/api/v1/tokens", json={"scopes": ["read"]}, headers=headers)
    assert (refused.status_code, "secret" in refused.json()["rule"]) == (422, True)


def test_a_request_that_was_too_early_may_be_sent_again_under_its_key(client, sign_in, office, many):
    """Refusals that did nothing are not kept; those that are an answer are."""
    headers = sign_in("analyst") | {"idempotency-key": "one"}
    client.delete("/api/v1/datasets/many/grants/ann", headers=sign_in("owner"))
    assert client.post(ASK, json={"item": "venue", "k": 5}, headers=headers).status_code == 404
    given = {"person": "ann", "role": "analyst"}
    client.post("/api/v1/datasets/many/grants", json=given, headers=sign_in("owner"))
    assert client.post(ASK, json={"item": "venue", "k": 5}, headers=headers).status_code == 200
    other = headers | {"idempotency-key": "two"}
    assert client.post(ASK, json={"item": "nothing"}, headers=other).status_code == 422
    assert client.post(ASK, json={"item": "venue"}, headers=other).status_code == 409


def test_an_analyst_s_share_ends_before_the_budget_does(client, sign_in, office, many):
    owner, analyst = sign_in("owner"), sign_in("analyst")
    given = {"person": "ann", "role": "analyst", "share": "1/5"}
    assert client.post("/api/v1/datasets/many/grants", json=given, headers=owner).status_code == 201
    codes = [client.post(ASK, json={"item": "venue", "filter": name}, headers=analyst).status_code for name in many[:3]]
    assert codes == [200, 200, 409]
    left = client.get("/api/v1/datasets/many", headers=analyst).json()["questions_left"]
    assert left == {"left": 0, "of": 2}
    wish = client.post("/api/v1/datasets/many/requests", json={"wish": "a report", "share": "1/2"}, headers=analyst)
    place = f"/api/v1/datasets/many/requests/{wish.json()['id']}"
    assert client.post(place, json={"approve": True}, headers=owner).status_code == 200
    assert client.post(place, json={"approve": True}, headers=owner).status_code == 409
    assert client.post(ASK, json={"item": "venue", "filter": many[2]}, headers=analyst).status_code == 200


def test_periods_never_reset_and_their_sum_is_shown(client, sign_in, office, many):
    owner = sign_in("owner")
    body = {"period": "2025", "budget": {"epsilon": 2.0, "questions": 5}}
    told = client.post("/api/v1/datasets/many/periods", json=body, headers=owner).json()
    assert told["all_periods"] == {"periods": 2, "epsilon": 6.0, "delta": 2e-6}
    assert client.post("/api/v1/datasets/many/periods", json=body, headers=owner).status_code == 409
    analyst = sign_in("analyst")
    assert client.post(ASK, json={"item": "venue"}, headers=analyst).json()["ledger"]["dataset"] == "many:2025"
    client.post("/api/v1/datasets/many/close", headers=owner)
    closed = client.post(ASK, json={"item": "venue", "k": 2}, headers=analyst)
    assert (closed.status_code, closed.json()["rule"]) == (409, "a closed dataset takes no more questions")


def test_two_datasets_over_one_log_show_the_sum_of_both_budgets(client, sign_in, office, many):
    owner, analyst = sign_in("owner"), sign_in("analyst")
    before = client.get("/api/v1/datasets/many", headers=analyst).json()
    assert before["whole_log"] == {"epsilon": 4.0, "delta": 1e-6}
    again = {
        "name": "again", "title": "The same log", "source": "checkins", "user": "user_id", "items": ["venue"],
        "version": "1", "period": "2024", "budget": {"epsilon": 2.0, "questions": 5},
    }  # fmt: skip
    assert client.post("/api/v1/datasets", json=again, headers=owner).status_code == 201
    after = client.get("/api/v1/datasets/many", headers=analyst).json()
    assert after["all_periods"] == before["all_periods"]
    assert after["whole_log"] == {"epsilon": 6.0, "delta": 2e-6}
    assert client.get("/api/v1/datasets/again", headers=owner).json()["whole_log"] == after["whole_log"]
    assert "Other datasets over the same log" in client.get("/datasets/many", headers=owner).text


def test_a_new_version_of_the_data_is_a_new_question(client, sign_in, office, many):
    analyst = sign_in("analyst")
    asked = {"item": "venue", "k": 3}
    first = client.post(ASK, json=asked, headers=analyst).json()
    client.post("/api/v1/datasets/many/versions", json={"version": "2024-07"}, headers=sign_in("owner"))
    second = client.post(ASK, json=asked, headers=analyst).json()
    assert (first["entry"], second["entry"], second["repeated_from"]) == (1, 2, None)


@pytest.fixture
def later(client, sign_in):
    owner = sign_in("owner")
    client.post("/api/v1/datasets", json=DATASET | {"name": "many", "answers": "later"}, headers=owner)
    sign_in("analyst")
    client.post("/api/v1/datasets/many/grants", json={"person": "ann", "role": "analyst"}, headers=owner)


def wait_for(client, place, headers):
    for _ in range(500):
        job = client.get(place, headers=headers).json()
        if job["state"] != "queued":
            return job
        time.sleep(0.02)
    raise AssertionError("the job did not end")


def test_answers_that_come_later_are_jobs_whatever_they_take(client, sign_in, office, later):
    analyst = sign_in("analyst")
    told = client.post(ASK, json={"item": "venue", "k": 3}, headers=analyst)
    assert (told.status_code, told.json()["state"]) == (202, "queued")
    job = wait_for(client, told.headers["location"], analyst)
    assert set(job) == {"id", "dataset", "state", "created", "entry", "problem"}
    assert (job["state"], job["entry"]) == ("done", 1)
    assert len(client.get(f"{ASK}/1", headers=analyst).json()["items"]) == 3
    assert client.get(told.headers["location"], headers=sign_in("owner")).status_code == 403


def test_jobs_that_a_crash_cut_off_are_looked_up_in_the_books(client, sign_in, office, later):
    """What was not begun runs; what has its answer on the books is done; what was charged and lost has failed."""
    from sqlalchemy import update

    from cutline.service import tables

    analyst = sign_in("analyst")
    done = client.post(ASK, json={"item": "venue", "k": 3}, headers=analyst).headers["location"]
    wait_for(client, done, analyst)
    lost = client.post(ASK, json={"item": "venue", "k": 4}, headers=analyst).headers["location"]
    wait_for(client, lost, analyst)

    def rewind(place, **values):
        with office.store.writing() as connection:
            wanted = update(tables.jobs).where(tables.jobs.c.id == place.rpartition("/")[2])
            connection.execute(wanted.values(entry=None, visible_from=None, **values))

    rewind(done, state="running")
    rewind(lost, state="running", version="another")
    office.jobs.resume()
    assert wait_for(client, done, analyst)["entry"] == 1
    assert "stopped while" in wait_for(client, lost, analyst)["problem"]["rule"]
    rewind(done, state="queued")
    office.jobs.resume()
    assert wait_for(client, done, analyst)["entry"] == 1
    assert office.books.show("many:2024").entries == 2
