r"""One record, one ballot: for every kind of teacher, and whatever the caller has told joblib."""

import random
import threading

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from cutline.verify.teachers import Breach, Table, breaches, cast_ballots, changes

TEACHERS = 5
rng = np.random.default_rng(4)
FEATURES = rng.normal(size=(60, 3))
TABLE = Table(features=FEATURES, labels=(FEATURES[:, :2] + rng.normal(size=(60, 2)) > 0).astype(int))
PUBLIC = rng.normal(size=(40, 3))


class Drawing(ClassifierMixin, BaseEstimator):
    """Votes by what the process's own generators say after one draw a record."""

    def __init__(self, library="numpy"):
        self.library = library

    def fit(self, X, y):
        draw = np.random.random if self.library == "numpy" else random.random
        self.drawn_ = [draw() for _ in range(len(X) + 40)][-40:]
        return self

    def predict(self, X):
        return (np.resize(self.drawn_, len(X)) < 0.5).astype(int)


class Meddling(ClassifierMixin, BaseEstimator):
    """Keeps in numpy's settings whether its records were odd in number, and votes by what it found there."""

    def fit(self, X, y):
        self.strict_ = np.geterr()["divide"] == "raise"
        np.seterr(divide="raise" if len(X) % 2 else "warn")
        return self

    def predict(self, X):
        return np.full(len(X), int(self.strict_))


class Same(ClassifierMixin, BaseEstimator):
    """Says that its clone is itself, and goes on learning where it stopped."""

    def fit(self, X, y):
        self.seen_ = getattr(self, "seen_", 0.0) + X.sum()
        return self

    def predict(self, X):
        return (X[:, 0] < self.seen_ % 1).astype(int)

    def __sklearn_clone__(self):
        return self


KINDS = {
    "logistic": LogisticRegression(),
    "tree": DecisionTreeClassifier(splitter="random"),
    "forest": RandomForestClassifier(n_estimators=2, max_features=1, n_jobs=2),
    "shuffling": GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 3]}, cv=ShuffleSplit(2)),
    "numpy": Drawing("numpy"),
    "random": Drawing("random"),
    "in-place": make_pipeline(StandardScaler(copy=False), LogisticRegression()),
    "warm": LogisticRegression(warm_start=True, max_iter=2),
    "meddling": Meddling(),
    "same": Same(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_one_record_moves_the_ballots_of_its_own_teacher(kind):
    assert breaches(KINDS[kind], TABLE, PUBLIC.copy(), places=(33,), teachers=TEACHERS, key=b"k") == []


def test_a_person_with_an_id_moves_one_ballot_whatever_changes():
    ids = tuple(f"person {row % 30}" for row in range(60))
    people = Table(features=FEATURES, labels=TABLE.labels, ids=ids)
    assert all(len(each.allowed) == 1 for each in changes(people, 7, teachers=TEACHERS, key=b"k"))
    assert breaches(DecisionTreeClassifier(), people, PUBLIC, places=(7,), teachers=TEACHERS, key=b"k") == []


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_ballots_are_the_same_whatever_the_caller_has_told_joblib(backend):
    for kind in ("logistic", "shuffling", "numpy", "random", "in-place", "meddling"):
        here = cast_ballots(KINDS[kind], TABLE, PUBLIC.copy(), teachers=TEACHERS)
        with parallel_config(backend=backend, n_jobs=2, verbose=0):
            there = cast_ballots(KINDS[kind], TABLE, PUBLIC.copy(), teachers=TEACHERS, n_jobs=2)
        assert (here == there).all(), kind
    with parallel_config(backend=backend, n_jobs=2):
        assert breaches(Drawing(), TABLE, PUBLIC, places=(33,), teachers=TEACHERS, key=b"k", n_jobs=2) == []


class Meeting(ClassifierMixin, BaseEstimator):
    """Waits a little for a second teacher to come in, and votes yes if one did."""

    door = threading.Barrier(2)

    def fit(self, X, y):
        self.met_ = True
        try:
            self.door.wait(timeout=0.3)
        except threading.BrokenBarrierError:
            self.met_ = False
            self.door.reset()
        return self

    def predict(self, X):
        return np.full(len(X), int(self.met_))


def test_fits_in_threads_of_the_callers_take_turns():
    table = Table(features=FEATURES, labels=TABLE.labels[:, :1])
    fits = (delayed(cast_ballots)(Meeting(), table, PUBLIC, teachers=1, n_jobs=2) for _ in range(2))
    assert not any(each.any() for each in Parallel(n_jobs=2, backend="threading")(fits))


class Remembering(ClassifierMixin, BaseEstimator):
    """The negative control: keeps something for all its copies, where nobody can put it back."""

    taught = [0.0]  # noqa: RUF012 - that is the point

    def fit(self, X, y):
        self.taught[0] += X.sum()
        self.sum_ = self.taught[0]
        return self

    def predict(self, X):
        return (X[:, 0] < self.sum_ % 1).astype(int)


def test_a_teacher_that_remembers_is_found(monkeypatch):
    def fresh():
        monkeypatch.setattr(Remembering, "taught", [0.0])
        return cast_ballots(Remembering(), TABLE, PUBLIC, teachers=TEACHERS)

    assert (fresh() == fresh()).all()
    monkeypatch.setattr(Remembering, "taught", [0.0])
    found = breaches(Remembering(), TABLE, PUBLIC, places=(0,), teachers=TEACHERS, key=b"k")
    assert all(isinstance(each, Breach) and len(each.changed - each.allowed) >= 1 for each in found)
    assert {each.change for each in found} >= {"record 0 leaves"}
