import os
import random
import warnings

import numpy as np
import pytest
from joblib import Parallel, delayed
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from cutline.errors import EngineError, ParameterError
from cutline.pate import OptimalVote
from cutline.pate.teachers import Shard, Teachers, ballot, count_votes, fit_labels, predict_labels, rehearse
from cutline.privacy import Budget

rng = np.random.default_rng(0)
PUBLIC = rng.normal(size=(30, 4))
FEATURES = rng.normal(size=(120, 4))
TRUTH = (FEATURES[:, :3] > 0).astype(np.int8)
PUBLIC_TRUTH = (PUBLIC[:, :3] > 0).astype(np.int8)

TEACHERS = [
    DecisionTreeClassifier(),
    RandomForestClassifier(n_estimators=5),
    KNeighborsClassifier(),
    MLPClassifier((8,), solver="lbfgs", max_iter=50),
    LogisticRegression(),
    GaussianNB(),
    RidgeClassifier(),
    make_pipeline(StandardScaler(), LogisticRegression()),
]


def shard(rows, labels=TRUTH, seed=1):
    return Shard(features=FEATURES[rows], labels=labels[rows], seed=seed)


def vote_of(teachers, labels=3, **public):
    budget = Budget(epsilon=50.0, delta=1e-6, releases=30)
    return OptimalVote.calibrate(budget, teachers=teachers, labels=labels, **public)


@pytest.mark.parametrize("teacher", TEACHERS, ids=lambda teacher: type(teacher).__name__)
@pytest.mark.parametrize("scored", [True, False])
def test_any_classifier_votes_and_is_sure(teacher, scored):
    votes, scores = ballot(teacher, shard(slice(None)), PUBLIC, scored=scored)
    assert votes.shape == (30, 3)
    assert set(np.unique(votes)) == {0, 1}
    assert (votes == PUBLIC_TRUTH).mean() > 0.75
    if scored:
        assert scores.shape == (30, 3)
        assert all(scores[votes[:, i] == 1, i].mean() > scores[votes[:, i] == 0, i].mean() for i in range(3))
    else:
        assert scores is None


@pytest.mark.parametrize("teacher", TEACHERS, ids=lambda teacher: type(teacher).__name__)
def test_a_teacher_without_records_votes_for_nothing(teacher):
    votes, scores = ballot(teacher, shard(slice(0, 0)), PUBLIC, scored=True)
    assert not votes.any()
    assert np.isneginf(scores).all()


@pytest.mark.parametrize("teacher", TEACHERS, ids=lambda teacher: type(teacher).__name__)
def test_labels_of_one_class_are_voted_as_they_are(teacher):
    labels = np.column_stack([np.ones(120), np.zeros(120), TRUTH[:, 2]]).astype(np.int8)
    votes, _ = ballot(teacher, shard(slice(None), labels), PUBLIC)
    assert votes[:, 0].all()
    assert not votes[:, 1].any()
    assert (votes[:, 2] == PUBLIC_TRUTH[:, 2]).mean() > 0.75


def test_a_teacher_that_fails_on_its_records_votes_for_their_majority():
    three = shard([0, 1, 2], np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=np.int8))
    with pytest.raises(ValueError, match="n_neighbors"):  # what it would have said
        KNeighborsClassifier(5).fit(three.features, three.labels).predict(PUBLIC)
    votes, _ = ballot(KNeighborsClassifier(5), three, PUBLIC)
    assert (votes == [1, 0, 0]).all()


def test_a_teacher_depends_on_its_own_records_and_seed_alone():
    forest = RandomForestClassifier(n_estimators=3, max_features=1)
    first, _ = ballot(forest, shard(slice(0, 40)), PUBLIC)
    ballot(forest, shard(slice(40, 80)), PUBLIC)
    again, _ = ballot(forest, shard(slice(0, 40)), PUBLIC)
    other, _ = ballot(forest, shard(slice(0, 40), seed=2), PUBLIC)
    assert (first == again).all()
    assert (first != other).any()


