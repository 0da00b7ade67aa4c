r"""The whole way in one call: a log in, a private top set out.

Everything public is checked, and the mechanism calibrated, before a row is read: a refusal never depends on the data.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from cutline.counting import check, count
from cutline.errors import AdjacencyError, DomainError, ParameterError
from cutline.histogram import ClosedHistogram, Histogram, Item, OpenHistogram, check_max_k
from cutline.mechanisms import Mechanism
from cutline.mechanisms import mechanism as registered
from cutline.mechanisms.noisy_counts import NoisyCounts, calibrate_with_counts, with_counts
from cutline.mechanisms.planning import Plan
from cutline.mechanisms.planning import plan as compare
from cutline.privacy import Adjacency, Budget, Filter
from cutline.privacy.rounding import fraction_down
from cutline.release import Release
from cutline.sampling import Source, resolve

if TYPE_CHECKING:
    from cutline.ledger import Ledger

__all__ = ["calibrated", "count", "plan", "top"]


def top(
    source: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    releases: int | None = None,
    k: int | None = None,
    max_k: int | None = None,
    mechanism: str | None = None,
    adjacency: Adjacency | str | None = None,
    candidates: Sequence[Item] | None = None,
    counts: bool = False,
    where: str | None = None,
    memory_limit: str | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    analyst: str | None = None,
    rng: Source | None = None,
    **public: Any,
) -> Release:
    r"""Count distinct users per item in a log and release the top set, or withhold it.

    **Privacy.** (epsilon, delta)-DP for all ``releases`` together under ``adjacency``; the sentence is
    ``Release.guarantee``. With a ledger, the dearest path is charged to the dataset's budget before a row is read, and
    everything released from the dataset stays within that budget [docs/ledger.md].

    Parameters
    ----------
    source
        A path or glob (parquet, CSV, JSON), a pandas, polars or pyarrow table, or ready counts; see `cutline.count`.
    user, item
        The columns that name who did something and what it was; not needed for ready counts.
    epsilon, delta, releases
        The total budget, and how many releases of this kind share it: 1, 1e-6 and 1 unless told. With a ledger and no
        epsilon, the dataset's own budget, of which this release takes one ``releases``-th (by default the dataset's number).
    k
        How many items to release; None lets the mechanism find where the top ends.
    max_k
        How many counts are looked at, and the largest cut that can come out; public. 100 by default, with k
        ``max(100, 10 k)``.
    mechanism
        A registered name; by default ``"stable-top-k"``, with k ``"test-first"``.
    adjacency
        ``"add-remove"`` (one user joins or leaves) or ``"replace"`` (one user's rows change); by default the dataset's,
        without a ledger ``"add-remove"``.
    candidates
        All items there can be, which closes the domain; may be more or fewer than ``max_k``.
    counts
        Also release noisy counts of the set, for a fifth of the Rényi allowance.
    where
        One row-local SQL expression; rows for which it is not true are left out.
    memory_limit
        How much memory the engine may use before it spills to disk, like ``"1GB"``.
    ledger, dataset, analyst
        The books (a `cutline.Ledger`, or its address), the account to charge and, if its owner asks for one, a name.
    rng
        None is the operating system's source; a seeded one makes a simulation, which says so and which no ledger takes.
    **public
        The mechanism's own parameters; for ``stable-top-k``: ``min_k``, ``target``, ``weight``, ``clip``,
        ``choose`` (``"em"`` or ``"argmax"``) and ``test`` (``"table"``, ``"gaussian"`` or ``"paper"``).

    Returns
    -------
    Release
        What became public; ``items`` is None when withheld.

    Raises
    ------
    CutlineError
        For a public reason only: a parameter, a path, a column, the caller's own candidates.

    Examples
    --------
    >>> from cutline.sampling import SeededSource
    >>> visits = {"castle": 340, "harbour": 333, "museum": 329, "kiosk": 12, "garage": 11}
    >>> release = top(visits, max_k=20, rng=SeededSource(0))
    >>> release.k, release.listed()
    (3, ['castle', 'harbour', 'museum'])
    """
    rng = resolve(rng)
    kind, told = _checked(
        mechanism or default_mechanism(k),
        closed=candidates is not None,
        candidates=None if candidates is None else len(candidates),
        k=k,
        max_k=max_k,
        **public,
    )
    question: dict[str, Any] = {
        "user": user,
        "item": item,
        "where": where,
        "candidates": candidates,
        "memory_limit": memory_limit,
    }
    with opened_books(ledger, dataset=dataset, analyst=analyst) as books:
        relation, budget, limits = _terms(
            books, dataset, rng, adjacency=adjacency, user=user, epsilon=epsilon, delta=delta, releases=releases
        )
        counted = max(k or max_k or default_max_k(k), *(told.get("ranks") or (1,))) if counts else None
        ready, noisy = calibrated_pair(kind, budget, limits, adjacency=relation, told=told, counted=counted)
        looked_at = max(getattr(ready, "max_k", 0), max_k or 0) or default_max_k(k)

        def work() -> Release:
            return _run(ready, noisy, count(source, **question, max_k=looked_at), rng)

        if books is None or dataset is None:
            return work()
        check(source, **question)  # a typo in a name is refused before it costs anything
        return books.run(
            work,
            cost=ready.cost if noisy is None else ready.cost + noisy.cost,
            mechanism=ready.describe() | ({} if noisy is None else {"counts": noisy.describe()}),
            dataset=dataset,
            analyst=analyst,
        )


def _run(ready: Any, noisy: NoisyCounts | None, histogram: Histogram, rng: Source) -> Release:
    release: Release = ready.release(histogram, rng=rng)
    return release if noisy is None else with_counts(release, histogram, noisy, rng=rng)


@contextmanager
def opened_books(
    ledger: Ledger | str | os.PathLike[str] | None, *, dataset: str | None, analyst: str | None
) -> Iterator[Ledger | None]:
    """Open the books if they are given by their address; refuse half an account."""
    if (ledger is None) != (dataset is None) or (ledger is None and analyst is not None):
        raise ParameterError(
            "a ledger and a dataset go together",
            "a dataset or an analyst without a ledger" if ledger is None else "a ledger without a dataset",
            "Pass ledger and dataset, or neither.",
        )
    if ledger is None or not isinstance(ledger, str | os.PathLike):
        yield ledger
        return
    from cutline.ledger import Ledger as Books

    with Books(ledger) as books:
        yield books


def _terms(
    books: Ledger | None,
    dataset: str | None,
    rng: Source,
    *,
    adjacency: Adjacency | str | None,
    user: str | None,
    epsilon: float | None,
    delta: float | None,
    releases: int | None,
) -> tuple[Adjacency, Budget, Filter | None]:
    """Return who is protected, the budget of all releases of this kind and, with a ledger, its limits at the ledger's order."""
    asked = None if adjacency is None else _relation(adjacency)
    if books is None or dataset is None:
        budget = Budget(
            epsilon=1.0 if epsilon is None else epsilon,
            delta=1e-6 if delta is None else delta,
            releases=1 if releases is None else releases,
        )
        return asked or Adjacency.ADD_REMOVE, budget, None
    from cutline.ledger import allowance

    if rng.seeded:
        raise ParameterError(
            "a ledger keeps releases, not simulations", "a seeded generator", "Leave rng out, or leave the ledger out."
        )
    account = books.show(dataset)
    if asked not in (None, account.adjacency):
        raise AdjacencyError(
            f"{dataset!r} is kept under one adjacency relation, {account.adjacency}",
            str(asked),
            "Leave adjacency out; the dataset's is taken.",
        )
    if None not in (account.unit, user) and account.unit != user:
        raise ParameterError(
            f"{dataset!r} protects those named in its own column",
            f"user={user!r}, for {account.unit!r}",
            f"Pass user={account.unit!r}.",
        )
    return account.adjacency, *allowance(account, epsilon=epsilon, delta=delta, releases=releases)


def calibrated_pair(
    kind: Any,
    budget: Budget,
    limits: Filter | None,
    *,
    adjacency: Adjacency,
    told: dict[str, Any],
    counted: int | None,
) -> tuple[Any, NoisyCounts | None]:
    """Calibrate a mechanism and, if asked, noisy counts of up to ``counted`` items for a fifth of the Rényi limit."""
    if counted is None:
        return kind.calibrate(budget, adjacency=adjacency, filter=limits, **told), None
    if limits is None:
        return calibrate_with_counts(kind, budget, counted=counted, adjacency=adjacency, **told)
    mine = fraction_down(Fraction(limits.rdp) / 5)
    rest = replace(limits, rdp=fraction_down(Fraction(limits.rdp) - Fraction(mine)))
    ready = kind.calibrate(budget, adjacency=adjacency, filter=rest, **told)
    allowed = replace(limits, rdp=mine, delta=0.0)
    return ready, NoisyCounts.calibrate(budget, adjacency=adjacency, filter=allowed, max_k=counted)


def calibrated(
    name: str,
    budget: Budget,
    *,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    closed: bool | None = None,
    candidates: int | None = None,
    k: int | None = None,
    max_k: int | None = None,
    **public: Any,
) -> Mechanism:
    """Return the registered mechanism of that name, checked and calibrated from public numbers alone.

    Parameters
    ----------
    name
        A registered name.
    budget
        What it may spend.
    adjacency
        Who is protected.
    closed
        Whether it will be given a closed domain; None if that is not known yet.
    candidates
        How many candidates a closed domain has; passed on if the mechanism asks for it.
    k
        How many items to release; for mechanisms that are told.
    max_k
        How many counts will be looked at; passed on if the mechanism asks for it.
    **public
        The mechanism's own parameters.
    """
    kind, told = _checked(name, closed=closed, candidates=candidates, k=k, max_k=max_k, **public)
    ready: Mechanism = kind.calibrate(budget, adjacency=_relation(adjacency), **told)
    return ready


def _checked(
    name: str, *, closed: bool | None, candidates: int | None, k: int | None, max_k: int | None, **public: Any
) -> tuple[Any, dict[str, Any]]:
    """Return the mechanism and its parameters, or refuse for a public reason."""
    kind = registered(name)
    if max_k is not None:
        check_max_k(max_k)
    domain = "closed" if closed else "open"
    if closed is not None and domain not in kind.domains:
        raise DomainError(
            f"{name} works on a domain that is {' or '.join(kind.domains)}",
            f"a domain that is {domain}",
            "Leave the candidates out." if closed else "List the candidates, or take limited-domain.",
        )
    accepted = inspect.signature(kind.calibrate).parameters
    unknown = sorted(set(public) - set(accepted))
    if unknown:
        known = sorted(set(accepted) - {"budget", "filter"})
        raise ParameterError(
            f"{name} takes only its own parameters", ", ".join(unknown), f"It takes {', '.join(known)}."
        )
    if ("k" in accepted) != (k is not None):
        raise ParameterError(
            f"{name} must be told k" if k is None else f"{name} finds k by itself",
            f"k={k}",
            "Pass k." if k is None else "Leave k out, or take another mechanism, like test-first.",
        )
    offered = {"k": k, "max_k": max_k, "candidates": candidates}
    return kind, public | {key: value for key, value in offered.items() if key in accepted and value is not None}


def default_max_k(k: int | None) -> int:
    """Return how many counts are looked at unless the caller says."""
    return 100 if k is None else max(100, 10 * k) if isinstance(k, int) else 100


def default_mechanism(k: int | None) -> str:
    """Return the mechanism for an open question, or for a told k."""
    return "stable-top-k" if k is None else "test-first"


def plan(
    budget: Budget,
    *,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    k: int | None = None,
    max_k: int | None = None,
    prior: Any = None,
) -> Plan:
    """Compare every mechanism at one budget, without private data; ``prior`` is a histogram or ready counts, and public.

    Examples
    --------
    >>> found = plan(Budget(epsilon=1.0, delta=1e-6), max_k=20, prior={"a": 90, "b": 80, "c": 1})
    >>> found.recommended.mechanism, f"{found.recommended.recall:.3f}"
    ('stable-top-k', '1.000')
    """
    max_k = default_max_k(k) if max_k is None else max_k
    check_max_k(max_k)
    known = prior if prior is None or isinstance(prior, OpenHistogram | ClosedHistogram) else count(prior, max_k=max_k)
    return compare(budget, adjacency=_relation(adjacency), k=k, max_k=max_k, prior=known)


def _relation(adjacency: Adjacency | str) -> Adjacency:
    try:
        return Adjacency(adjacency)
    except ValueError:
        raise ParameterError(
            "adjacency must be add-remove or replace", f"{adjacency!r}", "Logs of users take add-remove."
        ) from None
