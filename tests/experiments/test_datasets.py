import datetime as dt
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy.io import savemat

from cutline.errors import ParameterError, SourceError
from experiments.datasets import LOGS, available, load_celeba, load_covid, load_log, load_multilabel
from experiments.datasets.catalogue import SOURCES
from experiments.datasets.files import read_baskets, read_lbsn
from experiments.datasets.mulan import read_mulan


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


def test_a_brightkite_row_without_a_place_is_left_out_and_that_is_said(tmp_path):
    visits = "".join(f"{i % 51_400}\t2010-10-17T01:48:53Z\t39.7\t-104.9\tv{i}\n" for i in range(772_965))
    nowhere = "".join(f"{51_398 + i}\t2009-01-01T00:00:00Z\t0.0\t0.0\t{'0' * 32}\n" for i in range(8))
    only_users = "58186\t\t\t\t\n58187\n58188 \t \n58189\t\t\t\t  \n"
    with gzip.open(tmp_path / "loc-brightkite_totalCheckins.txt.gz", "wb", compresslevel=1) as file:
        file.write((visits + nowhere + only_users).encode())
    log = load_log("brightkite", tmp_path)
    # Six users were nowhere else.
    assert (log.title, log.users, log.table.num_rows) == ("Brightkite", 51_400, 772_965)
    assert "51,400 users, 772,965 items" in log.note
    assert "Left out: 8 rows whose place is all zeros" in log.note


@pytest.mark.parametrize("ending", [".gz", ""])
@pytest.mark.parametrize("name", ["loc-brightkite", "Brightkite", "loc-gowalla", "Gowalla"])
def test_snap_files_are_found_under_both_names_compressed_or_not(name, ending, tmp_path):
    path = tmp_path / f"{name}_totalCheckins.txt{ending}"
    text = b"7\t2010-10-17T01:48:53Z\t39.7\t-104.9\tv1\n"
    path.write_bytes(gzip.compress(text, mtime=0) if ending else text)
    with pytest.raises(SourceError, match=f"got 1 in '{path.name}'"):
        load_log(name.removeprefix("loc-").lower(), tmp_path)


def test_the_publishers_baskets_are_read(tmp_path):
    sizes = np.where(np.arange(88_162) < 26_956, 11, 10)
    starts = np.cumsum(sizes) - sizes
    baskets = [
        " ".join(map(str, (start + np.arange(size)) % 16_470))
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
    ]
    text = "".join(f"{basket} \n" for basket in baskets).encode()  # the original has a blank at the end of a line
    (tmp_path / "retail.dat").write_bytes(text)
    log = load_log("fimi_retail", tmp_path)
    assert (log.title, log.users, log.table.num_rows, log.generated) == ("Retail baskets", 88_162, 908_576, False)
    counted = dict(zip(*(column.to_pylist() for column in log.table["item"].value_counts().flatten()), strict=True))
    expected = np.bincount(np.arange(908_576) % 16_470)
    assert counted == dict(enumerate(expected.tolist()))


def test_baskets_may_be_compressed(tmp_path):
    (tmp_path / "retail.dat.gz").write_bytes(gzip.compress(b"0 1 2 \n3 \n", mtime=0))
    assert read_baskets(tmp_path / "retail.dat.gz").to_pydict() == {"user": [0, 0, 0, 1], "item": [0, 1, 2, 3]}
    with pytest.raises(SourceError, match=r"908,576; got 4 in 'retail\.dat\.gz'"):
        load_log("fimi_retail", tmp_path)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("retail.dat", b"1 2\n3 bread\n"),
        ("retail.dat.gz", b"1 2\n"),
        ("retail.dat.gz", gzip.compress(b"1 2\n", mtime=0)[:-9]),
    ],
)
def test_what_is_no_list_of_baskets_is_refused_without_quoting_it(file, content, tmp_path):
    (tmp_path / file).write_bytes(content)
    with pytest.raises(SourceError, match="one basket a line") as refused:
        load_log("fimi_retail", tmp_path)
    assert "bread" not in str(refused.value)


