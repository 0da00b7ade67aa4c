import json

import pytest


def test_plan_lists_every_mechanism_and_recommends_one(run):
    result = run("plan", "--releases", 100, "--json")
    plain = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    names = {(o["mechanism"], tuple(o["parameters"].items())) for o in plain["options"]}
    assert {("stable-top-k", ()), ("stable-top-k", (("choose", "argmax"),))} <= names
    best = plain["options"][0]
    assert best["gap_95"] == min(o["gap_95"] for o in plain["options"] if o["gap_95"])
    assert all(o["gap_50"] is None or o["gap_50"] <= o["gap_95"] for o in plain["options"] if o["gap_95"])
    assert all(o["recall"] is None for o in plain["options"])
    assert plain["recommended"].startswith(best["mechanism"])


def test_text_names_the_choice(run):
    text = " ".join(run("plan").stdout.split())
    assert "1 release, epsilon = 1, delta = 1e-06" in text
    assert "take stable-top-k" in text
    assert "assumes The gap needed assumes a single gap at the cut, all others being 0." in text
    assert "items to expect" in text
    assert "one user joining or leaving" in text


def test_only_mechanisms_that_can_run_on_the_domain_are_compared(run):
    from cutline.mechanisms import MECHANISMS

    both, opened, closed = (
        json.loads(run("plan", "--k", 3, "--max-k", 20, "--json", *domain).stdout)["options"]
        for domain in ([], ["--domain", "open"], ["--domain", "closed"])
    )
    told = [kind for kind in MECHANISMS if kind.accepts("k")]
    assert {o["mechanism"] for o in both} == {kind.name for kind in told if kind.domains != ("bounded",)}
    for options, domain in ((opened, "open"), (closed, "closed")):
        assert {o["mechanism"] for o in options} == {kind.name for kind in told if domain in kind.domains}
    assert "limited-rounds" not in {o["mechanism"] for o in closed}
    bounded = run("plan", "--k", 3, "--max-k", 20, "--domain", "open", "--max-items-per-user", 5, "--json").stdout
    added = {o["mechanism"] for o in json.loads(bounded)["options"]} - {o["mechanism"] for o in opened}
    assert added == {kind.name for kind in told if kind.domains == ("bounded",)}
    text = " ".join(run("plan", "--k", 3, "--max-k", 20).stdout.split())
    best = next(o["mechanism"] for o in both if "open" in o["domains"])
    assert f"if the candidates are listed, {best} otherwise" in text
    assert run("plan", "--domain", "half").exit_code == 2


def test_a_prior_of_another_domain_is_refused():
    from cutline import Budget, plan
    from cutline.errors import CutlineError
    from cutline.histogram import ClosedHistogram

    budget = Budget(epsilon=1.0, delta=1e-6)
    listed = ClosedHistogram.from_counts({"a": 90, "b": 80, "c": 1})
    assert {o.mechanism for o in plan(budget, k=1, max_k=3, prior=listed).options} >= {"peeling-em", "test-first"}
    for fields in ({"domain": "open", "prior": listed}, {"domain": "ajar"}):
        with pytest.raises(CutlineError):
            plan(budget, max_k=3, **fields)


def test_a_public_prior_adds_expected_recall(run, tmp_path):
    prior = tmp_path / "prior.json"
    prior.write_text(json.dumps({f"top {i}": 500 for i in range(5)} | {f"low {i}": i for i in range(50)}))
    plain = json.loads(run("plan", "--max-k", 20, "--prior", prior, "--json").stdout)
    recalls = [o["recall"] for o in plain["options"]]
    assert recalls == sorted(recalls, reverse=True)
    assert recalls[0] > 0.99


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense", '{"a": 1.5}', '{"a": -1}', '{"a": "x"}'])
def test_a_prior_that_is_no_histogram_is_refused(run, tmp_path, text):
    prior = tmp_path / "prior.json"
    prior.write_text(text)
    result = run("plan", "--prior", prior, "--json")
    assert result.exit_code == 1
    assert set(json.loads(result.stdout)["error"]) == {"rule", "value", "way_out"}
    assert "Traceback" not in result.stdout + result.stderr


def test_a_missing_prior_and_bad_budgets_are_refused(run, tmp_path):
    assert run("plan", "--prior", tmp_path / "none.json", "--json").exit_code == 1
    assert run("plan", "--epsilon", "nan", "--json").exit_code == 1
    assert run("plan", "--max-k", 0, "--json").exit_code == 1


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "published.csv"
    rows = [("top", i, 300 - i) for i in range(5)] + [("low", i, 90 - i) for i in range(40)]
    path.write_text("venue,day,visitors\n" + "".join(f"{name} {i},mon,{n}\n" for name, i, n in rows))
    return ["--prior", path, "--prior-item", "venue", "--prior-count", "visitors", "--max-k", 20]


def test_a_plan_on_a_published_list_works_backwards(run, published, tmp_path):
    result = run(
        "plan", *published, "--mechanism", "joint-stable", "--want", 0.9, "--plot", tmp_path / "plan.svg", "--json"
    )
    plain = json.loads(result.stdout)
    assert result.exit_code == 0, result.stderr
    (wanted,) = plain["wanted"]
    assert 0.9 <= wanted["expected"]["recall"] < 0.92
    points = {curve["mechanism"]: curve["points"] for curve in plain["curves"]}["joint-stable"]
    assert [point["epsilon"] for point in points] == [0.1, 0.25, 0.5, 1.0, 2.0, 4.0]
    assert points[0]["recall"] < points[1]["recall"] <= points[-1]["recall"] <= 1
    assert points[-1]["k"] == pytest.approx(5, abs=0.01)
    assert plain["plot"]["error"] is None
    assert "joint-stable" in (tmp_path / "plan.svg").read_text()


def test_the_text_of_a_plan_names_the_epsilon_and_who_was_left_out(run, published):
    shown = run("plan", *published, "--mechanism", "joint-stable", "--want", 0.9, "--plot", "-").stdout
    text = " ".join(shown.split())
    assert "Recall (items that go out), and where they end, against epsilon on the prior" in text
    assert "k=5.0" in text
    assert "with joint-stable: expected recall 0.9" in text
    assert "by the exact law" in text
    assert text.count("│ joint-stable │") == 2  # a name is not cut off on a narrow terminal
    assert "1.000 │ 5.0 │" in text  # recall, and k
    assert "epsilon │0.1 0.25 0.5 1 2 4" in text  # the figure, as bars of text
    assert "joint-stable │████████ ████████" in text
    closed = run("plan", "--k", 45, "--domain", "closed", *published[:-2], "--mechanism", "subset-em")
    assert closed.exit_code == 1
    assert "below the number of candidates" in closed.stderr


def test_columns_of_a_prior_that_is_no_file_are_refused():
    from cutline import Budget, plan
    from cutline.errors import CutlineError

    with pytest.raises(CutlineError, match="no file"):
        plan(Budget(epsilon=1.0, delta=1e-6), max_k=3, prior={"a": 3}, prior_item="a")
