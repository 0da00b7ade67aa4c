import gc
import pickle
import struct
import warnings
import weakref
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from cutline.errors import AdjacencyError, BudgetError, LedgerUnavailable, ParameterError, UnsettledError
from cutline.ledger import Ledger
from cutline.pate import AGGREGATORS, OptimalVote
from cutline.pate.classifier import PATEClassifier
from cutline.pate.labels import Labelled, two_steps
from cutline.pate.partition import assign, row_bytes
from cutline.pate.student import LabelWarning
from cutline.privacy import Adjacency, Budget

rng = np.random.default_rng(2)
X = rng.normal(size=(900, 4))
Y = (X[:, :3] + 0.2 * rng.normal(size=(900, 3)) > 0).astype(int)
PRIVATE, PUBLIC, HELD_OUT = slice(0, 600), slice(600, 700), slice(700, 900)
MARK = 1234567.890625  # exact in binary: its eight bytes can be looked for


def model(**changed):
    given = {
        "teacher": DecisionTreeClassifier(max_depth=3),
        "n_teachers": 30,
        "epsilon": 8.0,
        "noise_seed": 1,
        "random_state": 0,
    }
    return PATEClassifier(**(given | changed))


def fitted(private=PRIVATE, *, x=X, y=Y, groups=None, **changed):
    return model(**changed).fit(x[private], y[private], X_public=x[PUBLIC], groups=groups)


def test_a_student_learns_from_private_labels():
    student = fitted(student=LogisticRegression())
    assert student.labelled_ == Labelled(answered=100, withheld=0, partly=0)
    assert (student.predict(X[HELD_OUT]) == Y[HELD_OUT]).mean() > 0.8
    assert student.predict_proba(X[HELD_OUT]).shape == (200, 3)
    assert len(student.classes_) == 3
    assert student.n_features_in_ == 4
    assert student.score(X[HELD_OUT], Y[HELD_OUT]) > 0.5


def test_one_label_may_come_as_a_vector():
    student = fitted(y=Y[:, 0])
    assert student.predict(X[HELD_OUT]).shape == (200,)
    assert student.predict_proba(X[HELD_OUT]).shape == (200, 2)
    assert student.classes_.tolist() == [0, 1]
    column = fitted(y=Y[:, :1])
    assert column.predict(X[HELD_OUT]).tolist() == student.predict(X[HELD_OUT])[:, None].tolist()


def test_probabilities_are_there_only_if_the_student_has_them():
    assert hasattr(model(student=LogisticRegression()), "predict_proba")
    assert not hasattr(model(student=RidgeClassifier()), "predict_proba")


@pytest.mark.slow
def test_frames_and_sparse_matrices():
    frame = pd.DataFrame(X, columns=list("abcd"))
    student = model().fit(frame[PRIVATE], pd.DataFrame(Y)[PRIVATE], X_public=frame[PUBLIC])
    assert student.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert (student.labels_.values == fitted().labels_.values).all()
    dense = fitted().labels_.values
    for private, public in [(csr_array(X), csr_array(X)), (csr_array(X), X), (X, csr_array(X))]:
        sparse = model().fit(private[PRIVATE], Y[PRIVATE], X_public=public[PUBLIC])
        assert (sparse.labels_.values == dense).all()


def test_parameters_are_stored_and_cloned():
    original = model(limit=2, partition_key=b"key")
    assert clone(original).get_params(deep=False).keys() == original.get_params(deep=False).keys()
    assert clone(original).limit == 2
    assert original.set_params(teacher__max_depth=5).teacher.max_depth == 5


def test_the_sentence_is_about_records():
    student = fitted()
    assert (student.privacy_.epsilon, student.privacy_.delta, student.privacy_.queries) == (8.0, 1e-6, 100)
    sentence = str(student.privacy_)
    assert sentence.startswith(
        "(8, 1e-06)-DP for one record joining or leaving, or its labels changing, which changes one teacher's ballot; "
        "(16, 0.00299)-DP for one record replaced by another, which can change two."
    )
    assert "a simulation, not a release" in sentence
    assert "a simulation" not in str(fitted(noise_seed=None).privacy_)