def test_nested_random_states_are_seeded():
    nested = make_pipeline(StandardScaler(), DecisionTreeClassifier(splitter="random"))
    one, _ = ballot(nested, shard(slice(0, 40)), PUBLIC)
    two, _ = ballot(nested, shard(slice(0, 40)), PUBLIC)
    assert (one == two).all()


def test_votes_are_the_sum_of_the_ballots_in_one_process_or_two():
    shards = [shard(slice(20 * i, 20 * i + 20), seed=i) for i in range(6)]
    teacher, vote = DecisionTreeClassifier(), vote_of(6)
    expected = sum(ballot(teacher, each, PUBLIC)[0].astype(int) for each in shards)
    here = count_votes(teacher, shards, PUBLIC, aggregator=vote)
    there = count_votes(teacher, shards, PUBLIC, aggregator=vote, n_jobs=2)
    assert (here == expected).all()
    assert (there == expected).all()


def test_ballots_are_cut_to_the_surest_labels():
    everything = np.ones((120, 3), dtype=np.int8)
    everything[:, 1] = TRUTH[:, 1]  # labels 0 and 2 are always set, label 1 is learnt
    limited = vote_of(2, limit=2)
    votes = count_votes(LogisticRegression(), [shard(slice(None), everything)] * 2, PUBLIC, aggregator=limited)
    assert votes.tolist() == [[2, 0, 2]] * 30
    whole = count_votes(LogisticRegression(), [shard(slice(None), everything)] * 2, PUBLIC, aggregator=vote_of(2))
    assert whole[:, 1].sum() > 0


def test_workers_get_records_through_pipes_and_not_through_files():
    class Witness(ClassifierMixin, BaseEstimator):
        """Votes yes if its records came in a memory-mapped file."""

        def fit(self, X, y):
            self.mapped_ = isinstance(X, np.memmap) or isinstance(X.base, np.memmap)
            return self

        def predict(self, X):
            return np.full(len(X), int(self.mapped_))

    large = np.zeros((60_000, 4))  # 1.9 MB: joblib maps arrays of 1 MB and more by default
    labels = (np.arange(60_000) % 2)[:, None].astype(np.int8)
    shards = [Shard(features=large, labels=labels, seed=0) for _ in range(2)]
    votes = count_votes(Witness(), shards, PUBLIC, aggregator=vote_of(2, labels=1), n_jobs=2)
    assert not votes.any()


def test_teachers_start_no_processes_that_would_get_records_through_files():
    class Delegating(ClassifierMixin, BaseEstimator):
        """Votes yes if what it hands to joblib arrives in a memory-mapped file."""

        def fit(self, X, y):
            self.mapped_ = any(Parallel(n_jobs=2)(delayed(lambda x: isinstance(x, np.memmap))(X) for _ in range(2)))
            return self

        def predict(self, X):
            return np.full(len(X), int(self.mapped_))

    labels = (np.arange(60_000) % 2)[:, None].astype(np.int8)
    large = Shard(features=np.zeros((60_000, 4)), labels=labels, seed=0)
    assert not count_votes(Delegating(), [large], PUBLIC, aggregator=vote_of(1, labels=1)).any()


def test_randomness_that_no_parameter_controls_passes_nothing_on():
    class Careless(ClassifierMixin, BaseEstimator):
        """Draws once a record from the process's own generators, as a shuffling splitter does, and votes by the last draw."""

        def fit(self, X, y):
            self.drawn_ = (np.random.random(len(X))[-1] + random.random()) % 1  # noqa: NPY002 - that is the point
            return self

        def predict(self, X):
            return (np.arange(len(X)) / len(X) < self.drawn_).astype(int)

    def ballots(first):
        np.random.seed(3)  # noqa: NPY002
        random.seed(3)
        cast = [
            ballot(Careless(), shard(rows, seed=seed), PUBLIC)[0] for rows, seed in ((first, 1), (slice(40, 80), 2))
        ]
        return cast, np.random.random(), random.random()  # noqa: NPY002

    (one, two), *after = ballots(slice(0, 40))
    (other, same), *left = ballots(slice(0, 39))
    assert (one != other).any()
    assert (two == same).all()
    assert after == left


