r"""What must be settled about a question before a row is read: mechanism and parameters, whose budget, at what price.

Everything here depends on public facts alone; `cutline.api` and `cutline.grouped` ask, count and release on these terms.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from cutline.errors import AdjacencyError, DomainError, ParameterError
from cutline.histogram import Histogram, check_max_k
from cutline.mechanisms import mechanism as registered
from cutline.mechanisms.noisy_counts import NoisyCounts, calibrate_with_counts, with_counts
from cutline.privacy import Adjacency, Budget, Filter
from cutline.privacy.rounding import fraction_down
from cutline.release import Release
from cutline.sampling import Source

if TYPE_CHECKING:
    from cutline.ledger import Ledger


def checked(
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
    accepted = {parameter.name for parameter in kind.parameters}
    unknown = sorted(set(public) - accepted)
    if unknown:
        known = sorted({"adjacency", *accepted})
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


def relation(adjacency: Adjacency | str) -> Adjacency:
    """Return the adjacency relation of that name, or refuse."""
    try:
        return Adjacency(adjacency)
    except ValueError:
        raise ParameterError(
            "adjacency must be add-remove or replace", f"{adjacency!r}", "Logs of users take add-remove."
        ) from None


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


def terms(
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
    asked = None if adjacency is None else relation(adjacency)
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
        return kind.calibrate(budget, adjacency=adjacency, limits=limits, **told), None
    if limits is None:
        return calibrate_with_counts(kind, budget, counted=counted, adjacency=adjacency, **told)
    mine = fraction_down(Fraction(limits.rdp) / 5)
    rest = replace(limits, rdp=fraction_down(Fraction(limits.rdp) - Fraction(mine)))
    ready = kind.calibrate(budget, adjacency=adjacency, limits=rest, **told)
    allowed = replace(limits, rdp=mine, delta=0.0)
    return ready, NoisyCounts.calibrate(budget, adjacency=adjacency, limits=allowed, max_k=counted)


def released(ready: Any, noisy: NoisyCounts | None, histogram: Histogram, rng: Source) -> Release:
    """Release a histogram, with noisy counts of what came out if they were calibrated."""
    release: Release = ready.release(histogram, rng=rng)
    return release if noisy is None else with_counts(release, histogram, noisy, rng=rng)