def test_the_sentence_with_ids_and_under_the_papers_relation():
    ids = np.arange(600) // 4
    person = fitted(groups=ids)
    assert str(person.privacy_).startswith("(8, 1e-06)-DP for all records of one id joining, leaving or changing")
    assert person.privacy_.unit == "group"
    paper = fitted(adjacency="add-remove")
    assert "as in the paper" in str(paper.privacy_)
    assert "one record joining or leaving can change a ballot arbitrarily" in str(paper.privacy_)
    assert "(16, 0.00299)-DP" in str(paper.privacy_)


def test_two_steps_are_never_stated_too_small():
    for epsilon in (0.01, 1.0, 3.66, 20.0):
        total, delta = two_steps(epsilon, 1e-6)
        assert total == 2 * epsilon
        assert delta >= min(1.0, 1e-6 * (1 + np.exp(np.longdouble(epsilon))))
    assert two_steps(5000.0, 1e-6) == (10000.0, 1.0)


class Spy(OptimalVote):
    """Keeps the votes, for the tests that must look at them."""

    seen: list = []  # noqa: RUF012

    def release(self, votes, *, rng=None):
        Spy.seen.append(votes.copy())
        return super().release(votes, rng=rng)


def votes_of(private, y, groups=None, **changed):
    vote = Spy.calibrate(Budget(epsilon=8.0, delta=1e-6, releases=100), teachers=30, labels=3)
    spied = model(aggregator=vote, partition_key=b"key", student=DummyClassifier(), **changed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)
        spied.fit(private, y, X_public=X[PUBLIC], groups=groups)
    return Spy.seen.pop()


@pytest.mark.parametrize("place", [0, 7, 599])
def test_one_record_less_moves_each_count_by_at_most_one(place):
    rows = np.delete(np.arange(600), place)
    moved = votes_of(X[PRIVATE], Y[PRIVATE]) - votes_of(X[rows], Y[rows])
    assert abs(moved).max() <= 1


def test_one_record_replaced_can_move_a_count_by_two():
    """The two-teacher case: so the sentence for a replaced record must be the weaker one."""
    rows = np.repeat(np.arange(60.0), 4).reshape(60, 4)
    home = assign(row_bytes(rows), teachers=30, key=b"key")
    alone = int(np.flatnonzero(home != home[0])[0])  # a record at a teacher of its own
    rival = int(np.flatnonzero(home[1:] == home[0])[0]) + 1  # one that joins the first record's teacher
    yes, no = np.ones((1, 3), dtype=int), np.zeros((1, 3), dtype=int)
    frank = DummyClassifier(strategy="most_frequent")  # says what most of its records say, no if they are even
    before = votes_of(rows[[0, alone]], np.vstack([yes, yes]), teacher=frank)
    after = votes_of(rows[[0, rival]], np.vstack([yes, no]), teacher=frank)
    assert (before == 2).all()  # two teachers with one record each
    assert (after == 0).all()  # one has lost its record, the other is outvoted by the new one
    by_id = [
        votes_of(rows[[0, other]], np.vstack([yes, last]), groups=["ana", "bo"], teacher=frank)
        for other, last in ((alone, yes), (rival, no))
    ]
    assert abs(by_id[0] - by_id[1]).max() == 1


def test_a_person_with_many_records_moves_each_count_by_at_most_one():
    ids = np.arange(600) // 100
    whole = votes_of(X[PRIVATE], Y[PRIVATE], groups=ids)
    for person in (0, 5):
        kept = ids != person
        assert abs(whole - votes_of(X[PRIVATE][kept], Y[PRIVATE][kept], groups=ids[kept])).max() <= 1
        flipped = np.where(kept[:, None], Y[PRIVATE], 1 - Y[PRIVATE])
        assert abs(whole - votes_of(X[PRIVATE], flipped, groups=ids)).max() <= 1
    by_record = votes_of(X[PRIVATE], np.where((ids != 0)[:, None], Y[PRIVATE], 1 - Y[PRIVATE]))
    assert abs(votes_of(X[PRIVATE], Y[PRIVATE]) - by_record).max() > 1  # without ids a person reaches many teachers


def test_no_record_and_few_records_run_the_same_path():
    empty = votes_of(np.empty((0, 4)), np.empty((0, 3)))
    assert not empty.any()
    one = votes_of(X[:1], np.ones((1, 3), dtype=int))
    assert (one == 1).all()


