r"""The whole way in one call: a log in, a private top set out.

Everything public is checked, and the mechanism calibrated, before a row is read: a refusal never depends on the data.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cutline.counting import check, count
from cutline.counting.question import Progress
from cutline.histogram import ClosedHistogram, Item, OpenHistogram, check_max_k
from cutline.mechanisms import Mechanism
from cutline.mechanisms.planning import Plan
from cutline.mechanisms.planning import plan as compare
from cutline.privacy import Adjacency, Budget
from cutline.release import Release
from cutline.sampling import Source, resolve
from cutline.terms import (
    calibrated_pair,
    checked,
    default_max_k,
    default_mechanism,
    opened_books,
    relation,
    released,
    terms,
)

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
    progress: Progress | None = None,
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
        A path or glob (parquet, CSV, JSON), a pandas, polars or pyarrow table, a Spark DataFrame, an Ibis table, or ready
        counts; see `cutline.count`.
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
    progress
        Told, now and then, the share of the counting that is done, from 0 to 1.
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
    kind, told = checked(
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
        protects, budget, limits = terms(
            books, dataset, rng, adjacency=adjacency, user=user, epsilon=epsilon, delta=delta, releases=releases
        )
        counted = max(k or max_k or default_max_k(k), *(told.get("ranks") or (1,))) if counts else None
        ready, noisy = calibrated_pair(kind, budget, limits, adjacency=protects, told=told, counted=counted)
        looked_at = max(getattr(ready, "max_k", 0), max_k or 0) or default_max_k(k)

        def work() -> Release:
            return released(ready, noisy, count(source, **question, max_k=looked_at, progress=progress), rng)

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
    kind, told = checked(name, closed=closed, candidates=candidates, k=k, max_k=max_k, **public)
    ready: Mechanism = kind.calibrate(budget, adjacency=relation(adjacency), **told)
    return ready


def plan(
    budget: Budget,
    *,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    k: int | None = None,
    max_k: int | None = None,
    domain: str | None = None,
    prior: Any = None,
) -> Plan:
    """Compare every mechanism at one budget, without private data; ``prior`` is a histogram or ready counts, and public.

    With ``domain`` "open" or "closed" (the candidates are listed) only those that can run there are compared.

    Examples
    --------
    >>> found = plan(Budget(epsilon=1.0, delta=1e-6), max_k=20, prior={"a": 90, "b": 80, "c": 1})
    >>> found.recommended.mechanism, f"{found.recommended.recall:.3f}"
    ('stable-top-k', '1.000')
    """
    max_k = default_max_k(k) if max_k is None else max_k
    check_max_k(max_k)
    known = prior if prior is None or isinstance(prior, OpenHistogram | ClosedHistogram) else count(prior, max_k=max_k)
    return compare(budget, adjacency=relation(adjacency), k=k, max_k=max_k, domain=domain, prior=known)