class Failing(ClassifierMixin, BaseEstimator):
    """Fails because of one record, in a way of its own."""

    def __init__(self, way=ValueError):
        self.way = way

    def fit(self, X, y):
        if X[0, 0] == FEATURES[0, 0]:
            raise self.way("Alice-7319")
        return self

    def predict(self, X):
        return np.ones(len(X), dtype=int)


@pytest.mark.parametrize("way", [ValueError, MemoryError, SystemExit, GeneratorExit])
def test_nothing_a_teacher_raises_stops_the_others(way):
    mixed = np.column_stack([np.arange(120) % 3 == 0]).astype(np.int8)  # a majority of zeros
    shards = [shard(slice(0, 30), mixed), shard(slice(30, 60), mixed)]
    assert (count_votes(Failing(way), shards, PUBLIC, aggregator=vote_of(2, labels=1)) == 1).all()


def test_an_interrupt_carries_no_words_of_the_teacher():
    class Interrupted(Failing):
        def fit(self, X, y):
            try:
                return super().fit(X, y)
            except ValueError as error:
                raise KeyboardInterrupt from error

    with pytest.raises(KeyboardInterrupt) as caught:
        count_votes(Interrupted(), [shard(slice(0, 30))], PUBLIC, aggregator=vote_of(1))
    assert caught.value.__context__ is caught.value.__cause__ is None


def test_records_that_cannot_be_handed_out_say_nothing():
    def broken():
        yield shard(slice(0, 30))
        raise ValueError("Alice-7319")

    with pytest.raises(EngineError, match="withheld") as caught:
        count_votes(GaussianNB(), broken(), PUBLIC, aggregator=vote_of(2))
    assert caught.value.__context__ is caught.value.__cause__ is None


def test_teachers_change_neither_the_public_examples_nor_the_template():
    scaling = make_pipeline(StandardScaler(copy=False), LogisticRegression())
    public, features = PUBLIC.copy(), FEATURES * 3 + 5
    rehearse(scaling, public, labels=3)
    given = Shard(features=features, labels=TRUTH, seed=0)
    count_votes(scaling, [given, given], public, aggregator=vote_of(2, limit=2))
    assert (public == PUBLIC).all()
    assert (features == FEATURES * 3 + 5).all()
    assert not hasattr(scaling[0], "mean_")


def test_a_teachers_sparse_rows_are_as_wide_as_they_need():
    """Past 2^31 numbers the whole matrix has wide indices, which liblinear refuses: every ballot would become a majority."""
    narrow = csr_array(FEATURES)
    wide = csr_array(FEATURES)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    seen = []
    for matrix in (narrow, wide):
        teachers = Teachers(
            template=LinearSVC(),
            features=matrix,
            labels=TRUTH.astype(float),
            ids=None,
            public=csr_array(PUBLIC),
            key=b"",
            seeds=np.arange(3),
        )
        seen.append(teachers.votes(vote_of(3)))
    assert (seen[0] == seen[1]).all()
    assert np.ptp(seen[0]) > 0


def test_what_teachers_warn_is_not_shown():
    hasty = MLPClassifier((4,), max_iter=1)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        hasty.fit(FEATURES, TRUTH)
        said = len(heard)
        for n_jobs in (1, 2):
            count_votes(hasty, [shard(slice(None))] * 2, PUBLIC, aggregator=vote_of(2), n_jobs=n_jobs)
    assert said == len(heard) == 1


@pytest.mark.parametrize("teacher", TEACHERS, ids=lambda teacher: type(teacher).__name__)
@pytest.mark.parametrize("rows", [1, 30])
def test_good_teachers_pass_the_rehearsal(teacher, rows):
    assert rehearse(teacher, PUBLIC[:rows], labels=3) is None