def test_useless_records_change_nothing_and_nobody_is_told():
    odd = np.vstack([X[PRIVATE], [[np.nan] * 4], [[np.inf] * 4], np.zeros((1, 4))])
    labels = np.vstack([Y[PRIVATE], [[1, 1, 1]], [[1, 1, 1]], [[7, 0, 0]]])
    with_them = model().fit(odd, labels, X_public=X[PUBLIC])
    assert (with_them.labels_.values == fitted().labels_.values).all()


def reachable(thing):
    """Every object that can be reached from a thing, its class and modules aside."""
    seen, waiting = {}, [thing]
    while waiting:
        here = waiting.pop()
        if id(here) in seen or isinstance(here, type) or type(here).__name__ in ("module", "function"):
            continue
        seen[id(here)] = here
        waiting.extend(gc.get_referents(here))
        if isinstance(here, np.ndarray) and here.base is not None:
            waiting.append(here.base)
    return seen.values()


def holds_mark(thing):
    return any(
        isinstance(each, np.ndarray) and each.dtype.kind == "f" and (each == MARK).any() for each in reachable(thing)
    )


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_only_the_student_leaves(n_jobs):
    class Array(np.ndarray):
        """An array that can be seen to go."""

    private = X[PRIVATE].copy().view(Array)
    private[::7, 2] = MARK
    person = "a very private name"
    names = np.array([f"{person} {i}" for i in range(600)], dtype=object)  # many: every teacher gets some
    student = model(n_jobs=n_jobs, noise_seed=None, teacher=KNeighborsClassifier(3), student=LogisticRegression())
    student.fit(private, Y[PRIVATE], X_public=X[PUBLIC], groups=names)
    pickled = pickle.dumps(student)
    assert struct.pack("<d", MARK) not in pickled
    assert person.encode() not in pickled
    assert b"KNeighborsClassifier" in pickled  # the template, as it was given: it holds nothing
    assert not holds_mark(student)
    assert str(int(MARK)) not in repr(student) + repr(vars(student)) + str(student.privacy_)
    gone = weakref.ref(private)
    del private
    gc.collect()
    assert gone() is None
    assert (pickle.loads(pickled).predict(X[HELD_OUT]) == student.predict(X[HELD_OUT])).all()


def test_the_searches_above_find_what_is_there():
    kept = X[PRIVATE].copy()
    kept[0, 0] = MARK
    teacher = KNeighborsClassifier(3).fit(kept, Y[PRIVATE])
    assert struct.pack("<d", MARK) in pickle.dumps(teacher)
    assert holds_mark(teacher)


def test_the_aggregator_may_be_the_callers_own():
    vote = OptimalVote.calibrate(Budget(epsilon=2.0, delta=1e-6, releases=100), teachers=30, labels=3)
    assert fitted(aggregator=vote).aggregator_ is vote
    assert fitted(aggregator=vote, epsilon=0.1).privacy_.epsilon == 2.0
    assert fitted(limit=2).aggregator_.limit == 2


def test_a_stable_aggregator_withholds_and_the_student_copes():
    student = fitted(aggregator="stable-majority", epsilon=60.0)
    numbers = student.labelled_
    assert numbers.answered + numbers.withheld + numbers.partly == 100
    assert numbers.withheld > 0
    assert numbers.answered > 0
    assert (student.predict(X[HELD_OUT]) == Y[HELD_OUT]).mean() > 0.7


@pytest.mark.filterwarnings("ignore::cutline.pate.student.LabelWarning")
@pytest.mark.parametrize("name", [kind.name for kind in AGGREGATORS])
def test_every_aggregator_can_count(name):
    needed = {"limit": 2} if name == "pate-tau" else {}
    student = model(aggregator=name, n_teachers=8, epsilon=100.0, **needed)
    student.fit(X[:80], Y[:80], X_public=X[600:620])
    assert student.aggregator_.name == name
    assert student.labels_.values.shape == (20, 3)
    assert student.predict(X[HELD_OUT]).shape == (200, 3)


