r"""Hostile files of every format: no raw exception, no leaked cell, and one row more changes nobody else's count.

Every file holds canaries in the column of users and in a column that is not asked about. No message, no result and nothing
that is printed may hold one.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import cutline
from cutline.errors import CutlineError
from fuzz.target import Case, Found

_FORMATS = ("csv", "tsv", "json", "jsonl", "ndjson", "parquet")
_CELLS: tuple[Any, ...] = (
    *("", " ", "NULL", "nan", "\x00", "\ufeff", "\u202e", "a,b", 'quo"te', "line\nbreak", "\r", "'", "\\"),
    *("x" * 100_000, "1e999", "-0", "[1", "{", "\U0001f600"),
)
# For every declared type: how it is stored, a sound value, and extreme ones.
_TYPED: dict[pa.DataType, tuple[pa.DataType, Any, tuple[Any, ...]]] = {
    pa.string(): (pa.string(), "castle", ("", "\x00", "x" * 100_000, "\U0001f600", None)),
    pa.int64(): (pa.int64(), 7, (-(2**63), 2**63 - 1, 0, None)),
    pa.float64(): (pa.float64(), 1.5, (float("nan"), float("inf"), -0.0, 5e-324, None)),
    pa.timestamp("ms"): (pa.int64(), 10**12, (-(2**63), 10**17, None)),
    pa.timestamp("s", tz="UTC"): (pa.int64(), 10**9, (10**13, -(10**13), None)),
    pa.date32(): (pa.int32(), 20_000, (2**31 - 1, -(2**31), None)),
    pa.time64("us"): (pa.int64(), 5, (-1, 2**62, None)),
    pa.binary(): (pa.binary(), b"a", (b"", b"\xff\xfe", None)),
    pa.bool_(): (pa.bool_(), False, (True, None)),
}


def broken(case: Case) -> None:
    """Write a sound file, break it, and count it."""
    chance = case.random
    canary = f"canary{chance.getrandbits(60):x}"
    form = chance.choice(_FORMATS)
    path = case.directory / f"log.{form}"
    rows: list[dict[str, Any]] = []
    for i in range(5 * case.size):
        who = f"{canary}{i}" if i % 3 == 0 else f"u{i}"
        rows.append({"who": who, "what": chance.choice(("castle", "harbour")), "secret": f"{canary}s{i}"})
    for row in chance.sample(rows, min(len(rows), case.size)):
        row[chance.choice(("who", "what"))] = chance.choice(_CELLS)
    write_rows(path, rows, form)
    for _ in range(chance.randint(0, 3)):
        damage(chance, path)
    check_kept_in(path, canary, form)


def write_rows(path: Path, rows: list[dict[str, Any]], form: str) -> None:
    """Write the rows in that format."""
    if form == "parquet":
        pq.write_table(pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in rows[0]}), path)
    elif form in ("csv", "tsv"):
        mark = "," if form == "csv" else "\t"
        lines = [
            mark.join(rows[0]),
            *(mark.join('"' + row[name].replace('"', '""') + '"' for name in row) for row in rows),
        ]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogatepass", newline="")
    elif form == "json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def damage(chance: random.Random, path: Path) -> None:
    """Cut the file, flip bytes, repeat a part, or put bytes in."""
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data) + 1)
    how = chance.randrange(4)
    if how == 0:
        del data[at:]
    elif how == 1:
        for _ in range(chance.randint(1, 8)):
            if data:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif how == 2:
        data[at:at] = data[at : at + 50]
    else:
        data[at:at] = chance.choice(
            (b"\xff\xfe", b"\x00" * 9, b'"', b"[", b"\n\n", b"\xed\xa0\x80", b"PAR1", b"{" * 2000)
        )
    path.write_bytes(data)


def check_kept_in(path: Path, canary: str, form: str) -> None:
    """Count and release; whatever comes out must be in our words and without a cell."""
    printed = io.StringIO()
    handler = logging.StreamHandler(printed)
    logging.getLogger().addHandler(handler)
    where = "a result, or on a screen"
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            release = cutline.top(str(path), user="who", item="what", max_k=5)
            shown = f"{release!r} {release} {json.dumps(release.to_dict(full=True), default=str)}"
    except CutlineError as error:
        where = "a refusal"
        context = None if error.__suppress_context__ else error.__context__
        shown = f"{error} {error!r} {error.__cause__!r} {context!r}"
    except Exception as error:
        kind, text = type(error).__name__, str(error).replace(canary, "<a cell>")
        raise Found(f"a {form} file: {kind}: {text[:200]}") from None
    finally:
        logging.getLogger().removeHandler(handler)
    if canary in shown or canary in printed.getvalue():
        raise Found(f"a {form} file: a cell of another column is shown, in {where}")


def one_row_more(case: Case) -> None:
    """Add one row of extreme cells to a typed parquet file: nobody else's count moves, and nothing fails."""
    chance = case.random
    declared = chance.choice(list(_TYPED))
    stored, sound, cells = _TYPED[declared]
    cell = chance.choice(cells)
    users = [f"u{i}" for i in range(4 * case.size)] + ["new"]
    items = pa.array([sound] * (len(users) - 1) + [cell], stored)
    table = pa.table({"who": users, "what": items if stored == declared else items.view(declared)})
    before, after = case.directory / "before.parquet", case.directory / "after.parquet"
    pq.write_table(table.slice(0, len(users) - 1), before, store_schema=True)
    pq.write_table(table, after, store_schema=True)
    counts = [_counts(path, str(declared)) for path in (before, after)]
    moved = {item for item, n in counts[0].items() if counts[1].get(item) not in (n, n + (item == cell))}
    if moved:
        raise Found(f"a column of {declared}: one row with {str(cell)[:40]!r} moves the counts of others")


def _counts(path: Path, kind: str) -> dict[Any, int]:
    try:
        histogram: Any = cutline.count(str(path), user="who", item="what", max_k=5)
    except CutlineError as error:
        return {
            "refused": len(str(error))
        }  # a type that is refused is refused with and without the row, in the same words
    except Exception as error:
        raise Found(f"a column of {kind}: {type(error).__name__}: {str(error)[:200]}") from None
    return dict(zip(histogram.items, (int(n) for n in histogram.counts), strict=False))
