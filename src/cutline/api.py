r"""The public verbs about logs: count, quote, top, top_by and plan; `cutline.label` is about ballots.

`top` and `top_by` are one line each: they ask for a quote and run it. Everything public is checked, and the
mechanism calibrated, before a row is read: a refusal never depends on the data.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from cutline.ask import Ask
from cutline.counting import count
from cutline.counting.published import read_published
from cutline.counting.question import Progress
from cutline.errors import DatasetError, ParameterError
from cutline.grouped import GroupedRelease
from cutline.histogram import ClosedHistogram, Item, OpenHistogram, check_bound, check_max_k
from cutline.mechanisms.planning import Plan
from cutline.mechanisms.planning import plan as compare
from cutline.mechanisms.registry import default_max_k
from cutline.payment import read_record
from cutline.privacy import Adjacency, Budget
from cutline.quote import quote
from cutline.release import Release

if TYPE_CHECKING:
    from cutline.ledger import Entry
    from cutline.pate.labels import Labels

__all__ = ["count", "plan", "quote", "read_answer", "top", "top_by"]


def top(source: Any, *, progress: Progress | None = None, **ask: Unpack[Ask]) -> Release:
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
        A registered name; by default ``"stable-top-k"``, with ``max_items_per_user`` ``"table-threshold"``, and with k one of
        ``"peel-then-test"``, ``"find-then-choose"`` and ``"test-first"``; `cutline.quote` says which, and why.
    adjacency
        ``"add-remove"`` (one user joins or leaves) or ``"replace"`` (one user's rows change); by default the dataset's,
        without a ledger ``"add-remove"``.
    candidates
        All items there can be, which closes the domain; may be more or fewer than ``max_k``.
    max_items_per_user
        Count each user in at most this many items, chosen by a rule that reads the user's own rows alone, beside the counts of
        all; for mechanisms that need such a bound, which then find more of a long tail.
    vote_parts
        8 for bounded counts in eighths of a vote: a user with more items than the bound gives each of them less, instead of
        keeping only some.
    counts
        Also release noisy counts of the set, for a fifth of the Rényi allowance: of all users, whose noise grows with the root
        of how many items went out, or with ``"bounded"`` of users after the bound, whose noise does not grow beyond that many.
    where
        One row-local SQL expression; rows for which it is not true are left out.
    memory_limit
        How much memory the engine may use before it spills to disk, like ``"1GB"``.
    format
        The format of a file whose name does not tell it: parquet, csv, tsv, json or jsonl.
    ledger, dataset, analyst
        The books (a `cutline.Ledger`, or its address), the account to charge and, if its owner asks for one, a name.
    share
        With a ledger, instead of epsilon, delta and releases: the share of the dataset's whole budget that this release takes,
        as a `fractions.Fraction` or text like ``"1/20"``, ``"0.05"`` or ``"5%"``.
    purpose
        Why this is asked, in one line, for those who read the ledger's history.
    data_version, fresh
        A name for the data as they are now, like a date. If the ledger keeps the answer to this very question about this
        version, it is returned again, free, and no source is opened; ``fresh=True`` draws and pays all the same.
    progress
        Told, now and then, the share of the counting that is done, from 0 to 1.
    rng
        None is the operating system's source; a seeded one makes a simulation, which says so and which no ledger takes.
    accounting
        ``"adaptive"`` spends the budget of exactly ``releases`` releases by the rule of that name: smaller gaps are found, the
        first calibration takes some seconds, and a ledger refuses it. For ``stable-top-k`` with the table test.
    hint
        For a list that is published again and again, through a ledger: the cut to test first. By default the cut that went
        out last for this question, if there is one; ``False`` takes none; a number is your own, and must be public.
    min_k, target, weight, clip, prior, prefer_larger, choose, test, test_share, ranks
        The mechanism's own parameters; for ``stable-top-k``: ``min_k``, ``target``, ``weight``, ``clip``, ``prior``,
        ``prefer_larger``, ``choose`` (``"joint"``, ``"em"`` or ``"argmax"``; by default what needs the smallest gap) and
        ``test`` (``"table"``, ``"gaussian"`` or ``"paper"``).

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
    return quote(**ask).run(source, progress=progress)


def top_by(
    source: Any,
    *,
    by: str,
    groups: Iterable[Item],
    max_groups_per_user: int | None = None,
    key: str | bytes | None = None,
    progress: Progress | None = None,
    **ask: Unpack[Ask],
) -> GroupedRelease:
    r"""Count distinct users per group and item in one pass, and release the top set of every group, or withhold it.

    **Privacy.** (epsilon, delta)-DP for one user joining or leaving, for the whole table and all ``releases`` of such tables
    together [docs/groups.md]. One user counts in at most m = min(number of groups, ``max_groups_per_user``) groups, so each
    group's mechanism is calibrated for ``releases * m`` releases.

    Parameters
    ----------
    source
        A log, as for `cutline.count`; not ready counts.
    user, item, by
        The columns that name who did something, what it was, and the group of the row.
    groups
        All groups of the table, a public list; rows of other groups are ignored, a group without rows is released like any.
    max_groups_per_user
        Let each user count in at most this many of the groups, chosen by a hash of the user, the group and ``key`` that reads
        the user's own rows alone. None lets users count in every group, which costs more the more groups there are.
    key
        What the hash is keyed with; anything that was not derived from the log.
    epsilon, delta, releases
        The total budget, and how many tables of this kind share it; 1, 1e-6 and 1 by default. With a ledger and neither epsilon
        nor delta, one table takes one ``releases``-th of the dataset's budget, by default as for any release of the usual kind.
    adjacency
        None or ``"add-remove"``: a user whose rows change can leave m groups and enter m others.
    ledger, dataset, analyst
        On whose account: m times the dearest path of one group is reserved before a row is read, and settled to what ran.
    k, max_k, mechanism, candidates, counts, where, memory_limit, format, progress, rng, and a mechanism's own parameters
        As for `cutline.top`, for every group.

    Returns
    -------
    GroupedRelease
        One `Release` per group and the guarantee of the whole table.

    Raises
    ------
    CutlineError
        For a public reason only: a parameter, a path, a column, the caller's own groups and candidates.

    Examples
    --------
    >>> import pyarrow
    >>> from cutline.sampling import SeededSource
    >>> rows = [(n, day, "castle") for n in range(400) for day in ("mon", "tue")] + [(n, "mon", "harbour") for n in range(390)]
    >>> log = pyarrow.table(dict(zip(("who", "day", "where"), zip(*rows, strict=True), strict=True)))
    >>> found = top_by(log, user="who", item="where", by="day", groups=["mon", "tue", "wed"], max_k=5, rng=SeededSource(0))
    >>> {day: release.listed() for day, release in found.releases.items()}
    {'mon': ['castle', 'harbour'], 'tue': ['castle'], 'wed': None}
    """
    asked = quote(by=by, groups=groups, max_groups_per_user=max_groups_per_user, key=key, **ask)
    return asked.run(source, progress=progress)


def read_answer(entry: Entry) -> Release | GroupedRelease | Labels:
    """Return the answer that an entry of a ledger keeps; `cutline.Ledger.answer` returns the entry."""
    from cutline.pate.labels import Labels

    kinds: dict[str, type[Release | GroupedRelease | Labels]] = {
        "release": Release,
        "table": GroupedRelease,
        "labels": Labels,
    }
    if entry.answer is None:
        raise DatasetError(
            "only a settled entry holds an answer",
            f"entry {entry.id}, {entry.state}",
            "It stays charged: nobody but the process that asked knows whether its answer got out.",
        )
    return read_record(entry, lambda record: kinds[record["kind"]].from_record(record))


def plan(
    budget: Budget,
    *,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    k: int | None = None,
    max_k: int | None = None,
    max_items_per_user: int | None = None,
    domain: str | None = None,
    prior: Any = None,
    prior_item: str | None = None,
    prior_count: str | None = None,
    accounting: str | None = None,
    mechanism: str | None = None,
    epsilons: Sequence[float] = (),
    want: float | None = None,
    redraw: bool = False,
    progress: Progress | None = None,
) -> Plan:
    """Compare the mechanisms that can run at one budget, and say which epsilon is enough, without private data.

    ``prior`` is public: a histogram, ready counts, or a file of last year's published list (CSV, parquet or JSON, whose columns
    ``prior_item`` and ``prior_count`` name if they are not obvious). With ``domain`` "open" or "closed" (the candidates are
    listed, as those of the prior) only mechanisms that can run there are compared; with ``max_items_per_user`` also those that
    need such a bound; with ``mechanism`` one alone. ``epsilons`` are tried beside the budget's, and ``want`` is the share of
    the true top to find, for which the smallest epsilon is searched; ``redraw`` expects logs that are only like the prior
    [docs/planning.md]. ``accounting`` and ``progress`` are as for `cutline.top`.

    Examples
    --------
    >>> published = {"a": 90, "b": 80, "c": 1}
    >>> found = plan(Budget(epsilon=1.0, delta=1e-6), max_k=20, prior=published, mechanism="joint-stable", want=0.9)
    >>> found.recommended.mechanism, f"{found.recommended.recall:.3f}", found.wanted[0].epsilon
    ('joint-stable', '1.000', 0.245)
    """
    max_k = default_max_k(k) if max_k is None else max_k
    check_max_k(max_k)
    if isinstance(prior, str | os.PathLike):
        prior = read_published(prior, item=prior_item, count=prior_count)
    elif (prior_item or prior_count) is not None:
        raise ParameterError(
            "columns are those of a prior in a file", "no file", "Leave prior_item and prior_count out."
        )
    if prior is not None and not isinstance(prior, OpenHistogram | ClosedHistogram):
        prior = count(prior, max_k=max_k, candidates=list(prior) if domain == "closed" else None)
    bound = None if max_items_per_user is None else check_bound(max_items_per_user)
    return compare(
        budget,
        adjacency=Adjacency.parse(adjacency),
        k=k,
        max_k=max_k,
        max_items_per_user=bound,
        domain=domain,
        prior=prior,
        accounting=accounting,
        mechanism=mechanism,
        epsilons=epsilons,
        want=want,
        redraw=redraw,
        progress=progress,
    )
