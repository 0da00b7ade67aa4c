"""What one release may take of a dataset, what is charged and refunded, and the numbers in a refusal."""

import re
from fractions import Fraction

import pytest

from cutline.errors import AdjacencyError, BudgetError, ParameterError, SettlementError
from cutline.ledger import Ledger, allowance, usual_filter
from cutline.ledger.account import Sums, charge
from cutline.mechanisms import MECHANISMS, StableTopK
from cutline.mechanisms.one_gap import one_gap
from cutline.privacy import Adjacency, BitTable, BoundedRange, Budget, Cost, Filter

BUDGET = Budget(epsilon=2.0, delta=1e-6, releases=10)
HOW = {"name": "test", "max_k": 3}
FILTER = Budget(epsilon=1.0, delta=1e-6, releases=10).filter(order=16.0, delta_share=0.25)  # of the fixture `ledger`


@pytest.fixture(scope="module")
def limits():
    return usual_filter(BUDGET)


@pytest.fixture
def books(tmp_path, limits):
    with Ledger(tmp_path / "books.db") as ledger:
        ledger.create("visits", budget=BUDGET, limits=limits, owner="ann")
        yield ledger


def test_the_usual_filter_costs_no_accuracy(limits):
    free = StableTopK.calibrate(BUDGET)
    held = StableTopK.calibrate(BUDGET, limits=limits)
    assert BUDGET.covers(limits)
    gaps = [one_gap(ready.chance, max_k=100) for ready in (free, held)]
    assert gaps[1] <= 1.02 * gaps[0]


