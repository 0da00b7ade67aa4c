"""The hash chain: what another hand changes is refused before a charge, or found by the audit."""

import random
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from cutline.errors import ParameterError, SchemaError, UnsettledError
from cutline.ledger import Ledger
from cutline.ledger.address import parse_address
from cutline.ledger.chain import START, digest_state, hash_link
from cutline.privacy import Budget

HOW = {"name": "test", "max_k": 3}
BUDGET = Budget(epsilon=1.0, delta=1e-6, releases=10)
FILTER = BUDGET.filter(order=16.0, delta_share=0.25)
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # thousands of flushes prove nothing here


def by_another_hand(url, *statements):
    """Change the tables without Cutline, with the triggers out of the way."""
    engine = create_engine(parse_address(url))
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SET session_replication_role = replica"))
        else:
            for (name,) in connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).all():
                connection.execute(text(f"DROP TRIGGER {name}"))
        for statement in statements:
            assert connection.execute(text(statement)).rowcount > 0
    engine.dispose()


def live(ledger, cost, cheaper, ran):
    """Write every kind of row and link, one transaction at a time; yield the head after each."""
    made = {}

    def reserve(name, **others):
        made[name] = ledger.reserve(cost, mechanism=HOW, **others)

    for act in (
        lambda: ledger.create("other", budget=BUDGET, limits=FILTER, owner="eve", analysts=["bob", "joe"]),
        lambda: reserve("first", dataset="visits", analyst="bob", question={"k": 3}, data_version="1"),
        lambda: ledger.settle(made["first"], ran(cheaper), answer={"items": ["a"]}),
        lambda: reserve("second", dataset="other", analyst="joe", purpose="why not"),
        lambda: ledger.limit("visits", "bob", share=0.5),
        lambda: ledger.limit("visits", "bob", share=0.75),
        lambda: ledger.note(made["second"].id, "lost"),
        lambda: ledger.settle(made["second"], ran(cost)),
        lambda: reserve("third", dataset="visits", analyst="eve"),
        lambda: ledger.allow("other", "eve"),
        lambda: ledger.close("other"),
    ):
        act()
        yield ledger.show("visits").head


def test_an_audit_of_untouched_books_passes_with_every_head(ledger, cost, cheaper, ran):
    heads = [ledger.show("visits").head, *live(ledger, cost, cheaper, ran)]
    assert len(set(heads)) == len(heads)
    for head in (None, *heads, heads[0].upper()):
        found = ledger.audit(head)
        assert (found.findings, found.head, found.datasets, found.entries) == ((), heads[-1], 2, 3)
    assert found.passed
    assert found.links == len(heads) + 2  # each of the three analysts who were allowed has a link, two of them at once
    assert ledger.show("visits").to_dict()["head"] == ledger.show("other").head == found.head == heads[-1]
    assert not ledger.audit("0" * 64).passed
    for wrong in ("", "abc", 7, "g" * 64):
        with pytest.raises(ParameterError, match="64 hexadecimal digits"):
            ledger.audit(wrong)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE cutline_datasets SET spent_rdp = '0'",
        "UPDATE cutline_datasets SET spent_delta = '1/1000000000'",
        "UPDATE cutline_datasets SET filter_rdp = '100.0'",
        "UPDATE cutline_datasets SET epsilon = '50.0'",
        "UPDATE cutline_datasets SET limited = 0",
        "UPDATE cutline_datasets SET entries = entries - 1",
        "UPDATE cutline_analysts SET limit_rdp = NULL, limit_delta = NULL",
        "UPDATE cutline_analysts SET spent_rdp = '0'",
        "DELETE FROM cutline_analysts",
        "DELETE FROM cutline_links WHERE number = 2",  # the limit
        "DELETE FROM cutline_links WHERE number = 3",  # the last link, but not what it stands for
        "UPDATE cutline_links SET state = 'x' WHERE number = 3",
    ],
)
def test_what_another_hand_changed_refuses_every_charge(ledger, url, cost, ran, statement):
    ledger.limit("visits", "bob", share=0.5)
    reservation, result = ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob"), ran(cost)
    by_another_hand(url, statement)
    with Ledger(url) as books:  # one that has seen nothing before
        for act in (
            lambda: books.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob"),
            lambda: books.limit("visits", "bob", share=1.0),
            lambda: books.close("visits"),
        ):
            with pytest.raises(SchemaError, match=r"last link|is not what was linked"):
                act()
        with pytest.raises(UnsettledError) as unsettled:
            books.settle(reservation, result)
        assert unsettled.value.release is result
        assert not books.audit().passed


