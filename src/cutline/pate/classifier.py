r"""Multi-label PATE as a scikit-learn classifier: private records in, a student out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from cutline.errors import ParameterError, shortened
from cutline.extras import require
from cutline.pate.aggregators.base import MOST_TEACHERS, Aggregator
from cutline.pate.classes import (
    ClassStudent,
    array_of_names,
    choose_aggregator,
    fit_class_student,
    read_class_names,
    read_classes,
)
from cutline.pate.label import keep_unsettled, quote_labels
from cutline.pate.labels import Labelled, state_privacy
from cutline.pate.partition import (
    KEY_BYTES,
    LONGEST_KEY,
    declared_type,
    read_features,
    read_groups,
    read_labels,
)
from cutline.pate.student import Missing, check_missing, fit_student, rehearse_student
from cutline.pate.teachers import Teachers, rehearse
from cutline.payment import LedgerAddress
from cutline.privacy.budget import Share
from cutline.privacy.curves.base import check_whole
from cutline.sampling import SeededSource, SystemSource

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.utils import check_random_state, get_tags
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    require("sklearn", extra="pate", purpose="PATEClassifier")
    raise

if TYPE_CHECKING:
    from cutline.ledger import Ledger

_LARGEST_SEED = np.iinfo(np.int32).max
_LEAKING_SETTINGS = {"verbose": ("print", 0), "memory": ("keep what it works out in files", None)}


def _student_has_probabilities(classifier: PATEClassifier) -> bool:
    return hasattr(classifier.student_template(), "predict_proba")


class PATEClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    r"""A classifier for one of several classes, or for one or many labels, whose training records stay private.

    Records are split over teachers, each teacher votes on the labels of *public* examples, an aggregator turns the
    votes into labels under differential privacy, and a student learns from those labels. Only the student and the
    released labels are kept.

    **Privacy.** The released labels are (epsilon, delta)-DP for one ballot changing; what follows from them (the
    student, its predictions) is too. One record that joins or leaves changes one ballot; one record replaced by
    another can change two, unless ``groups`` are given to `fit`; ``privacy_`` says it in full [docs/pate.md]. Not
    covered: the time that `fit` takes, and the memory of this computer.

    Parameters
    ----------
    teacher, student
        Classifiers as scikit-learn has them; one that learns one label at a time is trained once a label. None is
        logistic regression.
    n_teachers
        How many teachers share the records; public. More teachers: less noise in the votes, fewer records each.
    classes
        For records of one class each, how many classes there are (0, 1, ...) or a list of their values; public, never read from
        the records. Every teacher then learns all classes together and casts one vote. None: ``y`` holds labels of 0 and 1.
    epsilon, delta, aggregator, adjacency, limit, accounting
        As for `cutline.label`, for all public examples together; by default classes are counted by ``"class-vote"``. The limit
        keeps a teacher's surest labels and lowers the cost where labels are many and few are set; ``"add-remove"`` reproduces
        the paper and promises less.
    quorum
        The share of the teachers that must say yes for a label to be set, by default half of them; public. Teachers who rarely
        say yes need a smaller one.
    missing
        What the student gets for labels that were not answered: ``"skip"`` or ``"mark"``, see `student.fit_student`.
    partition_key
        Bytes that decide, with a record, which teacher gets it; None draws a key for each fit.
    noise_seed
        None draws from the operating system. A whole number makes a *simulation* that can be repeated and protects
        nobody; ``privacy_`` says so.
    random_state
        For teachers and student; never for the noise.
    n_jobs
        How many processes train teachers; None is one, and -1 as many as there are cores. Never threads, whatever
        ``joblib.parallel_config`` says around.
    verbose
        Whether to show on standard error how many teachers have voted.

    Attributes
    ----------
    privacy_ : cutline.pate.labels.Privacy
        The guarantee; its text is one sentence.
    labelled_ : cutline.pate.labels.Labelled
        How many public examples were answered, withheld and partly labelled.
    labels_ : cutline.pate.Labels
        The released labels.
    student_ : cutline.pate.student.Student
        The fitted student.
    aggregator_ : Aggregator
        The aggregator that drew the labels; all its parameters are public.
    classes_ : array, or list of arrays
        The classes, or ``[0, 1]`` for each label.
    n_features_in_ : int
        How many features there are.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> X, Y = make_multilabel_classification(1200, 6, n_classes=3, n_labels=1, random_state=0)
    >>> model = PATEClassifier(n_teachers=60, epsilon=8.0, noise_seed=0, random_state=0)
    >>> model.fit(X[:900], Y[:900], X_public=X[900:1000]).labelled_
    Labelled(answered=100, withheld=0, partly=0)
    >>> model.predict(X[1000:]).shape
    (200, 3)
    """

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Any = None,
        n_teachers: int = 50,
        epsilon: float | None = None,
        delta: float | None = None,
        aggregator: str | Aggregator | None = None,
        adjacency: str = "replace",
        limit: int | None = None,
        quorum: float | None = None,
        accounting: str | None = None,
        missing: Missing = "skip",
        partition_key: bytes | None = None,
        noise_seed: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.teacher = teacher
        self.student = student
        self.classes = classes
        self.n_teachers = n_teachers
        self.epsilon = epsilon
        self.delta = delta
        self.aggregator = aggregator
        self.adjacency = adjacency
        self.limit = limit
        self.quorum = quorum
        self.accounting = accounting
        self.missing = missing
        self.partition_key = partition_key
        self.noise_seed = noise_seed
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: Any,
        *,
        X_public: Any = None,  # noqa: N803
        groups: Iterable[Any] | None = None,
        ledger: Ledger | LedgerAddress | None = None,
        dataset: str | None = None,
        analyst: str | None = None,
        share: Share | None = None,
        purpose: str | None = None,
    ) -> Self:
        r"""Train teachers on private records, release labels of public examples, train the student on those.

        Parameters
        ----------
        X
            Private features, one row a record: an array, a data frame or a sparse matrix of numbers. An array of a chosen
            type, like images of uint8 or float32, reaches teachers and student in its own shape and type.
        y
            Private labels, 0 or 1: one column a label, or a vector for one label. With ``classes``, a vector of classes. A
            record with anything else in it, or with a feature that is not a finite number, is left out silently.
        X_public
            Public examples with the same features; their number is the number of queries that the budget pays for.
        groups
            One id a record, if a person may have several: all records of one id go to one teacher, and the person is
            protected. What reads as a number is taken by its value: 7, 7.0 and "007" are one id.
        ledger, dataset, analyst, share, purpose
            As for `cutline.label`: on whose account the labels are charged, before a record is read.

        Raises
        ------
        CutlineError
            For a public reason only: a parameter, the shape or declared type of an array, a teacher that cannot learn
            public examples, a budget that cannot pay for so many of them.
        UnsettledError
            If the ledger broke down after it had charged in full. The classifier is fitted all the same.
        """
        if y is None:
            validate_data(self, X, y, skip_check_array=True)
        features, names = read_features(X), read_class_names(self.classes)
        targets, vector = read_labels(y) if names is None else (read_classes(y, names), False)
        ids = read_groups(groups, features, targets)
        validate_data(self, X if hasattr(X, "columns") else features, y="no_validation", skip_check_array=True)
        self._check_settings()
        teacher = self._check_teacher()
        features, public = self._read_public(features, X_public)
        classes = None if names is None else len(names)
        width = targets.shape[1] if classes is None else classes
        source = SystemSource() if self.noise_seed is None else SeededSource(self.noise_seed)
        asked = quote_labels(
            queries=public.shape[0],
            labels=width,
            teachers=self.n_teachers,
            aggregator=choose_aggregator(self.aggregator, classes=names is not None, teachers=self.n_teachers),
            limit=self.limit,
            quorum=self.quorum,
            accounting=self.accounting,
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            ledger=ledger,
            dataset=dataset,
            analyst=analyst,
            share=share,
            purpose=purpose,
            rng=source,
        )
        rehearse(teacher, public, labels=width, scored=asked.aggregator.limit is not None, classes=classes)
        rehearse_student(self.student_template(), public, labels=width, classes=classes)
        key = source.words(KEY_BYTES // 8).tobytes() if self.partition_key is None else self.partition_key
        seeds = self._draw_seeds()
        voters = Teachers(
            template=teacher,
            features=features,
            labels=targets,
            ids=ids,
            public=public,
            key=key,
            seeds=seeds[1:],
            n_jobs=None if self.n_jobs is None else int(self.n_jobs),
            verbose=bool(self.verbose),
            classes=classes,
        )
        labels, unsettled = keep_unsettled(lambda: asked.run(voters))
        # The labels are out, so they are kept even if the student cannot learn from them: to fit again would pay again.
        self.__dict__.pop("student_", None)
        self._vector, self._type = vector, public.dtype
        binary = np.array([0, 1])
        self.classes_: Any = binary if vector else [binary for _ in range(width)]
        if names is not None:
            self.classes_ = array_of_names(names)
        self.labels_, self.aggregator_ = labels, asked.aggregator
        self.labelled_ = Labelled(answered=labels.answered, withheld=labels.withheld, partly=labels.partial)
        self.privacy_ = state_privacy(labels, unit="record" if groups is None else "group")
        fit: Any = fit_student if names is None else fit_class_student
        self.student_ = fit(self.student_template(), public, labels.values, missing=self.missing, seed=int(seeds[0]))
        if unsettled is not None:
            raise unsettled
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """Return the student's classes; or its labels, 0 or 1: (examples, labels), or a vector if it learnt from one."""
        examples = self._read_examples(X)
        if isinstance(self.student_, ClassStudent):
            named: npt.NDArray[Any] = self.classes_[self.student_.predict(examples)]
            return named
        labels: npt.NDArray[Any] = self.student_.predict(examples).astype(np.int64)
        return labels[:, 0] if self._vector else labels

    @available_if(_student_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """Return the probability of each class or label, (examples, classes); for a vector of one label (examples, 2)."""
        examples = self._read_examples(X)
        chances = self.student_.predict_proba(examples)
        return np.column_stack([1 - chances, chances]) if self._vector else chances

    def student_template(self) -> Any:
        """Return the unfitted student that `fit` trains copies of."""
        return LogisticRegression() if self.student is None else self.student

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.classes is not None
        tags.classifier_tags.multi_label = self.classes is None
        tags.target_tags.multi_output = self.classes is None
        tags.input_tags.sparse = all(
            each is None or get_tags(each).input_tags.sparse for each in (self.teacher, self.student)
        )
        tags.non_deterministic = self.noise_seed is None
        return tags

    def _check_settings(self) -> None:
        if check_whole("n_teachers", self.n_teachers) > MOST_TEACHERS:
            raise ParameterError(f"n_teachers must be at most {MOST_TEACHERS:,}", f"{self.n_teachers}", "Pass fewer.")
        check_missing(self.missing)
        if self.n_jobs is not None and (
            isinstance(self.n_jobs, bool) or not isinstance(self.n_jobs, int | np.integer) or not self.n_jobs
        ):
            raise ParameterError(
                "n_jobs must be None or a whole number other than 0", f"n_jobs={self.n_jobs!r}", "-1 is all cores."
            )
        if self.partition_key is not None and not (
            isinstance(self.partition_key, bytes) and len(self.partition_key) <= LONGEST_KEY
        ):
            raise ParameterError(
                f"partition_key must be at most {LONGEST_KEY} bytes",
                type(self.partition_key).__name__,
                "None draws one.",
            )

    def _draw_seeds(self) -> npt.NDArray[np.int64]:
        """Return a seed for the student and one for each teacher."""
        try:
            source = check_random_state(self.random_state)
        except ValueError:
            source = None
        if source is None:
            raise ParameterError(
                "random_state must be None, a whole number from 0 to 2^32 - 1, or a RandomState",
                f"random_state={self.random_state!r}",
                "Try random_state=0.",
            )
        seeds: npt.NDArray[np.int64] = source.randint(_LARGEST_SEED, size=int(self.n_teachers) + 1)
        return seeds

    def _check_teacher(self) -> Any:
        """Return the unfitted teacher, or refuse it for what it is declared to be."""
        teacher = LogisticRegression() if self.teacher is None else self.teacher
        for role, each in (("teacher", teacher), ("student", self.student_template())):
            if not is_classifier(each):
                raise ParameterError(f"the {role} must be a classifier", type(each).__name__, "Pass one unfitted.")
        for name, value in teacher.get_params().items():
            harm, harmless = _LEAKING_SETTINGS.get(name.split("__")[-1], ("", None))
            if harm and value and not (isinstance(value, int) and value < 0):  # below 0 some teachers are quieter still
                raise ParameterError(
                    f"a teacher must not {harm}, since that would tell about its records",
                    f"{name}={shortened(value)}",
                    f"Set {name}={harmless}.",
                )
        return teacher

    def _read_public(self, features: Any, public: Any) -> tuple[Any, Any]:
        """Return private and public examples of one type, both dense or both sparse, or refuse public ones of another shape."""
        if public is None:
            raise ParameterError(
                "a private classifier needs public examples to label",
                "X_public=None",
                "Pass X_public: unlabelled examples that anybody may see.",
            )
        kind = np.dtype(np.float64) if declared_type(public) != features.dtype else features.dtype
        read = validate_data(self, public, reset=False, accept_sparse="csr", dtype=kind, allow_nd=True)
        if read.shape[1:] != features.shape[1:]:
            raise ParameterError(
                "private and public examples must have one shape",
                f"{features.shape[1:]} and {read.shape[1:]}",
                "Bring them to one size.",
            )
        return _match_density(features.astype(kind, copy=False), read), read

    def _read_examples(self, examples: Any) -> Any:
        check_is_fitted(self, "student_")
        given = declared_type(examples)
        kind = self._type if np.can_cast(given, self._type, "same_kind") else given
        return validate_data(self, examples, reset=False, accept_sparse="csr", dtype=kind, allow_nd=True)


def _match_density(features: Any, public: Any) -> Any:
    """Return the features dense or sparse, as the public examples are."""
    if hasattr(public, "tocsr") == hasattr(features, "tocsr"):
        return features
    if hasattr(features, "tocsr"):
        return features.toarray()
    from scipy.sparse import csr_array

    return csr_array(features)