def test_the_publishers_kuala_lumpur_file_is_read_and_each_pair_kept_once(tmp_path):
    row = np.arange(526_405)
    rows = np.stack([row % 6_378 + 1, row % 168 + 1, row % 10_817 + 1, row % 300 + 1], axis=1)
    matrices = {"selected_checkins": rows.astype(np.uint16), "selected_users_IDs": np.arange(6_378)}
    savemat(tmp_path / "dataset_connected_KualaLampur.mat", matrices, do_compression=True)
    log = load_log("kuala-lumpur", tmp_path)
    assert (log.title, log.users, log.generated) == ("Foursquare Kuala Lumpur", 6_378, False)
    found = np.stack([log.table["user"].to_numpy(), log.table["item"].to_numpy()], axis=1)
    assert (found[np.lexsort(found.T[::-1])] == np.unique(rows[:, [0, 2]], axis=0)).all()


@pytest.mark.parametrize(
    "content",
    [
        b"no matrix",
        b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM" + bytes(400),
        {"others": np.ones((2, 4))},
        {"selected_checkins": np.ones((2, 3))},
        {"selected_checkins": np.full((2, 4), 0.5)},
        {"selected_checkins": np.full((2, 4), np.nan)},
        {"selected_checkins": np.full((2, 4), np.inf)},
        {"selected_checkins": np.array([["a", "b", "c", "d"]], dtype=object)},
    ],
)
def test_another_matlab_file_is_refused(content, tmp_path):
    path = tmp_path / "dataset_connected_KualaLampur.mat"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        savemat(path, content)
    with pytest.raises(SourceError, match="selected_checkins") as refused:
        read_lbsn(path)
    assert refused.value.__cause__ is None


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


LOADERS = {"covid": load_covid, "celeba": load_celeba}


@pytest.mark.parametrize("name", SOURCES)
def test_a_given_directory_must_hold_the_file_and_the_refusal_says_where_to_get_it(name, tmp_path):
    load = LOADERS.get(name) or (lambda data: (load_log if name in LOGS else load_multilabel)(name, data))
    with pytest.raises(SourceError, match="the data directory must hold") as refused:
        load(tmp_path)
    source = SOURCES[name]
    for words in (
        f"published as {source.publisher}",
        f"get it from {source.page}",
        *source.forms[0],
        *source.forms[-1],
    ):
        assert words in str(refused.value)


def test_the_page_on_data_names_every_file_and_where_it_is_published():
    page = (Path(__file__).parents[2] / "docs/reproduce/data.md").read_text(encoding="utf-8")
    for source in SOURCES.values():
        assert f"| {source.title} |" in page
        assert source.page in page
        assert all(f"`{file}`" in page for form in source.forms for file in form)


def test_what_a_directory_holds_can_be_asked_for(tmp_path):
    names = ["celeba", "gowalla", "fimi_retail"]
    assert available(names, None) == (tuple(names), ())
    with pytest.raises(SourceError, match="at least one of CelebA attributes, Gowalla, Retail baskets; got none"):
        available(names, tmp_path)
    with pytest.raises(SourceError, match="must be a directory"):
        available(names, tmp_path / "none")
    with pytest.raises(ParameterError, match="known one"):
        available(["nowhere"], tmp_path)
    (tmp_path / "retail.dat").touch()
    (tmp_path / "list_attr_celeba.txt").touch()
    held, absent = available(names, tmp_path)
    assert held == ("fimi_retail",)
    assert len(absent) == 2
    assert "CelebA attributes: not run; the data directory is without list_eval_partition.txt" in absent[0]
    assert "without loc-gowalla_totalCheckins.txt.gz" in absent[1]
    assert "snap.stanford.edu, page loc-gowalla" in absent[1]


def test_the_directory_must_be_one(tmp_path):
    with pytest.raises(SourceError, match="must be a directory"):
        load_covid(tmp_path / "none")
    with pytest.raises(ParameterError, match="known one"):
        load_log("nowhere", None)
    with pytest.raises(ParameterError, match="known one"):
        load_multilabel("nothing", None)


@pytest.mark.parametrize("name", ["foursquare_nyc", "brightkite"])
def test_a_generated_log_has_the_shape_it_promises_and_says_what_it_is(name):
    log, known = load_log(name, None), LOGS[name].packed
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


def test_a_state_has_no_case_before_its_first_row(tmp_path):
    lines = [line for line in us_states().splitlines() if ",S07," not in line or line >= "2020-04-02"]
    (tmp_path / "us-states.csv").write_text("\n".join(lines) + "\n")
    cases = load_covid(tmp_path).cumulative[:, 7]
    assert (cases[:32] == 0).all()
    assert cases[32] == (32 + 2) * 8


