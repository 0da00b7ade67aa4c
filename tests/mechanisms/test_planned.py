"""Plans paid for by the rule `adaptive`: stored calibrations held against it, the search, and what is remembered of it."""

import json
import stat
from dataclasses import dataclass

import pytest

import cutline
from cutline.errors import BudgetError, ParameterError
from cutline.ledger import Ledger
from cutline.mechanisms.adaptive.choosers import GapArgmax, GapExponential, Preference
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.mechanisms.adaptive.stable_top_k_calibration import calibrate_planned
from cutline.mechanisms.one_gap import one_gap
from cutline.mechanisms.remembered import directory, remember
from cutline.privacy import Adjacency, BitTable, Budget
from cutline.privacy.rules.adaptive import adaptive

ADD = Adjacency.ADD_REMOVE


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What the search found, as it is remembered on disk."""

    releases: int
    epsilon: float
    max_k: int
    order: float
    rdp: float
    delta: float
    choice: float | None  # epsilon of choosing, or None for argmax
    gap: int  # the one-gap number it must have

    def __str__(self):
        return f"{self.releases} releases"

    @property
    def mechanism(self):
        return StableTopK(
            preference=Preference(max_k=self.max_k),
            chooser=GapArgmax() if self.choice is None else GapExponential(epsilon=self.choice),
            test=TableTest(table=BitTable.stability(order=self.order, rdp=self.rdp, delta=self.delta)),
            adjacency=ADD,
            budget=Budget(epsilon=self.epsilon, delta=1e-6, releases=self.releases),
        )


PLANNED = [
    Planned(
        releases=10,
        epsilon=1.0,
        max_k=100,
        order=19.217848398919887,
        rdp=0.014252304594587026,
        delta=9.25402237587571e-09,
        choice=0.12389604935613557,
        gap=115,
    ),
    Planned(
        releases=100,
        epsilon=1.0,
        max_k=100,
        order=17.614873356416044,
        rdp=0.0042754935549769646,
        delta=2.0057700784944053e-09,
        choice=None,
        gap=306,
    ),
    Planned(
        releases=600,
        epsilon=3.66,
        max_k=39,
        order=6.79248508852499,
        rdp=0.003116563694675127,
        delta=1.8256891556233563e-10,
        choice=None,
        gap=200,
    ),
]


BUDGET = Budget(epsilon=1.0, delta=1e-6, releases=4)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calibrate_planned.cache_clear()
    yield directory()
    calibrate_planned.cache_clear()


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The file that one real search leaves: its name and its text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("found")))
        calibrate_planned.cache_clear()
        calibrate_planned(BUDGET, adjacency=ADD, choices=20, choose="argmax")
        (file,) = directory().iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        return file.name, json.loads(file.read_text())


@pytest.fixture
def kept(cache, found):
    """The same file in a cache of its own."""
    cache.mkdir(parents=True)
    name, plain = found
    (cache / name).write_text(json.dumps(plain))
    return cache / name


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANNED, ids=str)
def test_stored_plans_keep_their_promise_with_the_gaps_we_state(plan):
    mechanism = plan.mechanism
    assert adaptive(mechanism.cost, 1e-6, releases=plan.releases) <= plan.epsilon
    assert one_gap(mechanism.chance, max_k=plan.max_k) <= plan.gap
    together = f"all {plan.releases} releases of this kind together"
    promise = mechanism.release(cutline.OpenHistogram.from_counts({}, max_k=plan.max_k)).guarantee
    assert promise.startswith(f"({plan.epsilon:g}, 1e-06)-DP")
    assert together in promise


class TestTheSearch:
    def test_it_finds_smaller_gaps_within_the_budget(self, kept):
        usual, planned = (
            StableTopK.calibrate(BUDGET, max_k=20, choose="argmax", accounting=a) for a in ("renyi", "adaptive")
        )
        assert BUDGET.fits(planned.cost)
        assert 0.9999 < adaptive(planned.cost, 1e-6, releases=4) <= 1.0
        gaps = [one_gap(mechanism.chance, max_k=20) for mechanism in (usual, planned)]
        assert gaps[1] <= gaps[0]
        assert planned.test.table != usual.test.table

    @pytest.mark.slow
    def test_k_drawn_under_replace(self, cache):
        planned = StableTopK.calibrate(
            Budget(epsilon=2.0, delta=1e-4, releases=2),
            adjacency=Adjacency.REPLACE,
            max_k=5,
            choose="em",
            accounting="adaptive",
        )
        assert 1.9998 < adaptive(planned.cost, 1e-4, releases=2) <= 2.0
        assert planned.chooser.epsilon > 0

    @pytest.mark.parametrize(("factor", "taken"), [(0.98, True), (1.0, True), (1.05, False)])
    def test_what_is_remembered_is_checked_before_use(self, kept, factor, taken):
        """A foreign file that is a little dearer than the budget is found out; one that wastes some of it is taken."""
        plain = json.loads(kept.read_text())
        plain["found"]["rdp"] *= factor
        kept.write_text(json.dumps(plain))
        _, test = calibrate_planned(BUDGET, adjacency=ADD, choices=20, choose="argmax")
        assert adaptive(test.cost(ADD), 1e-6, releases=4) <= 1.0
        assert (json.loads(kept.read_text()) == plain) == taken

    def test_only_what_the_rule_prices_is_taken(self, cache):
        for wrong in ({"choose": "rnm-laplace"}, {"test": "gaussian"}, {"accounting": "exact"}):
            with pytest.raises(ParameterError):
                StableTopK.calibrate(BUDGET, max_k=20, **({"accounting": "adaptive"} | wrong))

    def test_a_budget_for_nothing_is_refused(self, cache):
        with pytest.raises(BudgetError):
            StableTopK.calibrate(
                Budget(epsilon=1e-9, delta=1e-12, releases=10**6), choose="argmax", accounting="adaptive"
            )


class TestRemembering:
    def ask(self, searches):
        def search():
            searches.append(1)
            return {"root": 2.0**0.5}

        return remember(
            {"kind": "a root", "of": 2.0},
            search=search,
            build=lambda found: found["root"],
            fits=lambda r: 0 < r * r <= 2.001,
        )

    def test_a_search_is_made_once(self, cache):
        searches = []
        assert self.ask(searches) == self.ask(searches) == 2.0**0.5
        assert len(searches) == 1

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "[]",
            "null",
            '{"version": 1}',
            '{"version": 1, "asked": {"kind": "a root", "of": 2.0}, "found": {}}',
            '{"version": 1, "asked": {"kind": "a root", "of": 2.0}, "found": {"root": 9.0}}',
            '{"version": 1, "asked": {"kind": "a root", "of": 2.0}, "found": {"root": NaN}}',
            '{"version": 1, "asked": {"kind": "a root", "of": 2.0}, "found": {"root": "1.4"}}',
            '{"version": 1, "asked": {"kind": "a root", "of": 3.0}, "found": {"root": 1.4}}',
            '{"version": 0, "asked": {"kind": "a root", "of": 2.0}, "found": {"root": 1.4}}',
            "[" * 5000,
        ],
    )
    def test_what_is_damaged_or_foreign_is_searched_again(self, cache, text):
        searches = []
        self.ask(searches)
        (file,) = cache.iterdir()
        file.write_text(text)
        assert self.ask(searches) == 2.0**0.5
        assert len(searches) == 2
        assert self.ask(searches) == 2.0**0.5  # and written anew
        assert len(searches) == 2

    def test_a_directory_that_cannot_be_written_is_no_reason_to_fail(self, tmp_path, monkeypatch):
        (tmp_path / "cutline").write_text("a file where the directory would be")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        searches = []
        assert self.ask(searches) == self.ask(searches) == 2.0**0.5
        assert len(searches) == 2

    def test_a_relative_cache_directory_is_ignored(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", "here")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert directory() == tmp_path / ".cache" / "cutline" / "calibrations"


class TestItIsNoFilter:
    def test_a_ledger_refuses_it_before_anything_is_charged(self, tmp_path):
        with Ledger(tmp_path / "books.db") as books:
            books.create("visits", budget=BUDGET, owner="the owner")
            with pytest.raises(BudgetError, match="no filter"):
                cutline.quote(ledger=books, dataset="visits", accounting="adaptive")
            assert books.history("visits") == []

    def test_limits_refuse_it(self):
        limits = BUDGET.filter(order=20.0, delta_share=0.2)
        with pytest.raises(BudgetError, match="no filter"):
            StableTopK.calibrate(BUDGET, limits=limits, accounting="adaptive")

    @pytest.mark.parametrize("more", [{"counts": True}, {"user": "u", "item": "i", "by": "day", "groups": ["mon"]}])
    def test_counts_and_tables_by_groups_refuse_it(self, more):
        with pytest.raises(ParameterError, match="single releases"):
            cutline.quote(accounting="adaptive", **more)

    def test_other_mechanisms_do_not_take_it(self):
        with pytest.raises(ParameterError, match="accounting"):
            cutline.quote(k=3, mechanism="limited-domain", accounting="adaptive")


def test_a_quote_says_what_the_plan_is_promised(kept):
    asked = cutline.quote(releases=4, max_k=20, choose="argmax", accounting="adaptive")
    assert asked.guarantee.startswith("(1, 1e-06)-DP for one user joining or leaving; covers all 4 releases")
    assert asked.run({"castle": 900, "harbour": 880, "kiosk": 12}).listed() == ["castle", "harbour"]
