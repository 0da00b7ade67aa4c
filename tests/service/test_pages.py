"""What pages say and to whom, without a browser: prices, history, papers, forms that are refused, and words in addresses."""

import re
import socket

import pytest

from cutline.errors import ParameterError
from cutline.service.config import Config
from cutline.service.run import check_port

from .conftest import DATASET

PAGE = "/datasets/check-ins"
ASK = "/api/v1/datasets/check-ins/releases"


def words(page):
    """Return the words of a page, without markup and with single spaces."""
    return " ".join(re.sub(r"<[^>]+>", " ", page.text).split())


@pytest.fixture
def asked(client, sign_in, dataset):
    """Ask three questions as the analyst: one with everything, one that is withheld, and one that took three shares."""
    headers = sign_in("analyst")
    questions = (
        {"item": "venue", "k": 5, "counts": True, "filter": "in March", "purpose": "a secret plan"},
        {"item": "venue", "by": "day"},
        {"item": "venue", "share": "3/10"},
    )
    return [client.post(ASK, json=question, headers=headers).json() for question in questions]


def test_the_history_gives_questions_back_in_the_words_they_were_asked_in(client, sign_in, asked):
    listed = client.get(ASK, headers=sign_in("reviewer")).json()["releases"]
    assert [row["in_words"] for row in listed] == [
        "the top of venue, wherever it ends",
        "the top of venue, wherever it ends, one list for each day",
        "the top 5 of venue, in March, with counts",
    ]
    given = {"item": "venue", "k": 5, "filter": "in March", "by": None, "counts": True, "share": None}
    assert listed[-1]["question"] == given | {"purpose": "a secret plan"}
    assert listed[0]["question"]["share"] == "3/10"
    assert listed[0]["share_percent"] == pytest.approx(30, abs=0.01)
    for form in ("python", "curl"):
        page = client.get(f"{PAGE}/answers/1", headers=sign_in("analyst")).text
        assert form in page.lower()
    assert "filter=&#39;in March&#39;, counts=True" in page


def test_who_asked_and_what_for_is_shown_to_those_it_concerns(client, sign_in, office, asked):
    """The owner, reviewers and the analyst who asked; another analyst reads the answer without them, on every paper."""
    office.people.invite("bob", "analyst")
    grant = {"person": "bob", "role": "analyst"}
    client.post("/api/v1/datasets/check-ins/grants", json=grant, headers=sign_in("owner"))
    bob = {"cookie": f"cutline_session={office.people.open_session('bob')}"}
    papers = (PAGE, f"{PAGE}/answers/1", f"{PAGE}/answers/1/statement")
    for role in ("owner", "analyst", "reviewer"):
        for paper in papers:
            assert "a secret plan" in client.get(paper, headers=sign_in(role)).text, (role, paper)
    for paper in (*papers, f"{PAGE}/answers/1/certificate", ASK, f"{ASK}/1", f"{ASK}/1/certificate"):
        page = client.get(paper, headers=bob)
        assert page.status_code == 200
        assert "a secret plan" not in page.text, paper


def test_an_answer_that_fell_short_leads_to_a_question_that_is_filled_in(client, sign_in, asked):
    analyst = sign_in("analyst")
    page = client.get(f"{PAGE}/answers/2", headers=analyst).text
    places = re.findall(rf'href="({PAGE}\?[^"]+)"', page)
    assert places == [f"{PAGE}?item=venue&amp;k=10&amp;by=day", f"{PAGE}?item=venue&amp;by=day&amp;spend=3"]
    filled = client.get(places[0].replace("&amp;", "&"), headers=analyst).text
    assert re.search(r'name="k" type="number" value="10"', filled)
    assert re.search(r'<option value="day" selected>', filled)
    filled = client.get(places[1].replace("&amp;", "&"), headers=analyst).text
    assert re.search(r'<option value="3" selected>', filled)
    for k in (1, 2, 3):
        client.post(ASK, json={"item": "venue", "k": k, "counts": True}, headers=analyst)
    left = int(
        re.search(r"(\d+) of 10 questions are left now", client.get(f"{PAGE}/answers/2", headers=analyst).text)[1]
    )
    assert left < 3
    page = client.get(f"{PAGE}/answers/2", headers=analyst).text
    assert [int(spend) for spend in re.findall(r"spend=(\d)", page)] == [left] * (left > 1)