@pytest.mark.parametrize("kind", MECHANISMS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_every_mechanism_takes_its_share_and_no_more(limits, kind, adjacency):
    """What makes "ten releases of the usual kind" true: a tenth, at the ledger's order, on both sums."""
    offered = {"k": 3, "max_k": 20, "candidates": 30, "max_items_per_user": 10}
    told = {key: value for key, value in offered.items() if kind.accepts(key)}
    ready = kind.calibrate(BUDGET, limits=limits, adjacency=adjacency, **told)
    taken = charge(ready.cost, limits.order)
    assert 10 * taken.rdp <= Fraction(limits.rdp)
    assert 10 * taken.delta <= Fraction(limits.delta)
    assert taken.rdp > 0


def test_without_numbers_a_release_takes_one_of_the_datasets_releases(books, limits):
    account = books.show("visits")
    assert allowance(account) == (BUDGET, limits)
    assert allowance(account, releases=40) == (Budget(epsilon=2.0, delta=1e-6, releases=40), limits)


def test_a_share_is_that_part_of_both_limits(books, limits):
    account = books.show("visits")
    assert allowance(account, share=Fraction(1, 40)) == allowance(account, releases=40)
    for share in (Fraction(1), Fraction(2, 3), Fraction(3, 20), Fraction(1, 7), Fraction(999, 10**7)):
        taken, whole = _taken(account, share=share), account.limits
        for part, limit in ((taken.rdp, whole.rdp), (taken.delta, whole.delta)):
            assert part <= share * limit
            assert float(part) == pytest.approx(float(share * limit), rel=1e-15)
    budget, mine = allowance(account, share=Fraction(3, 20))
    assert (budget.epsilon, budget.delta, budget.releases) == (2.0, 1e-6, 6)
    ready = StableTopK.calibrate(budget, limits=mine, max_k=20)
    assert 0.14 * limits.rdp < ready.cost.rdp(limits.order) <= 0.15 * limits.rdp
    for other in ({"epsilon": 1.5}, {"delta": 1e-7}, {"releases": 3}):
        with pytest.raises(ParameterError, match="stands for"):
            allowance(account, share=Fraction(1, 7), **other)


@pytest.mark.parametrize(("epsilon", "delta", "releases"), [(1.5, None, None), (1.2, 1e-7, 1), (1.9, 5e-7, 4)])
def test_an_epsilon_becomes_limits_at_the_datasets_order(books, limits, epsilon, delta, releases):
    budget, mine = allowance(books.show("visits"), epsilon=epsilon, delta=delta, releases=releases)
    assert (budget.epsilon, budget.delta, budget.releases) == (epsilon, delta or 1e-6, releases or 1)
    assert mine.order == limits.order
    assert budget.covers(mine)
    assert mine.delta <= limits.delta * budget.releases / 10
    ready = StableTopK.calibrate(budget, limits=mine, max_k=20)
    assert budget.fits(ready.cost)
    books.reserve(ready.cost, dataset="visits", mechanism=ready.describe())


def test_an_epsilon_that_the_order_cannot_state(books):
    account = books.show("visits")
    with pytest.raises(BudgetError, match="must be above") as refused:
        allowance(account, epsilon=0.05)
    assert "order" not in str(refused.value)
    assert "share='1/10'" in refused.value.way_out
    least = float(re.search(r"above ([\d.]+)", str(refused.value))[1])
    allowance(account, epsilon=1.02 * least)
    with pytest.raises(BudgetError):
        allowance(account, epsilon=0.98 * least)
    with pytest.raises(ParameterError, match="goes with an epsilon"):
        allowance(account, delta=1e-7)
    for wrong in ({"epsilon": float("nan")}, {"releases": 0}, {"epsilon": 1.5, "delta": 0.0}):
        with pytest.raises(ParameterError):
            allowance(account, **wrong)


@pytest.mark.parametrize("used", [0.0, 0.3, 0.55])
def test_the_numbers_of_a_refusal_are_right(books, limits, used):
    """The epsilon and the part that the message names are admitted when asked for; a little more is not."""
    if used:
        curve = BoundedRange.within(order=limits.order, rdp=used * limits.rdp)
        spent = Cost.of(curve, adjacency=Adjacency.ADD_REMOVE, delta=used * limits.delta)
        books.reserve(spent, dataset="visits", mechanism={"name": "before"})
    dear = Cost.of(BoundedRange(epsilon=9.0), adjacency=Adjacency.ADD_REMOVE)
    with pytest.raises(BudgetError) as refused:
        books.reserve(dear, dataset="visits", mechanism={"name": "dear"})
    words = str(refused.value)
    account = books.show("visits")
    needed, left = (float(number) for number in re.search(r"got (\S+) % of it, with (\S+) % left", words).groups())
    assert needed == pytest.approx(100 * dear.rdp(limits.order) / limits.rdp, abs=0.11)
    assert left == pytest.approx(100 * (1 - used), abs=0.11)
    assert left <= 100 * account.left.rdp / account.limits.rdp
    assert "rdp" not in words
    epsilon = float(re.search(r"largest epsilon that fits is (\S+) at", words)[1])
    part = int(re.search(r"fits: share='1/(\d+)'", words)[1])
    assert _taken(account, epsilon=epsilon).within(account.left)
    assert not _taken(account, epsilon=epsilon + 0.002).within(account.left)
    assert _taken(account, share=Fraction(1, part)).within(account.left)
    assert part == 1 or not _taken(account, share=Fraction(1, part - 1)).within(account.left)


def _taken(account, **asked):
    """Both limits of one release, as it may use them up."""
    budget, limits = allowance(account, **asked)
    whole = Sums.from_filter(limits)
    return Sums(rdp=whole.rdp / budget.releases, delta=whole.delta / budget.releases)


def test_a_refusal_when_nothing_fits(tmp_path):
    budget = Budget(epsilon=1.0, delta=1e-6)
    limits = budget.filter(order=16.0, delta_share=0.25)
    with Ledger(tmp_path / "books.db") as ledger:
        ledger.create("visits", budget=budget, limits=limits, owner="ann")
        whole = BoundedRange.within(order=16.0, rdp=limits.rdp)
        ledger.reserve(
            Cost.of(whole, adjacency=Adjacency.ADD_REMOVE, delta=limits.delta), dataset="visits", mechanism={}
        )
        with pytest.raises(BudgetError, match="No epsilon fits"):
            ledger.reserve(
                Cost.of(BoundedRange(epsilon=0.1), adjacency=Adjacency.ADD_REMOVE), dataset="visits", mechanism={}
            )


def test_a_filter_without_delta_keeps_counting_releases(tmp_path):
    with Ledger(tmp_path / "books.db") as ledger:
        limits = Filter(order=16.0, rdp=0.1, delta=0.0)
        ledger.create("visits", budget=Budget(epsilon=1.0, delta=1e-6, releases=4), limits=limits, owner="ann")
        quarter = Cost.of(BoundedRange.within(order=16.0, rdp=0.025), adjacency=Adjacency.ADD_REMOVE)
        ledger.reserve(quarter, dataset="visits", mechanism={})
        account = ledger.show("visits")
        assert (account.remaining_releases, account.used["delta"]) == (3, 0.0)


def test_exactly_ten_tenths_fit(ledger, cost, ran):
    for left in range(9, -1, -1):
        ledger.settle(ledger.reserve(cost, dataset="visits", mechanism=HOW), ran(cost))
        assert ledger.show("visits").remaining_releases == left
    with pytest.raises(BudgetError):
        ledger.reserve(cost, dataset="visits", mechanism=HOW)
    account = ledger.show("visits")
    assert account.spent == Sums(rdp=10 * charge(cost, 16.0).rdp, delta=10 * charge(cost, 16.0).delta)
    assert account.entries == len(ledger.history("visits")) == 10
    assert 99.9 < account.used["rdp"] <= 100


def test_settling_takes_off_exactly_what_reserving_put_on(ledger, cost, cheaper, ran):
    first = ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")
    second = ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")
    assert ledger.show("visits").spent == charge(cost, 16.0) + charge(cost, 16.0)
    ledger.settle(first, ran(cheaper))
    account = ledger.show("visits")
    assert account.spent == charge(cost, 16.0) + charge(cheaper, 16.0)
    assert account.analysts[0].spent == account.spent
    ledger.settle(second, ran(Cost(adjacency=Adjacency.ADD_REMOVE)))
    account = ledger.show("visits")
    assert account.spent == account.analysts[0].spent == charge(cheaper, 16.0)


@pytest.mark.parametrize("refunded", [True, False])
def test_settling_returns_the_account_as_it_is_then(ledger, cost, cheaper, ran, refunded):
    """Read in the settling transaction: nobody has to open the books again to say what is left."""
    ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="eve")
    reservation = ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")
    settled = ledger.settle(reservation, ran(cheaper if refunded else cost))
    assert settled == ledger.show("visits")
    assert settled.spent == charge(cost, 16.0) + charge(cheaper if refunded else cost, 16.0)
    assert [analyst.name for analyst in settled.analysts] == ["bob", "eve"]
    ledger.reserve(cost, dataset="visits", mechanism=HOW)
    assert settled.entries == ledger.show("visits").entries - 1


