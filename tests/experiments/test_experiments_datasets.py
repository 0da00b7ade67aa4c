import datetime as dt
import gzip

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cutline.errors import ParameterError, SourceError
from cutline.experiments.datasets import LOGS, load_celeba, load_covid, load_log, load_multilabel


def checkins_of_new_york(rows=227_428):
    """Lines in the publisher's eight columns, with the published numbers of users and venues; one venue is visited twice."""
    tail = "4bf58dd8\tArts & Crafts \xe9\t40.7\t-74.0\t-240\tTue Apr 03 18:00:09 +0000 2012"
    return "".join(f"{i % 1083}\tv{i % 38_333}\t{tail}\n" for i in range(rows)).encode("latin-1")


def test_the_publishers_new_york_file_is_read_and_each_pair_kept_once(tmp_path):
    (tmp_path / "dataset_TSMC2014_NYC.txt").write_bytes(checkins_of_new_york())
    log = load_log("foursquare_nyc", tmp_path)
    assert (log.title, log.users, log.generated) == ("Foursquare New York", 1083, False)
    assert log.table.column_names == ["user", "item"]
    pairs = {(i % 1083, i % 38_333) for i in range(227_428)}
    assert log.table.num_rows == len(pairs)
    assert "complete" in log.note


def test_a_publishers_file_may_be_compressed(tmp_path):
    lines = "".join(f"{i % 51_406}\t2010-10-17T01:48:53Z\t39.7\t-104.9\tv{i}\n" for i in range(772_966))
    with gzip.open(tmp_path / "Brightkite_totalCheckins.txt.gz", "wb", compresslevel=1) as file:
        file.write(lines.encode() + b"58186\t\t\t\t\n")  # the original has a few rows without a place
    log = load_log("brightkite", tmp_path)
    assert (log.users, log.table.num_rows) == (51_406, 772_966)


def test_a_file_that_is_cut_short_is_refused_without_quoting_a_row(tmp_path):
    (tmp_path / "dataset_TSMC2014_NYC.txt").write_bytes(checkins_of_new_york(rows=1000))
    with pytest.raises(SourceError, match=r"227,428; got 1,000 in 'dataset_TSMC2014_NYC\.txt'"):
        load_log("foursquare_nyc", tmp_path)


def test_a_file_with_other_columns_is_refused_without_quoting_a_row(tmp_path):
    (tmp_path / "Gowalla_totalCheckins.txt").write_text("alice\tcafe\n")
    with pytest.raises(SourceError, match="5 columns between tabs") as refused:
        load_log("gowalla", tmp_path)
    assert "alice" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_parquet_file_of_pairs_is_checked(tmp_path):
    path = tmp_path / "fimi_retail.parquet"
    pq.write_table(pa.table({"basket": [1, 2], "item": [3, 4]}), path)
    with pytest.raises(SourceError, match="908,576; got 2"):
        load_log("fimi_retail", tmp_path)
    pq.write_table(pa.table({"basket": [1, 2], "thing": [3, 4]}), path)
    with pytest.raises(SourceError, match="without item"):
        load_log("fimi_retail", tmp_path)
    path.write_bytes(b"not parquet")
    with pytest.raises(SourceError, match="readable parquet"):
        load_log("fimi_retail", tmp_path)


@pytest.mark.parametrize("name", sorted(LOGS))
def test_a_given_directory_must_hold_the_file_and_the_refusal_names_the_publisher(name, tmp_path):
    with pytest.raises(SourceError, match="published as"):
        load_log(name, tmp_path)


def test_the_directory_must_be_one(tmp_path):
    with pytest.raises(SourceError, match="must be a directory"):
        load_covid(tmp_path / "none")
    with pytest.raises(ParameterError, match="known one"):
        load_log("nowhere", None)
    with pytest.raises(ParameterError, match="known one"):
        load_multilabel("nothing", None)