@pytest.mark.slow
def test_equal_seeds_give_equal_students_and_the_system_gives_others():
    one, same, other = fitted(), fitted(), fitted(noise_seed=2)
    assert (one.labels_.values == same.labels_.values).all()
    assert (one.labels_.values != other.labels_.values).any()
    free, again = fitted(noise_seed=None, epsilon=1.0), fitted(noise_seed=None, epsilon=1.0)
    assert not free.labels_.seeded
    assert (free.labels_.values != again.labels_.values).any()  # random_state=0 does not seed the noise


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"n_teachers": 0}, "n_teachers must be a whole number"),
        ({"n_teachers": 2.5}, "n_teachers must be a whole number"),
        ({"n_teachers": Decimal(30)}, "n_teachers must be a whole number"),
        ({"n_teachers": 2**63}, "n_teachers must be at most"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"n_jobs": 1.5}, "n_jobs must be"),
        ({"n_jobs": "2"}, "n_jobs must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"random_state": Decimal(3)}, "random_state must be"),
        ({"limit": Decimal(2)}, "limit must be a whole number"),
        ({"aggregator": 7}, "registered name, or an Aggregator"),
        ({"missing": np.array(["skip", "mark"])}, "missing must be skip or mark"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 2.0}, "delta"),
        ({"adjacency": "both"}, "adjacency must be"),
        ({"aggregator": "pate-tau"}, "must be told a ballot limit"),
        ({"aggregator": "gnmax", "limit": 2}, "takes no ballot limit"),
        ({"aggregator": "majority"}, "aggregator must be a registered one"),
        ({"teacher": LinearRegression()}, "teacher must be a classifier"),
        ({"student": LinearRegression()}, "student must be a classifier"),
        ({"teacher": LogisticRegression(verbose=1)}, "must not print.*got verbose=1. Set verbose=0."),
        ({"teacher": make_pipeline(StandardScaler(), GaussianNB(), memory="somewhere")}, "must not keep"),
        ({"groups": np.zeros((600, 2))}, "one id a record"),
        ({"groups": ["ana"]}, "one row a record each"),
        ({"teacher": LogisticRegression(C=-1)}, "teacher must be able to learn"),
        ({"missing": "drop"}, "missing must be skip or mark"),
        ({"partition_key": "text"}, "partition_key must be"),
        ({"partition_key": b"x" * 65}, "partition_key must be"),
        ({"noise_seed": -1}, "seed must be"),
        (
            {
                "n_teachers": 31,
                "aggregator": OptimalVote.calibrate(Budget(epsilon=1, delta=1e-6), teachers=30, labels=3),
            },
            "made for",
        ),
    ],
)
def test_public_mistakes_are_refused_before_a_record_is_seen(changed, rule, monkeypatch):
    def never(*_, **__):
        raise AssertionError("records were read")

    monkeypatch.setattr("cutline.pate.teachers.read_records", never)
    with pytest.raises(ParameterError, match=rule):
        fitted(**changed)


def test_labels_that_went_out_are_kept_though_the_student_fails():
    class Overwhelmed(DummyClassifier):
        def fit(self, X, y):
            if len(X) > 64:  # more than in a rehearsal
                raise MemoryError
            return super().fit(X, y)

    again = fitted()
    with pytest.raises(MemoryError):
        again.set_params(student=Overwhelmed(), noise_seed=2).fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC][:70])
    assert (again.labels_.queries, again.privacy_.queries) == (70, 70)
    with pytest.raises(NotFittedError):  # and not with the student of other labels
        again.predict(X[HELD_OUT])


def test_teachers_may_be_counted_in_any_whole_number():
    wide, narrow = fitted(n_teachers=255), fitted(n_teachers=np.uint8(255))
    assert (narrow.labels_.values == wide.labels_.values).all()


def test_examples_of_two_types_meet_in_one_and_of_two_shapes_are_refused():
    narrow = X.astype(np.float32)
    assert fitted(x=narrow).student_.models[0][1].predict_proba(narrow[:1]).shape == (1, 2)
    mixed = model().fit(X[PRIVATE], Y[PRIVATE], X_public=narrow[PUBLIC])
    assert (mixed.labels_.values == fitted(x=narrow.astype(np.float64)).labels_.values).mean() > 0.9
    images = np.zeros((50, 2, 3, 3), dtype=np.uint8)
    with pytest.raises(ParameterError, match="must have one shape"):
        model().fit(images, [0, 1] * 25, X_public=images[:, :, :2])


