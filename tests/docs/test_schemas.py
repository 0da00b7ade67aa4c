"""The JSON schemas of the documentation describe what the commands print, every key of it."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from typer.testing import CliRunner

from cutline.cli import app
from tests.docs.pages import ROOT

FOLDER = ROOT / "docs/reference/schemas"
SCHEMAS = {
    path.name.removesuffix(".schema.json"): json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.schema.json")
}
REGISTRY = Registry().with_resources(
    [(f"{name}.schema.json", Resource.from_contents(body)) for name, body in SCHEMAS.items()]
)
OWN = {  # keys that a command adds to what its schema describes
    "top": {"unsettled"},
    "ledger answer": {"unsettled"},
    "label": {"unsettled", "unwritten"},
    "demo": {"true_k", "true_items", "one_gap", "one_gap_paper"},
}
ASKED = ("--user", "user_id", "--item", "venue")
BOOKS = ("--ledger", "books.db", "--dataset", "visits")
COMMANDS = [  # the command, its arguments, its schema; in this order, in one folder
    ("ledger init", (*BOOKS, "--epsilon", "1", "--releases", "10", "--owner", "ann"), "account"),
    ("top", ("visits.parquet", *ASKED, "--counts", *BOOKS), "release"),
    ("top", ("visits.parquet", *ASKED, "--counts", "--full", *BOOKS), "release"),
    ("top", ("visits.parquet", *ASKED, "--min-k", "3", "--max-k", "20"), "release"),
    ("top", ("visits.parquet", *ASKED, "--k", "2", "--mechanism", "limited-domain"), "release"),
    ("top", ("visits.parquet", *ASKED, "--by", "venue", "--groups", "groups.txt"), "table"),
    ("label", ("votes.npz", "--teachers", "250", "--epsilon", "3"), "labels"),
    ("label", ("votes.npz", "--teachers", "250", "--epsilon", "3", "--out", "labels.csv"), "labels"),
    ("ledger show", BOOKS, "account"),
    ("ledger limit", (*BOOKS, "--analyst", "bob", "--share", "0.25"), "account"),
    ("ledger history", BOOKS, "history"),
    ("ledger answer", ("1", "--ledger", "books.db"), "release"),
    ("ledger audit", ("--ledger", "books.db"), "audit"),
    ("ledger close", BOOKS, "account"),
    ("explain", ("release.json",), "page"),
    ("cost", (), "cost"),
    ("plan", ("--max-k", "20", "--mechanism", "joint-stable", "--prior", "published.json", "--want", "0.9"), "plan"),
    ("plan-labels", ("--records", "9000", "--labels", "2", "--epsilon", "2", "--teachers", "50"), "label-plan"),
    ("mechanisms", (), "mechanisms"),
    ("demo", (), "release"),
    ("top", ("nowhere.csv", *ASKED), "error"),
    ("ledger show", ("--ledger", "books.db", "--dataset", "unheard"), "error"),
]


def find_faults(name, printed):
    """Return where what was printed breaks its schema."""
    validator = Draft202012Validator(SCHEMAS[name], registry=REGISTRY)
    return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(printed)]


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What each command printed, in order."""
    folder = tmp_path_factory.mktemp("schemas")
    rows = [(f"u{i}", place) for i in range(900) for place in ("castle", "harbour")]
    who, where = (list(column) for column in zip(*rows, strict=True))
    pq.write_table(pa.table({"user_id": who, "venue": where}), folder / "visits.parquet")
    (folder / "groups.txt").write_text("castle\nharbour\n", encoding="utf-8")
    (folder / "published.json").write_text(json.dumps({f"hit {n}": 300 if n < 6 else 100 for n in range(30)}), "utf-8")
    np.savez(folder / "votes.npz", votes=np.array([[240, 3], [120, 5]]))
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command, arguments, _ in COMMANDS:
            ran = CliRunner().invoke(app, [*command.split(), *arguments, "--json"], prog_name="cutline")
            found.append(json.loads(ran.stdout))
            if command == "top" and not (folder / "release.json").exists():
                (folder / "release.json").write_text(ran.stdout, encoding="utf-8")
    return found


def test_what_commands_print_fits_the_schemas(printed):
    for (command, arguments, name), answer in zip(COMMANDS, printed, strict=True):
        assert find_faults(name, answer) == [], (command, *arguments)


def test_every_key_that_is_printed_is_described(printed):
    for (command, arguments, name), answer in zip(COMMANDS, printed, strict=True):
        described = set(SCHEMAS[name]["properties"]) | OWN.get(command, set())
        assert set(answer) <= described | ({"unsettled"} if name == "table" else set()), (command, *arguments)


def test_every_status_but_empty_was_among_them(printed):
    assert {answer.get("status") for answer in printed} >= {"released", "withheld"}
    assert {name for _, _, name in COMMANDS} == set(SCHEMAS)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_schema_is_one_and_can_refuse(name):
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$id"] == f"{name}.schema.json"
    assert find_faults(name, {}) != []
    assert find_faults(name, []) != []


def test_a_release_with_a_wrong_part_is_refused(printed):
    release = next(answer for answer in printed if answer.get("ledger"))
    assert find_faults("release", release) == []
    for change in (
        {"status": "fine"},
        {"k": -1},
        {"items": "castle"},
        {"ledger": {"dataset": "visits"}},
        {"counts": [0.5]},
    ):
        assert len(find_faults("release", release | change)) >= 1, change