@pytest.mark.parametrize("limit", ["rdp", "delta"])
def test_each_sum_has_its_own_limit(ledger, limit):
    rdp, delta = FILTER.rdp / 100, FILTER.delta / 100
    over = Cost.of(
        BoundedRange.within(order=16.0, rdp=2 * FILTER.rdp if limit == "rdp" else rdp),
        adjacency=Adjacency.ADD_REMOVE,
        delta=delta if limit == "rdp" else 1.01 * FILTER.delta,
    )
    with pytest.raises(BudgetError):
        ledger.reserve(over, dataset="visits", mechanism=HOW)


def test_an_infinite_cost_is_refused(ledger):
    """A test that says a certain yes beside an uncertain one has no finite Rényi divergence."""
    endless = Cost.of(BitTable.approximate(epsilon=0.5, delta=1e-9), adjacency=Adjacency.ADD_REMOVE)
    assert endless.rdp(16.0) == float("inf")
    with pytest.raises(BudgetError, match="finite"):
        ledger.reserve(endless, dataset="visits", mechanism=HOW)


def test_what_cannot_be_settled_stays_charged(ledger, cost, cheaper, ran):
    ledger.create("other", budget=BUDGET, limits=FILTER, owner="ann")
    reservation = ledger.reserve(cost, dataset="visits", mechanism=HOW)
    foreign = ledger.reserve(cost, dataset="other", mechanism=HOW)
    swapped = type(foreign)(id=foreign.id, dataset="visits", analyst=None, cost=cost, at=foreign.at)
    dear = Cost.of(BoundedRange(epsilon=3.0), adjacency=Adjacency.ADD_REMOVE)
    wide = Cost(adjacency=Adjacency.ADD_REMOVE, uses=(*cheaper.uses, *cost.uses))
    unknown = type(foreign)(id=10**6, dataset="visits", analyst=None, cost=cost, at=foreign.at)
    impossible = type(foreign)(id=2**70, dataset="visits", analyst=None, cost=cost, at=foreign.at)
    endless = Cost.of(BitTable.approximate(epsilon=0.5, delta=1e-9), adjacency=Adjacency.ADD_REMOVE)
    for given, release, words in (
        (reservation, ran(cost, seeded=True), "simulation"),
        (reservation, ran(cost, seeded=None), "simulation"),
        (reservation, ran(dear), "at most what was reserved"),
        (reservation, ran(wide), "at most what was reserved"),
        (reservation, ran(endless), "at most what was reserved"),
        (reservation, ran(Cost.of(BoundedRange(epsilon=1e-3), adjacency=Adjacency.REPLACE)), "same adjacency"),
        (swapped, ran(cost), "books it was made in"),
        (unknown, ran(cost), "books it was made in"),
        (impossible, ran(cost), "books it was made in"),
    ):
        with pytest.raises(SettlementError, match=words):
            ledger.settle(given, release)
    assert ledger.show("visits").spent == ledger.show("other").spent == charge(cost, 16.0)
    ledger.settle(reservation, ran(cheaper))
    with pytest.raises(SettlementError, match="settled once"):
        ledger.settle(reservation, ran(Cost(adjacency=Adjacency.ADD_REMOVE)))
    assert ledger.show("visits").spent == charge(cheaper, 16.0)


