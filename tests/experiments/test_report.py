import csv
import io
import math
from dataclasses import replace

import pytest

from cutline.errors import ParameterError
from experiments.report import Estimate, Figure, Report, Table, check_directory


def draw(figure):
    axes = figure.add_subplot()
    axes.plot([1, 2, 3], [0.2, 0.5, 0.9], label="line")
    axes.legend()


TABLE = Table(
    name="recall",
    title="Recall",
    columns=("mechanism", "k", "recall"),
    rows=(("EM|CDP", 10, Estimate(0.75, 0.0123)), ("TS", 10, None)),
    note="A note.",
)
REPORT = Report(
    name="study",
    title="A study",
    parts=("Some *words*.", TABLE, Figure(name="curve", title="A curve", draw=draw, size=(3.0, 2.0))),
)


def test_a_report_becomes_a_page_with_its_tables_and_figures_beside_it(tmp_path):
    written = REPORT.write(tmp_path / "new" / "folder")
    assert [path.name for path in written] == ["study.md", "study-recall.csv", "study-curve.png", "study-curve.svg"]
    page = written[0].read_text(encoding="utf-8")
    assert page.startswith(
        "# A study\n\nSome *words*.\n\n**Recall**\n\n| mechanism | k | recall |\n| --- | ---: | ---: |"
    )
    assert "| EM\\|CDP | 10 | 0.750 ± 0.012 |" in page
    assert "A note.\n\n[CSV](study-recall.csv)" in page
    assert "![A curve](study-curve.png)" in page
    assert written[2].read_bytes().startswith(b"\x89PNG")
    assert ">line<" in written[3].read_text(encoding="utf-8")  # text stays text


def test_equal_reports_give_equal_files(tmp_path):
    once, again = REPORT.write(tmp_path / "a"), REPORT.write(tmp_path / "b")
    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]


def test_csv_gives_an_estimate_two_columns_and_leaves_what_is_missing_empty():
    rows = list(csv.reader(io.StringIO(TABLE.csv())))
    assert rows == [
        ["mechanism", "k", "recall", "recall (error)"],
        ["EM|CDP", "10", "0.75", "0.0123"],
        ["TS", "10", "", ""],
    ]


def test_a_table_names_the_second_number_of_its_estimates():
    assert (
        replace(TABLE, spread="standard deviation").csv().startswith("mechanism,k,recall,recall (standard deviation)\n")
    )


def test_numbers_are_set_to_the_right_as_text_too():
    table = Table(name="t", title="", columns=("a", "b", "c"), rows=(("0.4", "none", None), ("12", "0.8", None)))
    assert [table.numeric(i) for i in range(3)] == [True, False, False]
    assert "| ---: | --- | --- |" in table.markdown()


def test_an_unknown_error_is_a_dash_on_the_page_and_empty_in_the_csv():
    table = replace(TABLE, rows=(("EM", 1, Estimate(0.75, math.inf)), ("TS", 1, math.inf)))
    assert "| EM | 1 | 0.750 ± – |\n| TS | 1 | – |" in table.markdown()
    assert table.csv().splitlines()[1:] == ["EM,1,0.75,", "TS,1,,"]
    assert table.to_dict()["rows"] == [["EM", 1, [0.75, None]], ["TS", 1, None]]


def test_a_simulated_page_says_how_often_and_from_which_seed(tmp_path):
    page = replace(REPORT, trials=1, seed=7).write(tmp_path)[0].read_text(encoding="utf-8")
    assert page.startswith("# A study\n\n*Simulated: 1 trial a cell, seed 7.*\n\nSome")


def test_a_directory_is_tried_without_leaving_anything(tmp_path):
    check_directory(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "kept").mkdir()
    check_directory(tmp_path / "kept" / "new")
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_file_in_the_way_of_a_directory_is_refused(tmp_path, below):
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="can be written"):
        check_directory(tmp_path / "file" / below)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_ragged_table_is_refused():
    with pytest.raises(ParameterError, match="one cell per column"):
        Table(name="t", title="", columns=("a", "b"), rows=((1,),))


def test_a_report_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="can be written"):
        REPORT.write(tmp_path / "file")
