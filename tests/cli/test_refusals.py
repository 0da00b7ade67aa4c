import json

import pytest

from cutline.cli.door import UNEXPECTED
from cutline.errors import CutlineError
from cutline.quote import TopWork

SECRET = "Alice-7319"


@pytest.fixture
def log(write_log):
    return write_log([(SECRET, SECRET), ("b", "x")])


COLUMNS = ["--user", "user", "--item", "item"]
FAST = [*COLUMNS, "--test", "paper"]  # its calibration takes no search

PARAMETERS = [
    (["--max-k", 0], "max_k"),
    (["--max-k", -3], "max_k"),
    (["--epsilon", "-1"], "epsilon"),
    (["--epsilon", "0"], "epsilon"),
    (["--epsilon", "nan"], "epsilon"),
    (["--epsilon", "inf"], "epsilon"),
    (["--delta", "-1e-6"], "delta"),
    (["--delta", "0"], "delta"),
    (["--delta", "nan"], "delta"),
    (["--delta", "inf"], "delta"),
    (["--delta", "1"], "delta"),
    (["--delta", "1.5"], "delta"),
    (["--releases", 0], "releases"),
    (["--min-k", 0], "min_k"),
    (["--min-k", 101], "min_k"),
    (["--target", 200, "--weight", 1], "target"),
    (["--weight", 1], "target"),
    (["--weight", "nan", "--target", 3], "weight"),
    (["--weight", "-1", "--target", 3], "weight"),
    (["--clip", 0], "clip"),
    (["--choose", "argmax", "--test", "gaussian"], "argmax"),
    (["--mechanism", "no-such"], "no-such"),
]
SOURCES = [
    (["--where", "item IN (SELECT item FROM log)"], "where"),
    (["--where", "1; DROP TABLE log"], ""),
    (["--where", "random() < 0.5"], ""),
    (["--where", f"error('{'x' * 3}')"], ""),
    (["--memory-limit", "plenty"], "memory_limit"),
    (["--user", "absent"], "absent"),
    (["--user", "User"], "User"),
    (["--item", 'item"; DROP TABLE log; --'], "DROP TABLE"),
    (["--plot", "figure.pdf"], ".png"),
    (["--plot", "no/such/folder/figure.png"], "no/such/folder"),
    (["--candidates", "absent.txt"], "absent.txt"),
]


@pytest.mark.parametrize(("options", "named"), PARAMETERS + SOURCES)
def test_a_refusal_names_the_rule_and_exits_1(run, log, options, named):
    options = FAST + options if (options, named) in SOURCES else COLUMNS + options
    result = run("top", log, *options)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("cutline: ")
    assert named in result.stderr
    assert "Traceback" not in result.stderr
    assert SECRET not in result.stderr

    error = json.loads(run("top", log, *options, "--json").stdout)
    assert list(error) == ["error"]
    assert list(error["error"]) == ["rule", "value", "way_out"]
    assert named in " ".join(error["error"].values())


@pytest.mark.parametrize(("options", "named"), PARAMETERS)
def test_a_bad_parameter_is_refused_before_the_log_is_looked_for(run, options, named):
    result = run("top", "no-such-file.parquet", *COLUMNS, *options)
    assert result.exit_code == 1
    assert named in result.stderr
    assert "no-such-file" not in result.stderr


@pytest.mark.parametrize(("options", "named"), [p for p in PARAMETERS if "no-such" not in p])
def test_cost_refuses_the_same_parameters(run, options, named):
    result = run("cost", *options)
    assert (result.exit_code, result.stdout) == (1, "")
    assert named in result.stderr


@pytest.mark.parametrize("name", ["absent.parquet", "absent-*.csv", "log.xlsx", "."])
def test_a_log_that_cannot_be_opened(run, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.xlsx").write_text(SECRET)
    result = run("top", name, *FAST)
    assert (result.exit_code, result.stdout) == (1, "")
    assert SECRET not in result.stderr


def test_a_file_that_is_not_what_it_says(run, tmp_path):
    (tmp_path / "log.parquet").write_text(SECRET)
    result = run("top", tmp_path / "log.parquet", *FAST)
    assert (result.exit_code, result.stdout) == (1, "")
    assert SECRET not in result.stderr


def test_a_broken_row_is_never_quoted(run, tmp_path):
    (tmp_path / "log.json").write_text(f'{{"user": "{SECRET}", ')
    result = run("top", tmp_path / "log.json", *FAST)
    assert result.exit_code in (0, 1)
    assert SECRET not in result.output


def test_a_column_of_the_wrong_type(run, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"user": [1, 2], "item": [["a", "b"], ["c"]]}), path)
    result = run("top", path, *FAST)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "item" in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("twice.txt", b"a\nb\na\n", "repeat"),
        ("empty.txt", b"\n", "at least one"),
        ("latin.txt", "é".encode("latin-1"), "UTF-8"),
        ("list.json", b'{"a": 1}', "one list"),
        ("broken.json", b"[", "one list"),
        ("null.json", b"[null]", "one list"),
    ],
)
def test_candidates_that_are_no_list_of_items(run, log, tmp_path, name, content, named):
    (tmp_path / name).write_bytes(content)
    result = run("top", log, *FAST, "--candidates", tmp_path / name)
    assert (result.exit_code, result.stdout) == (1, "")
    assert named in result.stderr


def test_a_cell_that_breaks_an_expression_is_never_quoted(run, log):
    result = run("top", log, *FAST, "--where", "CAST(item AS INTEGER) > 3")
    assert result.exit_code in (0, 1)
    assert SECRET not in result.output


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_the_unexpected_keeps_its_words(run, log, monkeypatch, as_json):
    def broken(*args, **kwargs):
        raise RuntimeError(SECRET)

    monkeypatch.setattr(TopWork, "count", broken)
    result = run("top", log, *FAST, *as_json)
    assert result.exit_code == 1
    assert SECRET not in result.output
    if as_json:
        assert json.loads(result.stdout) == {"error": CutlineError(*UNEXPECTED).to_dict()}
    else:
        assert result.stderr == f"cutline: {CutlineError(*UNEXPECTED)}\n"


def test_an_interrupt_ends_quietly(run, log, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(TopWork, "count", interrupted)
    result = run("top", log, *FAST)
    assert (result.exit_code, result.stdout) == (130, "")
    assert "Interrupted" in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["top"],
        ["top", "log.csv"],
        ["top", "log.csv", "--user", "u"],
        ["top", "log.csv", *COLUMNS, "--max-k", "many"],
        ["top", "log.csv", *COLUMNS, "--max-k", "1.5"],
        ["top", "log.csv", *COLUMNS, "--epsilon", "one"],
        ["top", "log.csv", *COLUMNS, "--choose", "lot"],
        ["top", "log.csv", *COLUMNS, "--adjacency", "near"],
        ["top", "log.csv", *COLUMNS, "--frobnicate"],
        ["cost", "--test", "best"],
        ["demo", "--seed", "-1"],
        ["verify", "extra"],
        ["no-such-command"],
    ],
)
def test_wrong_usage_exits_2(run, args):
    result = run(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage: " in result.stderr