def test_an_entry_that_was_raised_gives_nothing_back(ledger, url, cost, cheaper, ran):
    """A reserve that looks larger than it was would be refunded for more than was charged."""
    reservation = ledger.reserve(cost, dataset="visits", mechanism=HOW)
    ledger.limit("visits", "bob", share=0.5)  # so that the entry is not what the last link stands for
    by_another_hand(url, "UPDATE cutline_entries SET reserved_rdp = '99/100'")
    with pytest.raises(UnsettledError, match="must be what its link says"):
        ledger.settle(reservation, ran(cheaper))
    (finding,) = [one for one in ledger.audit().findings if "entry" in one]
    assert finding == f"the reserve row of entry {reservation.id} is not what was linked"


def test_limits_outside_the_budget_are_refused_even_if_the_chain_was_written_anew(ledger, url, cost):
    """Whoever can write everything can write a chain that fits; the limits are still held against the budget."""
    engine = create_engine(parse_address(url))
    with engine.connect() as connection:
        row = connection.execute(text("SELECT * FROM cutline_datasets")).one()
        link = dict(connection.execute(text("SELECT * FROM cutline_links")).one()._mapping)
    engine.dispose()
    forged = dict(row._mapping) | {"filter_rdp": "100.0"}

    class Forged:
        _mapping = forged

    link["state"] = digest_state(Forged, [])
    link["hash"] = hash_link(START, link)
    by_another_hand(
        url,
        "UPDATE cutline_datasets SET filter_rdp = '100.0'",
        f"UPDATE cutline_links SET state = '{link['state']}', hash = '{link['hash']}'",
    )
    with Ledger(url) as books, pytest.raises(SchemaError, match="limits must lie within its budget"):
        books.reserve(cost, dataset="visits", mechanism=HOW)
    assert any("not within its budget" in one for one in ledger.audit().findings)


def test_an_open_ledger_notices_that_the_books_were_put_back(file_ledger, tmp_path, cost):
    """The file is the same file, and its content is of yesterday: the link this ledger wrote last is not there."""
    path = tmp_path / "books.db"
    yesterday = path.read_bytes()
    file_ledger.reserve(cost, dataset="visits", mechanism=HOW)
    file_ledger._database.close()
    path.write_bytes(yesterday)
    with pytest.raises(SchemaError, match="put back to an earlier time"):
        file_ledger.reserve(cost, dataset="visits", mechanism=HOW)
    with Ledger(path) as stranger:  # nobody who has not seen it can tell, without a head
        assert stranger.audit().passed
        stranger.reserve(cost, dataset="visits", mechanism=HOW)
    with pytest.raises(SchemaError, match="put back to an earlier time"):
        file_ledger.reserve(cost, dataset="visits", mechanism=HOW)


def change_one_row(path, choice):
    """Change one value of one row, or take a row away, or write one twice; return what was done."""
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        for (trigger,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {trigger}")
        found = raw.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        table = choice.choice([name for (name,) in found])
        columns = [row[1] for row in raw.execute(f"PRAGMA table_info({table})")]
        key = choice.choice(raw.execute(f"SELECT rowid FROM {table} ORDER BY rowid").fetchall())[0]
        if choice.random() < 0.2:
            raw.execute(f"DELETE FROM {table} WHERE rowid = ?", (key,))
            return f"{table}: row {key} deleted"
        column = choice.choice(columns)
        (old,) = raw.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (key,)).fetchone()
        values = [
            0,
            1,
            7,
            "0",
            "1/1024",
            "x",
            "",
            "{}",
            '{"name":"other"}',
            "2026-01-01T00:00:00.000000Z",
            *(value for (value,) in raw.execute(f"SELECT {column} FROM {table}")),
        ]
        if isinstance(old, int):
            values += [old + 1, old - 1]
        new = choice.choice([value for value in values if value is not None and str(value) != str(old)])
        try:
            raw.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (new, key))
        except sqlite3.IntegrityError:  # a key that another row has
            raw.execute(f"DELETE FROM {table} WHERE rowid = ?", (key,))
        return f"{table}.{column} of row {key}: {old!r} to {new!r}"


@pytest.mark.slow
def test_the_audit_finds_every_changed_row_and_every_cut_tail(cost, cheaper, ran):
    choice, cut = random.Random(14), 0
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path, tried = Path(folder) / "books.db", Path(folder) / "tried.db"
        with Ledger(path) as ledger:
            ledger.create("visits", budget=BUDGET, limits=FILTER, owner="ann")
            heads, moments = zip(*((head, path.read_bytes()) for head in live(ledger, cost, cheaper, ran)), strict=True)
        tried.touch()
        with Ledger(tried) as books:
            for trial in range(500):
                books._database.close()
                tried.write_bytes(moments[-1] if trial % 10 else choice.choice(moments[:-1]))
                what = change_one_row(tried, choice) if trial % 10 else "cut"
                try:
                    findings = books.audit(heads[-1]).findings
                    if what == "cut":
                        assert books.audit().passed  # what a chain without an outside head cannot show
                        cut += 1
                except SchemaError:  # no layout, or rows that cannot be read
                    findings = ("unreadable",)
                assert findings, what
    assert cut == 50