def test_another_adjacency_is_refused(ledger):
    with pytest.raises(AdjacencyError, match="add-remove"):
        ledger.reserve(
            Cost.of(BoundedRange(epsilon=1e-3), adjacency=Adjacency.REPLACE), dataset="visits", mechanism=HOW
        )


def test_limits_per_analyst(ledger, cost):
    ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")
    ledger.limit("visits", "bob", share=0.25)
    ledger.limit("visits", "eve", rdp=0.0, delta=0.0)
    ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")
    with pytest.raises(BudgetError, match="limit of 'bob'"):
        ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")
    with pytest.raises(BudgetError, match="limit of 'eve'"):
        ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="eve")
    with pytest.raises(ParameterError, match="who asks"):
        ledger.reserve(cost, dataset="visits", mechanism=HOW)
    ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="joe")
    account = ledger.show("visits")
    assert account.remaining_releases == 7
    assert {a.name: a.limits is None for a in account.analysts} == {"bob": False, "eve": False, "joe": True}
    ledger.limit("visits", "bob", share=1.0)
    ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")
    for wrong in ({"share": 1.5}, {"share": float("nan")}, {"rdp": 0.1}, {"rdp": 1e9, "delta": 0.0}, {}):
        with pytest.raises(ParameterError, match="share between 0 and 1"):
            ledger.limit("visits", "bob", **wrong)