@pytest.mark.parametrize("name", ["foursquare_nyc", "brightkite"])
def test_a_generated_log_has_the_shape_it_promises_and_says_what_it_is(name):
    log, known = load_log(name, None), LOGS[name]
    assert "(generated)" in log.title
    assert "no real data" in log.note
    assert pc.count_distinct(log.table["user"]).as_py() == known.users
    assert pc.count_distinct(log.table["item"]).as_py() == known.items
    assert log.table.num_rows == pytest.approx(known.pairs, rel=1e-3)
    assert log.table.group_by(["user", "item"]).aggregate([]).num_rows == log.table.num_rows


def us_states(days=122, states=55):
    start = dt.date(2020, 2, 28)  # rows before March are not looked at
    lines = ["date,state,fips,cases,deaths"]
    for day in range(days + 2):
        lines += [f"{start + dt.timedelta(days=day)},S{s:02d},{s:02d},{day * (s + 1)},0" for s in range(states)]
    return "\n".join(lines) + "\n2021-01-01,S00,00,9,0\n"


def test_the_publishers_cases_are_read_by_day_and_state(tmp_path):
    (tmp_path / "us-states.csv").write_text(us_states())
    cases = load_covid(tmp_path)
    assert cases.cumulative.shape == (122, 55)
    assert cases.states[:2] == ("S00", "S01")
    assert cases.cumulative[0].tolist() == [2 * (s + 1) for s in range(55)]
    assert cases.new_cases()[5].tolist() == [s + 1 for s in range(55)]
    assert not cases.generated


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (us_states(days=100), "days"),
        (us_states(states=9), "states"),
        ("day,place\n1,2\n", "columns date, state and cases"),
    ],
)
def test_misshapen_cases_are_refused(text, rule, tmp_path):
    (tmp_path / "us-states.csv").write_text(text)
    with pytest.raises(SourceError, match=rule):
        load_covid(tmp_path)


def test_a_revision_downwards_counts_as_no_new_cases():
    cases = load_covid(None)
    assert (np.diff(cases.cumulative, axis=0) >= 0).all()
    cases.cumulative[7, 3] = 0
    assert cases.new_cases()[7, 3] == 0


def test_the_publishers_attributes_are_read_with_their_split(tmp_path):
    names = [f"A{i}" for i in range(40)]
    body = "".join(f"{i:06d}.jpg {'1 ' if i % 2 else '-1 '}{'-1 1 ' * 19}-1\n" for i in range(202_599))
    (tmp_path / "list_attr_celeba.txt").write_text(f"202599\n{' '.join(names)}\n{body}")
    with pytest.raises(SourceError, match=r"list_eval_partition\.txt"):
        load_celeba(tmp_path)
    parts = np.repeat([0, 1, 2], (162_770, 19_867, 19_962))
    (tmp_path / "list_eval_partition.txt").write_text("".join(f"{i:06d}.jpg {p}\n" for i, p in enumerate(parts)))
    table = load_celeba(tmp_path)
    assert table.labels == tuple(names)
    assert table.values[:2, :4].tolist() == [[False, False, True, False], [True, False, True, False]]
    assert (table.split == parts).all()


def test_packed_labels_are_read_and_checked(tmp_path):
    known = {"X_shape": [3, 500], "Y": np.ones((3, 22), np.uint8), "split": [0, 0, 1], "label_names": ["a"] * 22}
    path = tmp_path / "multilabel_tmc2007_500.npz"
    np.savez(path, X_packed=np.packbits(np.zeros((3, 500), bool), axis=1), **known)
    with pytest.raises(SourceError, match="28,596; got 3"):
        load_multilabel("tmc2007", tmp_path)
    np.savez(path, **known)
    with pytest.raises(SourceError, match="without X_packed"):
        load_multilabel("tmc2007", tmp_path)
    path.write_bytes(b"no zip")
    with pytest.raises(SourceError, match="readable npz"):
        load_multilabel("tmc2007", tmp_path)
