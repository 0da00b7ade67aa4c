"""The REST interface: questions are priced, paid for and answered, and everything else is refused clearly."""


def test_a_question_is_priced_paid_for_answered_and_certified(client, sign_in, dataset):
    analyst, reviewer = sign_in("analyst"), sign_in("reviewer")
    asked = {"item": "venue", "k": 5}
    price = client.post("/api/v1/datasets/check-ins/quotes", json=asked, headers=analyst)
    assert price.status_code == 200, price.text
    assert price.json()["affordable"]
    assert price.json()["questions_left"] == {"left": 10, "of": 10}
    answer = client.post("/api/v1/datasets/check-ins/releases", json=asked | {"purpose": "a map"}, headers=analyst)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["ledger"]["entries"] == 1
    again = client.post("/api/v1/datasets/check-ins/releases", json=asked, headers=analyst).json()
    assert again["items"] == found["items"]
    assert again["repeated_from"] == found["entry"]
    assert again["ledger"]["entries"] == 1
    listed = client.get("/api/v1/datasets/check-ins/releases", headers=reviewer).json()["releases"]
    assert [(row["analyst"], row["purpose"], row["answered"]) for row in listed] == [("ann", "a map", True)]
    certificate = client.get("/api/v1/datasets/check-ins/releases/1/certificate", headers=reviewer).json()
    assert certificate["facts"]["question"]["item"] == "venue"
    assert client.get("/api/v1/datasets/check-ins/audit", headers=reviewer).json()["passed"]