@pytest.mark.parametrize(
    ("teacher", "says"),
    [(LogisticRegression(C=-1), "'C' parameter"), (KNeighborsClassifier(100), "n_neighbors")],
)
def test_a_wrong_setting_is_found_before_any_record_is_seen(teacher, says):
    with pytest.raises(ParameterError, match="teacher must be able to learn") as caught:
        rehearse(teacher, PUBLIC, labels=3)
    assert says in str(caught.value)


class Remembering(ClassifierMixin, BaseEstimator):
    """Keeps what it was taught for all its copies, or draws where nobody can seed it."""

    taught = np.zeros(1)

    def __init__(self, draws=False):
        self.draws = draws

    def fit(self, X, y):
        type(self).taught = self.taught + y.sum() + X.sum()
        self.sum_ = np.random.default_rng().random() if self.draws else self.taught[0]
        return self

    def predict(self, X):
        return (np.arange(len(X)) / len(X) < self.sum_ % 1).astype(int)


@pytest.mark.parametrize("draws", [True, False])
def test_a_teacher_with_a_memory_of_its_own_is_refused_before_any_record_is_seen(draws):
    with pytest.raises(ParameterError, match="own records and seed alone"):
        rehearse(Remembering(draws), PUBLIC, labels=3)


def test_scores_are_rehearsed_if_ballots_are_to_be_cut():
    class Speechless(GaussianNB):
        def predict_proba(self, X):
            raise NotImplementedError("no probabilities")

    rehearse(Speechless(), PUBLIC, labels=3)
    with pytest.raises(ParameterError, match="no probabilities"):
        rehearse(Speechless(), PUBLIC, labels=3, scored=True)


def test_progress_goes_to_standard_error(capsys):
    count_votes(GaussianNB(), [shard(slice(None))] * 3, PUBLIC, aggregator=vote_of(3), progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Teachers" in shown.err
    assert "100%" in shown.err


@pytest.mark.slow
def test_a_worker_that_dies_says_nothing():
    home = os.getpid()

    class Dying(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            if os.getpid() != home:
                os._exit(1)
            return self

        def predict(self, X):
            return np.zeros(len(X), dtype=int)

    with pytest.raises(EngineError, match="withheld") as caught:
        count_votes(Dying(), [shard(slice(None))] * 2, PUBLIC, aggregator=vote_of(2), n_jobs=2)
    assert caught.value.__cause__ is caught.value.__context__ is None  # what the worker said is not even carried along


def test_hundreds_of_labels_are_learnt_as_well_as_few():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 20))
    labels = np.greater(features @ rng.normal(size=(20, 300)), 0).astype(np.int8)
    model = fit_labels(RidgeClassifier(), features, labels)
    assert (predict_labels(model, features, 300) == labels).mean() > 0.9  # as int8, half: nothing learnt


class Wide(MultiOutputClassifier):
    """Says that it learns several labels, and remembers how many it was given."""

    given: list = []  # noqa: RUF012

    def fit(self, X, y):
        Wide.given.append(y.shape)
        return super().fit(X, y)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def test_whoever_learns_several_labels_gets_all_and_falls_back_on_those_with_both_values():
    labels = TRUTH.copy()
    labels[:, 1] = 0
    lesson = Shard(features=FEATURES, labels=labels, seed=0)
    Wide.given.clear()
    votes, scores = ballot(Wide(LogisticRegression()), lesson, PUBLIC, scored=True)
    assert Wide.given == [(len(labels), labels.shape[1]), (len(labels), labels.shape[1] - 1)]
    assert not votes[:, 1].any()
    assert (scores[:, 1] == -np.inf).all()
    trees, tree_scores = ballot(
        DecisionTreeClassifier(), lesson, PUBLIC, scored=True
    )  # learns a constant without complaint
    assert not trees[:, 1].any()
    assert (tree_scores[:, 1] == -np.inf).all()
    assert trees[:, 0].any()
