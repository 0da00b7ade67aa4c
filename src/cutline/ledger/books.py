r"""The ledger: every release is reserved, and so paid for in full, before a row is read, and settled to what ran.

Reserving is one transaction: it reads the totals, checks both limits, writes the entry and raises the totals. Settling is
another, which adds a row of its own and lowers the totals to what ran. Whatever happens in between, the full charge is on the
books: a crash may waste budget, and never hides spending.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction

from sqlalchemy import Connection

from cutline.errors import LedgerUnavailable, ParameterError, SchemaError, SettlementError, UnsettledError, shortened
from cutline.ledger import charging, reading, tables
from cutline.ledger import owner as owning
from cutline.ledger.account import Account, Data, Entry, Priced, Reservation, Result, Settleable
from cutline.ledger.audit import Audit, audit, check_head
from cutline.ledger.chain import Head, OpenAccount, read_head
from cutline.ledger.database import Database
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.privacy.budget import Share, parse_share


class Ledger(AbstractContextManager["Ledger"]):
    r"""The books of one database.

    **Privacy.** All releases of a dataset that went through its ledger are together (epsilon, delta)-DP for the dataset's
    budget and adjacency, however each was chosen after seeing the others: the filter's order and limits are fixed before any
    data, each release's dearest path is within them before it runs, and the sums are exact [FZ21;
    docs/proofs/composition.md]. What is trusted: the database, and that every release of the dataset goes through it.

    Parameters
    ----------
    url
        A path or ``sqlite:///path`` (one file), or ``postgresql://host/database``. Nothing is opened before the first use.
        A ledger may be kept open for as long as one likes: between transactions it holds no lock. Leaving its ``with`` block
        closes its connections, any number of times, and the next use opens another.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from cutline import Budget, StableTopK, count
    >>> directory = tempfile.TemporaryDirectory()
    >>> with Ledger(str(pathlib.Path(directory.name) / "books.db")) as ledger:
    ...     ledger.create("visits", budget=Budget(epsilon=1.0, delta=1e-6, releases=10), owner="ann")
    ...     account = ledger.show("visits")
    ...     mechanism = StableTopK.calibrate(account.budget, limits=account.filter, max_k=20)
    ...     release = ledger.release(mechanism, lambda: count({"castle": 900, "kiosk": 3}, max_k=20), dataset="visits")
    ...     ledger.show("visits").remaining_releases
    9
    >>> directory.cleanup()
    """

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self._database = Database(url)
        self._checked = False
        self._known_costs: set[str] = set()  # digests of costs that are on the books; rows there are never deleted
        self._seen: Head | None = None  # the last link this ledger wrote

    def __repr__(self) -> str:
        return f"Ledger({self.address!r})"

    @property
    def address(self) -> str:
        """Where it is, as it may be shown: without user, password and options."""
        return self._database.printable_address

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def create(
        self,
        dataset: str,
        *,
        budget: Budget,
        limits: Filter | None = None,
        adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
        owner: str,
        unit: str | None = None,
        analysts: Iterable[str] | None = None,
    ) -> None:
        r"""Open an account: one budget, one filter, one adjacency, one privacy unit, for ever.

        Parameters
        ----------
        budget
            The total (epsilon, delta), and how many releases of the usual kind it is meant for.
        limits
            The order and limits that enforce it; None takes those that suit the default mechanism.
        adjacency, owner
            Who is protected, and who answers for the budget.
        unit
            The column that names those who are protected. If given, `cutline.top` refuses to count another one.
        analysts
            Who may ask; None lets everybody. Names are a record, taken as given, and no authentication.
        """
        listed = reading.check_names("analyst", analysts)
        row = owning.describe_account(
            dataset, budget=budget, limits=limits, adjacency=adjacency, owner=owner, unit=unit
        )
        self._database.create_file()
        with self._database.writing(create=True) as books:
            opened = owning.create_account(books, row, analysts=listed, seen=self._seen)
        self._checked, self._seen = True, opened.head

    def reserve(
        self,
        cost: Cost,
        *,
        dataset: str,
        analyst: str | None = None,
        mechanism: Mapping[str, object],
        question: Mapping[str, object] | None = None,
        data_version: str | None = None,
        purpose: str | None = None,
    ) -> Reservation:
        r"""Charge a worst-case cost, or refuse; no data is needed for either.

        Parameters
        ----------
        question, data_version
            What is asked, as public plain data (columns, filter, k, parameters), and of which version of the data.
            `find_answer` finds the answer to an equal question about an equal version again.
        purpose
            Why, in one line, for those who read the history.

        Raises
        ------
        BudgetError
            If it does not fit: what was needed, what is left, the largest epsilon that would fit.
        AdjacencyError, DatasetError, ParameterError
            For another relation, an unknown or closed dataset, an analyst who must be named or is not on the account's list.
        SchemaError
            If the account is not what its chain says, or its limits are not within its budget.
        LedgerUnavailable
            If the books cannot be written. Nothing may be released then.
        """
        asked = charging.Asked.check(
            analyst=analyst, mechanism=mechanism, question=question, data_version=data_version, purpose=purpose
        )
        with self._writing(dataset) as opened:
            reservation = charging.reserve(opened, cost, asked=asked, known_costs=self._known_costs)
        self._known_costs.add(reading.encode_cost(cost)[0])
        return reservation

    def settle(
        self,
        reservation: Reservation,
        release: Settleable,
        *,
        answer: Mapping[str, object] | None = None,
        cut: int | None = None,
    ) -> Account:
        r"""Lower a reservation's charge to what ran, once and never above the reserve, and keep what became public.

        The account that is returned is the dataset's right after this settlement, read in the same transaction.

        Parameters
        ----------
        answer
            What became public, as plain data. It is written in the same transaction; `answer` returns it.
        cut
            The cut at which a set went out; `last_cut` returns it. One that was not shown must not be given.

        Raises
        ------
        SettlementError
            For a seeded release, one above the reserve at the filter's order, or a reservation that is already settled or of
            other books. The reserve stays charged, and the release must not be used.
        UnsettledError
            If the books cannot be read or written now. It carries the release, which was paid for in full before it ran and
            may be used; the reserve stays charged.
        """
        plain = None if answer is None else reading.encode_in_order("an answer", answer)
        if cut is not None and not reading.is_key(cut):
            raise SettlementError("a cut is a whole number of at least 1", f"cut={shortened(cut)}", "Pass k, or None.")
        if release.seeded is not False:
            raise SettlementError(
                "a seeded draw is a simulation, not a release",
                "seeded=True",
                "Release with the operating system's source (no rng).",
            )
        try:
            with self._writing(reservation.dataset) as opened:
                account = charging.settle(
                    opened, reservation, release.cost, answer=plain, cut=cut, known_costs=self._known_costs
                )
        except (LedgerUnavailable, SchemaError) as error:
            reason = error
        else:
            self._known_costs.add(reading.encode_cost(release.cost)[0])
            return account
        raise UnsettledError(
            f"the release ran and stays charged in full, but could not be settled: {reason.rule}",
            reason.value,
            f"{reason.way_out} The charge is entry {reservation.id}; it is safe to leave it.",
            release=release,
        )

    def release(
        self, mechanism: Priced[Data, Result], read: Callable[[], Data], *, dataset: str, analyst: str | None = None
    ) -> Result:
        r"""Reserve a mechanism's dearest path, then read, release and settle; return what the mechanism returned.

        The mechanism is calibrated with the dataset's filter and draws with the operating system's source. ``read`` counts
        the data, and is called only after the reserve is on the books: check everything public before.
        """
        return self.run(
            lambda: mechanism.release(read()),
            cost=mechanism.cost,
            mechanism=mechanism.describe(),
            dataset=dataset,
            analyst=analyst,
        )

    def run(
        self,
        work: Callable[[], Result],
        *,
        cost: Cost,
        mechanism: Mapping[str, object],
        dataset: str,
        analyst: str | None = None,
    ) -> Result:
        r"""Reserve ``cost``, call ``work``, settle what it returns, and return it: the general form of `release`.

        Any failure after the reserve, an interrupt included, leaves the full charge. If the books cannot be told at the end,
        `UnsettledError` is raised and carries the result: it was paid for in full before it ran.
        """
        reservation = self.reserve(cost, dataset=dataset, analyst=analyst, mechanism=mechanism)
        result = work()
        self.settle(reservation, result)
        return result

    def limit(
        self,
        dataset: str,
        analyst: str,
        *,
        rdp: float | None = None,
        delta: float | None = None,
        share: Share | None = None,
    ) -> None:
        r"""Limit one analyst under the dataset's limits: to a share of both, or to an rdp and a delta at the filter's order.

        What the analyst has spent already counts. From then on every release of the dataset must name its analyst.
        """
        analyst = reading.check_name("analyst", analyst)
        part = float(parse_share(share)) if isinstance(share, str | Fraction) else share
        with self._writing(dataset) as opened:
            charging.limit_analyst(opened, analyst, rdp=rdp, delta=delta, share=part)

    def allow(self, dataset: str, analyst: str) -> None:
        r"""Put an analyst on the account's list; an account without a list begins one, and refuses everybody else then.

        Names are a record, taken as given, and no authentication: let the database's own accounts decide who may connect.
        """
        analyst = reading.check_name("analyst", analyst)
        with self._writing(dataset) as opened:
            charging.allow_analysts(opened, [analyst])

    def note(self, entry_id: int, text: str) -> None:
        """Write a note beside an entry, such as why a reservation was never settled. The charge stays, and so does the note."""
        key, text = reading.check_key(entry_id), reading.check_text("a note", text)
        with self._reading() as books:
            dataset = reading.name_of(books, reading.find_entry(books, key).dataset_id)
        with self._writing(dataset) as opened:
            opened.append("note", entry_id=key, detail={"note": text})

    def answer(self, entry_id: int) -> Entry:
        """Return an entry with its answer; the answer is None if the entry was not settled, or settled without one."""
        key = reading.check_key(entry_id)
        with self._reading() as books:
            return reading.read_answer(books, reading.find_entry(books, key))

    def find_answer(
        self, dataset: str, *, question: Mapping[str, object], data_version: str | None, analyst: str | None = None
    ) -> Entry | None:
        r"""Return the newest answer to an equal question about an equal version of the data, or None.

        Without a data version nothing is equal: rows may have changed. An account that lists its analysts answers them alone.
        """
        version = None if data_version is None else reading.check_name("data version", data_version)
        plain = reading.encode("a question", question)
        with self._reading_as(analyst, dataset) as (books, key):
            return None if version is None else reading.find_answer(books, key, plain, data_version=version)

    def last_cut(self, dataset: str, *, topic: Mapping[str, object], analyst: str | None = None) -> int | None:
        """Return the cut that went out last for a question with this ``topic``, whatever the version of the data, or None."""
        plain = reading.encode("a question", {"topic": topic})
        with self._reading_as(analyst, dataset) as (books, key):
            return reading.find_last_cut(books, key, plain)

    @contextmanager
    def _reading_as(self, analyst: str | None, dataset: str) -> Iterator[tuple[Connection, int]]:
        """Open a transaction that reads, with the dataset's key, for an analyst whom the account does not refuse."""
        analyst = None if analyst is None else reading.check_name("analyst", analyst)
        name = reading.check_name("dataset", dataset)
        with self._reading() as books:
            account = reading.read_account(books, name, head=read_head(books).hash)
            charging.check_analyst(account, analyst)
            yield books, reading.find_dataset(books, name).id

    def show(self, dataset: str) -> Account:
        """Return what was fixed, what is spent and what is left; from the running totals, however long the history is."""
        name = reading.check_name("dataset", dataset)
        with self._reading() as books:
            return reading.read_account(books, name, head=read_head(books).hash)

    def datasets(self) -> list[str]:
        """Return the names of all datasets."""
        with self._reading() as books:
            return reading.list_datasets(books)

    def history(self, dataset: str, *, before: int | None = None, limit: int = 50) -> list[Entry]:
        """Return a page of entries, newest first; ``before`` is the id that the next page starts below."""
        name = reading.check_name("dataset", dataset)
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 10_000:
            raise ParameterError("a page has 1 to 10,000 entries", f"limit={shortened(limit)}", "Try limit=50.")
        if before is not None and not reading.is_key(before):
            raise ParameterError(
                "before must be the id of an entry", f"before={shortened(before)}", "Take it from the last page."
            )
        with self._reading() as books:
            return reading.read_page(books, name, before=before, limit=limit)

    def burn_down(self, dataset: str) -> list[tuple[str, float, float]]:
        """Return what was left after each event, as (time, percent of rdp, percent of delta); reads the whole history."""
        name = reading.check_name("dataset", dataset)
        with self._reading() as books:
            return reading.read_burn_down(books, name)

    def close(self, dataset: str) -> None:
        """Refuse every further reserve, for ever. What is reserved may still be settled; closing twice changes nothing."""
        with self._writing(dataset) as opened:
            if opened.account.closed is None:
                now = reading.current_time()
                opened.books.execute(tables.CLOSE_DATASET, {"dataset_id": opened.row.id, "now": now})
                opened.append("close", detail={"closed": now})

    def audit(self, head: str | None = None) -> Audit:
        r"""Recompute the chain, every row's digest and every sum, and return what does not fit.

        Parameters
        ----------
        head
            A head of the chain that was noted outside the database. Only with one does the audit show that the end of the
            chain was cut off, or that all of it was written anew.
        """
        noted = check_head(head)
        with self._reading() as books:
            return audit(books, head=noted)

    def backup(self, path: str | os.PathLike[str]) -> str:
        """Write a copy of the ledger, as it is at one moment, to a new file; return the head of its chain."""
        self._check_layout()
        return owning.back_up(self._database, path)

    def upgrade(self) -> None:
        """Bring a ledger of the layout before this one to this one, in one transaction; does nothing to one that is there."""
        with self._database.writing() as books:
            owning.upgrade(books)
        if self._database.path is not None:
            self._database.path.chmod(0o600)

    @contextmanager
    def _writing(self, dataset: str) -> Iterator[OpenAccount]:
        """Open an account for one transaction that writes, and remember the chain's head once it is on the disk."""
        name = reading.check_name("dataset", dataset)
        self._check_layout()
        with self._database.writing() as books:
            opened = OpenAccount(books, name, seen=self._seen)
            yield opened
        self._seen = opened.head

    def _reading(self) -> AbstractContextManager[Connection]:
        self._check_layout()
        return self._database.reading()

    def _check_layout(self) -> None:
        if not self._checked:
            with self._database.reading() as books:
                reading.check_version(books)
            self._checked = True
