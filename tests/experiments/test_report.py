import csv
import io
import math
from dataclasses import replace

import pytest

from cutline.errors import ParameterError
from experiments.figures import Figure
from experiments.report import Estimate, StudyReport, Table, check_directory, fill_page


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
REPORT = StudyReport(
    name="study",
    title="A study",
    notes=("A log, made up.", "Another."),
    parts=(TABLE, Figure(name="curve", title="A curve", draw=draw, size=(3.0, 2.0))),
)


RUN = "*No data are read; 3 trials a cell, seed 7.*"


def test_a_report_becomes_a_page_with_its_tables_and_figures_beside_it(tmp_path):
    written = REPORT.write(tmp_path / "new" / "folder", RUN)
    assert [path.name for path in written] == ["study.md", "study-recall.csv", "study-curve.png", "study-curve.svg"]
    page = written[0].read_text(encoding="utf-8")
    assert page.startswith(
        f"# A study\n\n{RUN}\n\n- A log, made up.\n- Another.\n\n**Recall**\n\n| mechanism | k | recall |\n"
    )
    assert "|\n| --- | ---: | ---: |\n" in page
    assert "| EM\\|CDP | 10 | 0.750 ± 0.012 |" in page
    assert "A note.\n\n[CSV](study-recall.csv)" in page
    assert "![A curve](study-curve.png)" in page
    assert written[2].read_bytes().startswith(b"\x89PNG")
    assert ">line<" in written[3].read_text(encoding="utf-8")  # text stays text


def test_equal_reports_give_equal_files(tmp_path):
    once, again = REPORT.write(tmp_path / "a", RUN), REPORT.write(tmp_path / "b", RUN)
    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]


def test_csv_gives_an_estimate_two_columns_and_leaves_what_is_missing_empty():
    rows = list(csv.reader(io.StringIO(TABLE.to_csv())))
    assert rows == [
        ["mechanism", "k", "recall", "recall (error)"],
        ["EM|CDP", "10", "0.75", "0.0123"],
        ["TS", "10", "", ""],
    ]


def test_a_table_names_the_second_number_of_its_estimates():
    assert (
        replace(TABLE, spread="standard deviation")
        .to_csv()
        .startswith("mechanism,k,recall,recall (standard deviation)\n")
    )


def test_numbers_are_set_to_the_right_as_text_too():
    table = Table(name="t", title="", columns=("a", "b", "c"), rows=(("0.4", "none", None), ("12", "0.8", None)))
    assert [table.is_numeric(i) for i in range(3)] == [True, False, False]
    assert "| ---: | --- | --- |" in table.to_markdown()


def test_an_unknown_error_is_a_dash_on_the_page_and_empty_in_the_csv():
    table = replace(TABLE, rows=(("EM", 1, Estimate(0.75, math.inf)), ("TS", 1, math.inf)))
    assert "| EM | 1 | 0.750 ± – |\n| TS | 1 | – |" in table.to_markdown()
    assert table.to_csv().splitlines()[1:] == ["EM,1,0.75,", "TS,1,,"]
    assert table.to_dict()["rows"] == [["EM", 1, [0.75, None]], ["TS", 1, None]]


HAND_WRITTEN = f"""# A page

{RUN}

Three *words*, by hand.

<!-- figure curve -->
<!-- end -->

More words.

<!-- table recall -->
| of | another |
<!-- end -->

Last words.
"""


def test_a_hand_written_page_keeps_its_words_and_gets_the_tables_and_figures_of_its_run(tmp_path):
    (tmp_path / "study.md").write_text(HAND_WRITTEN, encoding="utf-8")
    for _ in range(2):  # filling twice changes nothing
        page = REPORT.write(tmp_path, RUN)[0].read_text(encoding="utf-8")
        assert page == (
            f"# A page\n\n{RUN}\n\nThree *words*, by hand.\n\n"
            "<!-- figure curve -->\n\n![A curve](study-curve.png)\n\n*A curve* ([SVG](study-curve.svg))\n\n<!-- end -->\n\n"
            "More words.\n\n"
            f"<!-- table recall -->\n\n{TABLE.to_markdown()}\n\n[CSV](study-recall.csv)\n\n<!-- end -->\n\n"
            "Last words.\n"
        )


def test_a_hand_written_page_is_not_filled_by_another_run(tmp_path):
    (tmp_path / "study.md").write_text(HAND_WRITTEN, encoding="utf-8")
    with pytest.raises(ParameterError, match="run that the page speaks of"):
        REPORT.write(tmp_path, RUN.replace("seed 7", "seed 8"))
    assert [path.name for path in tmp_path.iterdir()] == ["study.md"]
    assert (tmp_path / "study.md").read_text(encoding="utf-8") == HAND_WRITTEN


@pytest.mark.parametrize("names", [["table a"], ["table a", "figure b", "figure c"], ["table a", "table b"]])
def test_a_page_must_have_one_place_for_every_part(names):
    page = "<!-- table a -->\n<!-- end -->\n\n<!-- figure b -->\n<!-- end -->\n"
    with pytest.raises(ParameterError, match="one place for every table and figure"):
        fill_page(page, dict.fromkeys(names, ""))


def test_a_short_page_of_an_earlier_run_is_replaced(tmp_path):
    REPORT.write(tmp_path, RUN)
    page = REPORT.write(tmp_path, "*Another run.*")[0].read_text(encoding="utf-8")
    assert "*Another run.*" in page
    assert RUN not in page


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
        REPORT.write(tmp_path / "file", RUN)
