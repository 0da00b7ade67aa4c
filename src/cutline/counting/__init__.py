r"""From a log of (user, item) rows to counts of distinct users per item; the only place where SQL is written.

::

    count ── open_log ── paths, files, frames      what the rows are and which columns they declare
          ── spill, termination                    a private place on disk, gone at the end
          ── engine                                one DuckDB, shut off; its errors replaced
          ── where, columns, candidates            what of a row counts, and under which name
          ── tally                                 the counting itself
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from cutline.counting.candidates import check_candidates, register_candidates
from cutline.counting.columns import check_name, check_names, plain_value
from cutline.counting.engine import Engine, check_memory_limit
from cutline.counting.files import open_log
from cutline.counting.spill import spill_directory
from cutline.counting.tally import tally_closed, tally_open
from cutline.counting.termination import clean_termination
from cutline.counting.where import parse_where
from cutline.errors import ParameterError, WhereError
from cutline.histogram import ClosedHistogram, Item, OpenHistogram, check_max_k

__all__ = ["count"]


def count(
    source: object,
    *,
    user: str | None = None,
    item: str | None = None,
    max_k: int = 100,
    where: str | None = None,
    candidates: Iterable[Item] | None = None,
    memory_limit: str | None = None,
) -> OpenHistogram | ClosedHistogram:
    r"""Count the distinct users of each item.

    Nothing is released: the result is private data for a mechanism. Rows without a user or an item are ignored, and
    nobody is told how many there were. An empty log, one item or all ties are counted like any other; refusals depend
    on public facts alone (paths, names, declared types, parameters).

    Parameters
    ----------
    source
        The path of a parquet, CSV or JSON file or a glob; a pandas or polars DataFrame; a pyarrow Table; or ready counts: a
        mapping from item to count, or an integer array whose items are its indices.
    user, item
        The names of the two columns, matched exactly. Columns of CSV and JSON files and pandas object columns are
        read as text, all others in their declared type; NaN is missing.
    max_k
        The largest cut anyone may ask about. Only the top ``max_k + 1`` items leave the engine.
    where
        A condition on one row in SQL, such as ``country = 'FR'``; a row on which it fails is dropped.
    candidates
        All items there can be, as a public list; the domain is closed, and other items of the log are ignored.
    memory_limit
        An amount such as ``1GB``; what does not fit is spilled to a private directory.

    Returns
    -------
    OpenHistogram or ClosedHistogram
        Closed if ``candidates`` are given. Ties are in the item's own order.

    Raises
    ------
    ParameterError, SourceError, ColumnTypeError, WhereError, CountsError
        For what is public: see ``cutline.errors``.
    EngineError
        If the engine fails; its own words are withheld.

    Examples
    --------
    >>> import pyarrow
    >>> log = pyarrow.table({"who": ["ann", "ann", "bob", None], "what": ["tea", "tea", "tea", "milk"]})
    >>> histogram = count(log, user="who", item="what", max_k=3)
    >>> histogram.items, histogram.counts.tolist()
    (('tea',), [2, 0, 0, 0])
    >>> count({"tea": 2, "milk": 0}, max_k=3).counts.tolist()
    [2, 0, 0, 0]
    """
    check_max_k(max_k)
    check_memory_limit(memory_limit)
    listed = None if candidates is None else check_candidates(candidates)
    if isinstance(source, Mapping | np.ndarray):
        given = [name for name, value in (("user", user), ("item", item), ("where", where)) if value is not None]
        if given:
            raise ParameterError("ready counts have no columns", ", ".join(given), "Leave user, item and where out.")
        return _ready(source, max_k=max_k, listed=listed)
    user, item = check_name("user", user), check_name("item", item)
    log = open_log(source)
    max_k = int(max_k)
    with (
        clean_termination(),
        spill_directory() as spill,
        Engine(spill=spill, memory_limit=memory_limit, paths=log.paths, row_local=where is not None) as engine,
    ):
        condition = None if where is None else parse_where(engine, where)
        filtered = condition.columns if condition else ()
        wanted = list(dict.fromkeys([user, item, *filtered]))
        present = log.columns(engine)
        if present is not None:
            check_names([user, item], present)
            check_names(filtered, present, refusal=WhereError)
        engine.run(f"CREATE TEMP VIEW log AS {log.scan(engine, wanted)}")
        declared = [kind for _, kind, *_ in engine.rows("DESCRIBE log")]
        columns = {name: (f"c{i}", kind) for i, (name, kind) in enumerate(zip(wanted, declared, strict=True))}
        users, _ = plain_value("user", user, *columns[user])
        items, kind = plain_value("item", item, *columns[item])
        kept = "" if condition is None else f" AND {condition.bind(engine, columns)}"
        if listed is not None:
            register_candidates(engine, listed, column=item, declared=kind)
        engine.run(
            f"CREATE TEMP VIEW votes AS SELECT {users} AS u, {items} AS i FROM log "
            f"WHERE ({users}) IS NOT NULL AND ({items}) IS NOT NULL{kept}"
        )
        if listed is not None:
            return tally_closed(engine, listed, memory_limit=memory_limit)
        return tally_open(engine, max_k=max_k, cheap=log.cheap)


def _ready(source: Any, *, max_k: int, listed: tuple[Item, ...] | None) -> OpenHistogram | ClosedHistogram:
    """Take counts that somebody has made; candidates nobody counted have 0, others are ignored."""
    if listed is None:
        return OpenHistogram.from_counts(source, max_k=max_k)
    OpenHistogram.from_counts(source, max_k=1)  # every count is checked, also of items that are ignored
    counts = source if isinstance(source, Mapping) else dict(enumerate(source.tolist()))
    return ClosedHistogram.from_counts({name: counts.get(name, 0) for name in listed})
