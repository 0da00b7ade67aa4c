import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, csr_matrix

from cutline.errors import ParameterError
from cutline.pate.records import read_features, read_labels, read_records

KEY = b"a key for tests"


def records(features, labels, groups=None, teachers=5):
    return read_records(read_features(features), read_labels(labels)[0], groups, teachers=teachers, key=KEY)


GOOD = [[1, 2], [3, 4], [5, 6]]
ODD_ROWS = {
    "a number that is not finite": ([7, float("nan")], 1),
    "an infinite number": ([7, float("inf")], 1),
    "a text": ([7, "Ana Maria"], 1),
    "nothing": ([7, None], 1),
    "a whole number beyond all floats": ([7, 10**400], 1),
    "another structure": ([7, {"name": "Ana"}], 1),
    "pandas' NA": ([7, pd.NA], 1),
    "a label of another class": ([7, 8], 2),
    "a negative label": ([7, 8], -1),
    "a label that is text": ([7, 8], "yes"),
    "no label": ([7, 8], None),
    "half a label": ([7, 8], 0.5),
}


@pytest.mark.parametrize("odd", ODD_ROWS.values(), ids=list(ODD_ROWS))
@pytest.mark.parametrize("place", [0, 3])
def test_an_odd_record_is_left_out_and_changes_no_other(odd, place):
    features, labels = [*GOOD], [0, 1, 1]
    without = records(features, labels)
    features.insert(place, odd[0])
    labels.insert(place, odd[1])
    for table in (features, np.array(features, dtype=object), pd.DataFrame(features)):
        found = records(table, labels)
        assert found.features.tolist() == without.features.tolist() == GOOD
        assert found.labels.tolist() == without.labels.tolist() == [[0], [1], [1]]
        assert found.teacher.tolist() == without.teacher.tolist()


def test_a_number_too_large_for_a_float_is_left_out_without_a_warning():
    table = np.array(GOOD, dtype=np.longdouble)
    table[0, 0] = np.finfo(np.longdouble).max  # where a long double is a plain float, this record is like any other
    labels = np.array([0, 1, table[0, 0]])
    for form in (table, csr_array(table)):
        assert records(form, [0, 1, 1]).labels.shape[0] in (2, 3)
        assert records(form, labels).labels.shape[0] in (1, 2)


def test_sparse_records_are_read_alike():
    table = np.array([[0.0, 2.0], [np.nan, 4.0], [0.0, 0.0]])
    labels = np.array([[0, 1], [1, 1], [1, 0]])
    dense, sparse = records(table, labels), records(csr_array(table), csr_matrix(labels))
    assert sparse.features.toarray().tolist() == dense.features.tolist() == [[0, 2], [0, 0]]
    assert sparse.labels.tolist() == dense.labels.tolist() == [[0, 1], [1, 0]]
    assert sparse.teacher.tolist() == dense.teacher.tolist()


def test_ids_stay_with_their_records():
    odd = records([[1, 2], [float("nan"), 0], [5, 6]], [0, 1, 1], groups=["ana", "bo", "eve"])
    plain = records([[1, 2], [5, 6]], [0, 1], groups=["ana", "eve"])
    assert odd.teacher.tolist() == plain.teacher.tolist()


def test_no_record_at_all():
    empty = records(np.empty((0, 2)), np.empty((0, 3)))
    assert (empty.features.shape, empty.labels.shape, empty.teacher.shape) == ((0, 2), (0, 3), (0,))
    assert records(np.empty((0, 2)), []).labels.shape == (0, 1)


@pytest.mark.parametrize(
    ("features", "labels", "rule"),
    [
        (np.array([["a", "b"]]), [1], "X must hold numbers"),
        (np.array([["2024-01-01"]], dtype="datetime64[D]"), [1], "X must hold numbers"),
        (np.array([[1j]]), [1], "Complex data not supported"),
        (csr_array(np.array([[1j]])), [1], "Complex data not supported"),
        ([1, 2], [1, 0], "one row a record"),
        ([[1, 2], [3]], [1, 0], "rows of one length"),
        (GOOD, [[1, 0], [1], [0, 1]], "y must have rows of one length"),
        (np.empty((3, 0)), [1, 0, 1], r"0 feature\(s\)"),
        (GOOD, np.array(["a", "b", "c"]), "y must hold numbers"),
        (GOOD, np.zeros((3, 2, 2)), "y must be a vector"),
        (GOOD, np.zeros((3, 0)), "y must be a vector"),
        (GOOD, [1, 0], "one row a record each"),
    ],
)
def test_public_mistakes_are_refused(features, labels, rule):
    with pytest.raises(ParameterError, match=rule):
        records(features, labels)


def test_refusals_do_not_say_how_many_records_there_are():
    for call in (
        lambda: records(np.zeros((7919, 2)), np.zeros(7918)),
        lambda: records(np.zeros((7919, 0)), np.zeros(7919)),
        lambda: records(np.zeros((7919, 2)), np.zeros(7919), groups=["ana"]),
    ):
        with pytest.raises(ParameterError) as caught:
            call()
        assert "791" not in str(caught.value)


def test_records_do_not_show_themselves():
    assert "5" not in repr(records([[5.0, 5.0]], [1])).split("at 0x")[0]
