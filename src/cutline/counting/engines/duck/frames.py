r"""Tables in memory: pandas, polars (lazy ones too) and pyarrow, recognised without importing any of them.

Only the columns that are needed are handed to the engine, as one pyarrow table over the frame's own buffers. A pandas
column of Python objects has no declared type: it is read as text, value by value, so that one odd value changes nobody
else's. So is a pandas categorical, because its categories are collected from the rows. Columns of types whose cells can be
unreadable are handed over some thousand rows at a time, with those cells as missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cutline.counting.engines.duck.engine import Engine
from cutline.counting.engines.duck.files import ROWS, all_readable, check_known, readable, refuse_type
from cutline.counting.engines.duck.records import make_texts
from cutline.counting.engines.remote import silently

_KINDS = {
    ("pandas", "DataFrame"): "pandas",
    ("polars", "DataFrame"): "polars",
    ("polars", "LazyFrame"): "lazy",
    ("pyarrow", "Table"): "pyarrow",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A table in memory, as DuckDB can read it."""

    kind: str
    table: Any
    paths: tuple[str, ...] = ()
    cheap: bool = True

    def shape(self) -> Frame:
        if self.kind == "lazy":
            return Frame(kind="polars", table=silently("polars", lambda: self.table.collect_schema().to_frame()))
        table = self.table.slice(0, 0) if self.kind == "pyarrow" else self.table[:0]
        return Frame(kind=self.kind, table=table)

    def prepare(self, _spill: Path, /) -> Sequence[Frame]:
        return (self,)

    def columns(self) -> Sequence[object]:
        if self.kind == "lazy":
            return list(silently("polars", lambda: self.table.collect_schema().names()))
        return list(self.table.column_names if self.kind == "pyarrow" else self.table.columns)

    def scan(self, engine: Engine, wanted: Sequence[str]) -> str:
        import pyarrow as pa

        if self.kind == "lazy":  # computed once, and only the columns that are read
            ready = silently("polars", lambda: self.table.select(wanted).collect())
            return Frame(kind="polars", table=ready).scan(engine, wanted)
        names = self.columns()
        arrays = {f"c{i}": self._column(name, names.index(name)) for i, name in enumerate(wanted)}
        table = pa.table(arrays)
        kinds = table.schema.types
        check_known(engine, kinds, wanted)
        engine.register("frame", table if all_readable(kinds) else readable(kinds, partial(table.to_batches, ROWS)))
        return "SELECT * FROM frame"

    def _column(self, name: str, position: int) -> Any:
        try:
            if self.kind == "pandas":
                column = _read_pandas(self.table.iloc[:, position])
            elif self.kind == "polars":
                column = _read_polars(self.table.get_column(name))
            else:
                column = self.table.column(position)
        except Exception:  # pyarrow and polars quote values; nothing of them is passed on
            column = None
        if column is None:
            raise refuse_type(name)
        return column


def frame_of(source: object) -> Frame | None:
    """Return the source as a frame if it is one."""
    found = (_KINDS.get((base.__module__.partition(".")[0], base.__name__)) for base in type(source).__mro__)
    kind = next(filter(None, found), None)
    return None if kind is None else Frame(kind=kind, table=source)


def _read_polars(series: Any) -> Any:
    import polars as pl

    # Text stays where it is as a view; the older layout would be a copy.
    return series.to_arrow(compat_level=pl.CompatLevel.newest()) if series.dtype == pl.String else series.to_arrow()


def _read_pandas(series: Any) -> Any:
    import pyarrow as pa

    dtype = type(series.dtype).__name__
    if dtype == "StringDtype" and series.dtype.storage == "pyarrow":
        return pa.array(series.array)  # the buffers themselves
    if dtype == "CategoricalDtype":
        codes = series.cat.codes.to_numpy()
        categories = series.cat.categories
        names = _make_texts(categories.astype(object), categories.isna())
        return names.take(pa.array(codes, mask=codes < 0))
    if series.dtype == object or dtype == "StringDtype":
        return _make_texts(series.astype(object), series.isna().to_numpy())
    return pa.array(series, from_pandas=True)


def _make_texts(values: Iterable[object], missing: Iterable[bool]) -> Any:
    """Turn values into text one by one; what has no text is missing."""
    return make_texts(None if gone else _text(value) for value, gone in zip(values, missing, strict=True))


def _text(value: object) -> str | None:
    try:
        return value if type(value) is str else str(value)
    except Exception:
        return None