def test_a_student_that_cannot_learn_such_examples_is_refused_before_anything_is_paid(monkeypatch):
    def never(*_, **__):
        raise AssertionError

    class Flat(DecisionTreeClassifier):
        def fit(self, X, y):
            return super().fit(X.reshape(len(X), -1), y)

        def predict(self, X):
            return super().predict(X.reshape(len(X), -1))

    images = np.random.default_rng(0).integers(0, 9, (50, 2, 3, 3)).astype(np.uint8)
    assert model(teacher=Flat(), student=Flat()).fit(images, [0, 1] * 25, X_public=images[:20]).labels_.queries == 20
    monkeypatch.setattr("cutline.pate.teachers.read_records", never)
    with pytest.raises(ParameterError, match="the student must be able to learn"):
        model(teacher=Flat()).fit(images, [0, 1] * 25, X_public=images[:20])


def test_public_examples_must_fit():
    with pytest.raises(ParameterError, match="needs public examples"):
        model().fit(X, Y)
    with pytest.raises(ValueError, match="features"):
        model().fit(X, Y, X_public=X[:, :2])
    with pytest.raises(ValueError, match="minimum of 1"):
        model().fit(X, Y, X_public=X[:0])
    with pytest.raises(ValueError, match="NaN"):
        model().fit(X, Y, X_public=np.full((3, 4), np.nan))


@pytest.fixture
def books(tmp_path):
    budget = Budget(epsilon=8.0, delta=1e-6, releases=1)
    with Ledger(tmp_path / "books.db") as ledger:
        limits = budget.filter(order=4.0, delta_share=0.25)
        ledger.create("patients", budget=budget, limits=limits, adjacency=Adjacency.REPLACE, owner="Ana")
        yield ledger


def paid(books, **changed):
    given = {"noise_seed": None, "epsilon": 4.0} | changed
    return model(**given).fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC], ledger=books, dataset="patients")


def test_labels_are_charged_to_a_ledger(books):
    student = paid(books)
    [entry] = books.history("patients")
    assert student.labels_.cost == 100 * student.aggregator_.cost
    assert float(entry.settled.rdp) == pytest.approx(student.labels_.cost.rdp(4.0), rel=1e-12)
    assert entry.mechanism["queries"] == 100
    assert student.privacy_.epsilon == 4.0
    spent = books.show("patients").spent
    assert float(spent.rdp) == pytest.approx(
        Budget(epsilon=4.0, delta=1e-6).filter(order=4.0, delta_share=0.25).rdp, rel=1e-6
    )


def test_a_share_and_a_purpose_go_on_the_books(books):
    half = model(epsilon=None, noise_seed=None)
    given = {"X_public": X[PUBLIC], "ledger": books, "dataset": "patients", "share": "1/2", "purpose": "a student"}
    half.fit(X[PRIVATE], Y[PRIVATE], **given).fit(X[PRIVATE], Y[PRIVATE], **given)
    assert [entry.purpose for entry in books.history("patients")] == ["a student"] * 2
    with pytest.raises(BudgetError):
        half.fit(X[PRIVATE], Y[PRIVATE], **given)


def test_accounting_is_that_of_label(books):
    given = {"X_public": X[PUBLIC][:2], "ledger": books, "dataset": "patients"}
    with pytest.raises(BudgetError, match="adaptive accounting"):
        model(epsilon=None, noise_seed=None, accounting="adaptive").fit(X[PRIVATE], Y[PRIVATE], **given)


def test_a_ledger_that_cannot_pay_refuses_before_a_record_is_seen(books, monkeypatch):
    paid(books)

    def never(*_, **__):
        raise AssertionError("records were read")

    monkeypatch.setattr("cutline.pate.teachers.read_records", never)
    with pytest.raises(BudgetError, match="budget"):
        paid(books, epsilon=8.0)
    with pytest.raises(AdjacencyError):
        paid(books, adjacency="add-remove")
    with pytest.raises(ParameterError, match="not simulations"):
        paid(books, noise_seed=1)
    with pytest.raises(ParameterError, match="go together"):
        model().fit(X, Y, X_public=X[PUBLIC], dataset="patients")
    assert len(books.history("patients")) == 1


def test_labels_that_were_paid_for_are_used_though_the_books_broke_down(books, monkeypatch):
    def broken(*_, **__):
        raise LedgerUnavailable("the disk is full", "", "Make room.")

    monkeypatch.setattr("cutline.ledger.charging.settle", broken)
    student = model(noise_seed=None, epsilon=4.0)
    with pytest.raises(UnsettledError, match="charged in full"):
        student.fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC], ledger=books, dataset="patients")
    assert student.predict(X[HELD_OUT]).shape == (200, 3)
    assert student.privacy_.epsilon == 4.0
