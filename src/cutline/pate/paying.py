r"""Labels through a ledger: reserved before a record is read, settled after.

`cutline.ledger.Ledger` fits what is asked here; any other books with the same two methods will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from cutline.errors import ParameterError, UnsettledError
from cutline.pate.aggregators.base import Aggregator
from cutline.pate.labels import Labels
from cutline.privacy import Budget, Cost, Filter


class Books(Protocol):
    """What a classifier asks of a ledger."""

    def show(self, dataset: str) -> Any:
        """Return the dataset's account, with its ``budget`` and ``filter``."""
        ...

    def run(
        self,
        work: Callable[[], Labels],
        *,
        cost: Cost,
        mechanism: Mapping[str, Any],
        dataset: str,
        analyst: str | None = None,
    ) -> Labels:
        """Reserve the cost, call ``work``, settle what it returns."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Whose budget pays."""

    books: Books
    dataset: str
    analyst: str | None = None

    def filter(self, budget: Budget) -> Filter:
        """Return what the budget leaves to spend at the dataset's Rényi order, the only one at which its books add up."""
        fixed = self.books.show(self.dataset)
        share = Fraction(fixed.filter.delta) / Fraction(fixed.budget.delta)
        return budget.filter(order=fixed.filter.order, delta_share=float(share))

    def pay(self, work: Callable[[], Labels], *, aggregator: Aggregator, queries: int) -> Labels:
        """Run the work on the books; raises `UnsettledError` with the labels if only the settling failed."""
        return self.books.run(
            work,
            cost=queries * aggregator.cost,
            mechanism=aggregator.describe() | {"queries": queries},
            dataset=self.dataset,
            analyst=self.analyst,
        )


def opened(books: Books | None, dataset: str | None, analyst: str | None, *, seeded: bool) -> Account | None:
    """Return the account to pay from, if there is one, or refuse half a one, and simulations."""
    if books is None and dataset is None and analyst is None:
        return None
    if books is None or dataset is None:
        raise ParameterError(
            "a ledger and a dataset in it go together", "only one of them", "Pass ledger=... and dataset=..."
        )
    if seeded:
        raise ParameterError(
            "a simulation is not paid for", "noise_seed with a ledger", "Leave noise_seed out, or leave the ledger out."
        )
    return Account(books=books, dataset=dataset, analyst=analyst)


def released(
    work: Callable[[], Labels], *, account: Account | None, aggregator: Aggregator, queries: int
) -> tuple[Labels, UnsettledError | None]:
    """Return the labels, and what the books could not be told: labels paid for in full may be used all the same."""
    if account is None:
        return work(), None
    try:
        return account.pay(work, aggregator=aggregator, queries=queries), None
    except UnsettledError as error:
        if not isinstance(error.release, Labels):
            raise
        return error.release, error