@pytest.mark.parametrize("day", ["2020-03-01", "2020-03-20", "2020-06-30"])  # S07 has rows before March
@pytest.mark.parametrize(("times", "words"), [(0, "none"), (2, "more than one")])
def test_a_day_of_a_state_that_is_missing_or_doubled_is_refused(day, times, words, tmp_path):
    lines = [line for line in us_states().splitlines() for _ in range(times if line.startswith(f"{day},S07,") else 1)]
    (tmp_path / "us-states.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(SourceError, match=f"one row a day .* got {words} for S07 on {day} in 'us-states.csv'"):
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


def arff(rows, attributes):
    head = "".join(f"@attribute {name} {{0,1}}\n" for name in attributes)
    return f"@relation made\n\n{head}\n@data\n" + "".join(f"{row}\n" for row in rows)


def xml(labels):
    body = "".join(f'<label name="{name}"></label>\n' for name in labels)
    return f'<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="made.example/labels">\n{body}</labels>'


def test_the_publishers_labels_are_read_with_their_split(tmp_path):
    labels = [f"class{i + 1:02d}" for i in range(22)]
    attributes = [*(f"word{i}" for i in range(500)), *labels]
    rows = [f"{{{i % 500} 1,{500 + i % 22} 1}}" for i in range(28_596)]
    (tmp_path / "tmc2007-500-train.arff").write_text(arff(rows[:21_519], attributes))
    (tmp_path / "tmc2007-500-test.arff").write_text(arff(rows[21_519:], attributes))
    with pytest.raises(SourceError, match=r"without tmc2007\.xml"):
        load_multilabel("tmc2007", tmp_path)
    (tmp_path / "tmc2007.xml").write_text(xml(labels))
    reports = load_multilabel("tmc2007", tmp_path)
    assert (reports.title, reports.generated, reports.labels) == ("TMC2007", False, tuple(labels))
    each = np.arange(28_596)
    assert (reports.features == (each[:, None] % 500 == np.arange(500))).all()
    assert (reports.values == (each[:, None] % 22 == np.arange(22))).all()
    assert (reports.split == (each >= 21_519)).all()


@pytest.fixture
def mulan(tmp_path):
    """Read four attributes, two of them labels with awkward names, from made files."""

    def read(
        train=("{0 1, 3 1}", "% a remark", "", "{}"),
        test=("0,1,1,0",),
        labels=("TAG_m'usica", "TAG_dise\\~no"),
        other=0,
    ):
        attributes = ["a", r"'TAG_m\'usica'", "b", r"TAG_dise\~no"]
        paths = [tmp_path / name for name in ("train.arff", "test.arff", "labels.xml")]
        paths[0].write_text(arff(train, attributes))
        paths[1].write_text(arff(test, attributes[other:]))
        paths[2].write_text(xml(labels) if isinstance(labels, tuple) else labels)
        return read_mulan(*paths)

    return read


def test_sparse_and_dense_rows_and_quoted_names_are_read(mulan):
    found = mulan()
    assert found.labels == ("TAG_m'usica", "TAG_dise\\~no")
    assert found.features.astype(int).tolist() == [[1, 0], [0, 0], [0, 1]]
    assert found.values.astype(int).tolist() == [[0, 1], [0, 0], [1, 0]]
    assert found.split.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"train": ["{0 2}"]}, "ARFF with values 0 and 1"),
        ({"train": ["{4 1}"]}, "ARFF"),
        ({"train": ["{-1 1}"]}, "ARFF"),
        ({"train": ["{0 yes}"]}, "ARFF"),
        ({"train": ["{0}"]}, "ARFF"),
        ({"test": ["1"]}, "ARFF"),
        ({"test": ["0,1,1,7"]}, "ARFF"),
        ({"other": 1, "test": ["{0 1}"]}, "same attributes"),
        ({"labels": ("TAG_x",)}, "every label of the header"),
        ({"labels": ()}, "every label of the header"),
        ({"labels": "<labels>"}, "must be XML"),
    ],
)
def test_misshapen_label_files_are_refused(changed, rule, mulan):
    with pytest.raises(SourceError, match=rule) as refused:
        mulan(**changed)
    assert refused.value.__cause__ is None


def test_a_file_without_data_is_no_arff(tmp_path):
    (tmp_path / "a.arff").write_text("@relation made\n@attribute a {0,1}\n")
    (tmp_path / "a.xml").write_text(xml(["a"]))
    with pytest.raises(SourceError, match="ARFF"):
        read_mulan(tmp_path / "a.arff", tmp_path / "a.arff", tmp_path / "a.xml")