def test_a_price_says_what_is_taken_and_the_chance_before_anything_is_paid(client, sign_in, office, dataset):
    analyst = sign_in("analyst")
    form = {"item": "venue", "k": "5", "size": "100", "spend": "3"}
    shown = words(client.post(f"{PAGE}/price", data=form, headers=analyst))
    assert "At most 3 questions , 30 % of this period's budget. 7 of 10 are left after it." in shown
    body = {"item": "venue", "k": 5, "share": "3/10"}
    told = client.post("/api/v1/datasets/check-ins/quotes", json=body | {"size": 100}, headers=analyst).json()
    assert 0.5 < told["chance"] <= 1
    few = client.post("/api/v1/datasets/check-ins/quotes", json=body | {"size": 1}, headers=analyst).json()
    assert few["chance"] < 0.01
    assert client.post("/api/v1/datasets/check-ins/quotes", json=body, headers=analyst).json()["chance"] is None
    assert f"Finds the right 5 nine times in ten if each has {told['seen_nine_in_ten']} users more" in shown
    assert office.books.show("check-ins:2024").entries == 0


def test_a_price_says_before_paying_that_a_repeat_is_free(client, sign_in, asked):
    form = {"item": "venue", "k": "5", "counts": "yes", "filter": "in March"}
    shown = words(client.post(f"{PAGE}/price", data=form, headers=sign_in("analyst")))
    assert shown.startswith("Free. This was asked before")
    assert "Read answer 1" in shown


def test_a_refused_form_keeps_what_was_filled_in_and_says_why(client, sign_in, office, dataset):
    owner = sign_in("owner")
    for place, form, why in (
        ("grants", {"person": "rita", "role": "analyst", "share": "1/4"}, "invited under"),
        ("grants", {"person": "bob", "role": "analyst", "expires": "soon"}, "a date is written like"),
        ("grants", {"person": "bob", "role": "analyst", "share": "most"}, "a share"),
        ("versions", {"version": "no spaces"}, "a version has"),
        ("periods", {"period": "2024", "questions": "10", "epsilon": "1", "delta": "1e-6"}, "opened once"),
        ("requests/none", {"approve": "yes"}, "there must be such a request"),
    ):
        page = client.post(f"{PAGE}/{place}", data=form, headers=owner)
        assert 400 <= page.status_code < 500
        assert 'role="alert"' in page.text
        assert why in page.text.lower()
        assert "Check-ins of one city" in page.text
        for name, value in form.items():
            if name in ("person", "share", "version", "period", "expires"):
                assert f'value="{value}"' in page.text, (place, name)
    assert office.people.find("bob") is None  # whoever was not given access was not invited


def test_an_owner_invites_whoever_is_new_and_nobody_s_link_is_made_anew(client, sign_in, office, dataset):
    owner = sign_in("owner")
    page = client.post(f"{PAGE}/grants", data={"person": "Bob", "role": "analyst", "share": "1/2"}, headers=owner)
    link = re.search(r"/welcome/(cutline_link_[\w-]+)", page.text)[1]
    assert office.people.of_link(link).name == "bob"
    assert [grant.share for grant in office.catalogue.grants(_find(office)) if grant.person == "bob"] == ["1/2"]
    again = client.post(
        f"{PAGE}/grants", data={"person": "bob", "role": "analyst"}, headers=owner, follow_redirects=False
    )
    assert (again.status_code, again.headers["location"]) == (303, f"{PAGE}?done=access")
    assert office.people.of_link(link).name == "bob"
    for role in ("owner", "admin"):  # an owner makes nobody an owner
        page = client.post(f"{PAGE}/grants", data={"person": "eve", "role": role}, headers=owner)
        assert page.status_code == 422
        assert office.people.find("eve") is None


