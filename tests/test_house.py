"""The plan of the house: one way through it, rooms that import downwards only, and no fragments."""

import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from cutline.demo import write_checkins

SOURCE = Path(__file__).parents[1] / "src" / "cutline"
STAGES = {
    ("cli/top.py", "top"): "ask",
    ("quote.py", "quote"): "quote",
    ("payment.py", "Terms.pay"): "pay",
    ("quote.py", "TopWork.count"): "count",
    ("quote.py", "TopWork.draw"): "draw",
    ("payment.py", "Terms.settle"): "settle",
    ("release.py", "Release.to_dict"): "release",
}
ORDER = list(STAGES.values())
READING = ("counting/__init__.py", "_EngineLog.count")

# Runs the command line and prints every call of a function of the package, in order, as a line of standard error. What modules
# call while they are imported (decorators, say) is not part of the way.
TRACE = """
import sys, threading
from cutline.cli import main

def watch(frame, event, _):
    code = frame.f_code
    if event != "call" or not code.co_flags & 1 or not code.co_filename.startswith(PACKAGE):
        return
    caller = frame.f_back
    while caller is not None:
        if caller.f_code.co_name == "<module>" and caller.f_code.co_filename.startswith(PACKAGE):
            return
        caller = caller.f_back
    if not frame.f_back.f_code.co_filename.startswith("<frozen importlib"):
        calls.append((code.co_filename.removeprefix(PACKAGE), code.co_qualname))

calls, PACKAGE = [], sys.argv.pop()
threading.setprofile(watch)
sys.setprofile(watch)
try:
    main()
finally:
    sys.setprofile(None)
    for file, function in calls:
        print(file, function, sep="\\t", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Every call of ``cutline top LOG --k 10 --ledger b.db --dataset d --json``, as (file, function)."""
    folder = tmp_path_factory.mktemp("house")
    write_checkins(folder / "log.parquet", users=1500, seed=2)
    account = ["--ledger", "b.db", "--dataset", "d"]
    make = ["-m", "cutline.cli", "ledger", "init", "--owner", "ann", "--epsilon", "3", "--releases", "10", *account]
    top = ["top", "log.parquet", "--user", "user_id", "--item", "venue", "--k", "10", "--json", *account]
    subprocess.run([sys.executable, *make], cwd=folder, check=True, capture_output=True)
    ran = subprocess.run(
        [sys.executable, "-c", TRACE, *top, f"{SOURCE}/"], cwd=folder, check=True, capture_output=True, text=True
    )
    assert json.loads(ran.stdout)["ledger"]["entries"] == 1
    return [tuple(line.split("\t")) for line in ran.stderr.splitlines() if "\t" in line]


def test_every_stage_is_passed_once_and_in_order(calls):
    assert [STAGES[call] for call in calls if call in STAGES] == ORDER


def test_each_room_does_its_own_part_of_the_way(calls):
    """Before the reserve no row is read, between reserve and settle no books are touched, and bits are drawn in one place."""
    stage, stages, seen = "start", [], {}
    for call in calls:
        stage = STAGES.get(call, stage)
        stages.append(stage)
        seen.setdefault(call[0].partition("/")[0], Counter())[stage] += 1
    assert set(seen["ledger"]) == {"quote", "pay", "settle"}
    assert set(seen["mechanisms"]) <= {"quote", "pay", "draw"}
    assert {stage for stage, call in zip(stages, calls, strict=True) if call == READING} == {"count"}
    assert set(seen["sampling"]) <= {"quote", "draw"}
    assert set(seen["counting"]) == {
        "quote",
        "count",
    }  # the question is checked and bound first; the rows are read later


def test_the_way_through_the_house_is_short(calls):
    files = {file for file, _ in calls}
    assert len(files) <= 40, " ".join(sorted(files))


def modules():
    """Every module of the package, by its dotted name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports():
    """What each module imports of the package: at its top, lazily, or for its types."""
    known = modules()
    edges = {}
    for name, path in known.items():
        wanted = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                # Of `from package import module` the module is meant, not the package.
                whole = [f"{node.module}.{alias.name}" for alias in node.names]
                wanted |= {each if each in known else node.module for each in whole}
            elif isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
        edges[name] = wanted & set(known) - {name}
    return edges


def cycles(edges):
    """Return what is left when modules that import nothing left are taken away, again and again."""
    left = {name: set(others) for name, others in edges.items()}
    while leaves := {name for name, others in left.items() if not others & set(left)}:
        left = {name: others for name, others in left.items() if name not in leaves}
    return left


def test_no_module_imports_itself_in_a_circle():
    edges = imports()
    edges.pop("cutline")  # the face names everything, lazily
    assert cycles({name: others - {"cutline"} for name, others in edges.items()}) == {}


def test_no_room_imports_another_in_a_circle():
    edges = imports()
    rooms = {}
    for name, others in edges.items():
        room = name.split(".")[1] if "." in name else ""
        rooms.setdefault(room, set()).update(other.split(".")[1] for other in others if "." in other)
    rooms.pop("")
    assert cycles({room: others - {room} for room, others in rooms.items()}) == {}


def test_the_check_for_circles_can_fail():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}).keys() == {"a", "b", "c", "d"}


# Short, asked for by one other module, and an idea of their own all the same.
IDEAS = {
    "cutline.cli.inspect",  # a command
    "cutline.cli.mechanisms",  # a command
    "cutline.service.practice",  # made-up logs
    *(f"cutline.privacy.rules.{rule}" for rule in ("gdp", "pure", "zcdp")),  # a rule each
}


def test_no_fragments():
    known, importers = modules(), Counter()
    for others in imports().values():
        importers.update(others)
    short = {
        name
        for name, path in known.items()
        if path.name not in ("__init__.py", "__main__.py")
        and len(path.read_text(encoding="utf-8").splitlines()) < 60
        and importers[name] <= 1
    }
    assert short == IDEAS


def test_the_house_stays_small():
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules().items()}
    # 20,000 when the house was moved; the rooms that came since (answers, the chain, joint draws, bounds) have their own part.
    # 32,000 with what people read: plans for an epsilon, pages for reviewers, next steps, networks as teachers.
    # 34,000 with answers as tables, figures of any script and in a terminal, and lists of every form.
    # 38,000 with the service: its office, its REST interface and its pages.
    # 40,000 with signing in through a provider, turns over processes, and pages that show what a question would find.
    assert sum(lines.values()) <= 40_000
    assert max(lines.values()) <= 400, max(lines, key=lines.get)