def _find(office):
    from cutline.service.people import Caller

    return office.catalogue.find(Caller(person=office.people.find("olga")), "check-ins")


def test_an_address_puts_no_words_on_a_page(client, sign_in, dataset):
    owner = sign_in("owner")
    assert "Access is given." in client.get(f"{PAGE}?done=access", headers=owner).text
    page = client.get(f"{PAGE}?done=send+your+password&before=x&free=1", headers=owner)
    assert page.status_code == 200
    assert "password" not in page.text


def test_a_page_of_the_history_leads_to_the_one_before(client, sign_in, office, dataset, monkeypatch):
    monkeypatch.setattr("cutline.service.pages.history._SHOWN", 2)
    analyst = sign_in("analyst")
    for k in (1, 2, 3):
        client.post(ASK, json={"item": "venue", "k": k}, headers=analyst)
    newest = client.get(PAGE, headers=sign_in("reviewer")).text
    assert re.findall(r">Answer (\d)<", newest) == ["3", "2"]
    older = re.search(rf"{PAGE}\?before=\d+", newest)[0]
    assert re.findall(r">Answer (\d)<", client.get(older, headers=sign_in("reviewer")).text) == ["1"]


def test_registering_lists_the_columns_and_plans_a_budget_when_none_is_given(client, sign_in, office):
    owner = sign_in("owner")
    first = client.get("/register", headers=owner)
    assert "<code>user_id</code>, <code>venue</code>, <code>day</code>" in first.text
    assert "built-in" not in first.text
    form = {name: DATASET[name] for name in ("name", "title", "source", "user", "version", "period")}
    form |= {"items": "venue", "questions": "4", "gap": "200", "delta": "1e-6", "epsilon": "", "answers": "now"}
    planned = client.post("/register", data=form, headers=owner)
    epsilon = re.search(r'name="epsilon" type="text" value="([\d.]+)"', planned.text)[1]
    assert "nothing is fixed yet" in planned.text
    assert office.catalogue.listed(_caller(office)) == []
    done = client.post("/register", data=form | {"epsilon": epsilon}, headers=owner, follow_redirects=False)
    assert done.headers["location"] == f"{PAGE}?done=registered"
    assert office.books.show("check-ins:2024").budget.epsilon == float(epsilon)


def _caller(office):
    from cutline.service.people import Caller

    return Caller(person=office.people.find("olga"))


@pytest.mark.parametrize("broken", ["office.Office.describe", "pages.datasets.render"])
def test_what_fails_unexpectedly_is_a_page_for_browsers_and_tells_nothing(
    client, sign_in, dataset, monkeypatch, broken
):
    def fail(*_, **__):
        raise RuntimeError("row 7: zanzibar")

    monkeypatch.setattr(f"cutline.service.{broken}", fail)
    page = client.get(PAGE, headers=sign_in("analyst"))
    assert page.status_code == 500
    assert "That did not work" in page.text
    assert "zanzibar" not in page.text
    large = client.post(PAGE, content=b"x" * 300_000, headers=sign_in("analyst"))
    assert (large.status_code, "That did not work" in large.text) == (413, True)
    monkeypatch.setattr("cutline.service.app.refuse_page", fail)
    plain = client.get(PAGE, headers=sign_in("analyst"))
    assert (plain.status_code, plain.headers["content-type"]) == (500, "application/problem+json")
    assert "zanzibar" not in plain.text


def test_a_port_that_is_taken_is_refused_before_anything_is_served(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        config = Config.parse({"port": taken.getsockname()[1]}, folder=tmp_path)
        with pytest.raises(ParameterError, match="an address that is free"):
            check_port(config)
    check_port(config)
