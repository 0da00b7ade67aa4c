r"""How answers look in a notebook and in tables: HTML from plain data, three lines of text, Arrow, pandas, and a picture.

Everything is made of what ``to_dict()`` says or of what was released, so nothing private can get in; names are escaped.
"""

from __future__ import annotations

import html
import io
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutline.errors import printable
from cutline.extras import require

_MOST_ROWS, _LONGEST_LINE = 100, 100
_OWN = ("status", "item", "count", "low", "high")  # columns of every table
# Too long or too technical for a glance; `to_dict()` has them.
_LEFT_OUT = {
    "cost",
    "labels",
    "filter",
    "head",
    "ledger_after",
    "curves",
    "released",
    "ordered",
    "count_error",
    "version",
}


class Shown:
    """What knows ``to_dict()``, and shows itself in a notebook as a small table of it."""

    __slots__ = ()

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""

    def _repr_html_(self) -> str:
        return _section(type(self).__name__, self.to_dict())


class Tabular(Shown):
    """A release, or a table of them: also as text, as Arrow and pandas tables, and as a picture."""

    __slots__ = ()

    @abstractmethod
    def by_group(self) -> list[tuple[dict[str, Any], Any]]:
        """Return every release with the group it belongs to, as column and value; no column for a single release."""

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """The sentence to publish with it."""

    def to_arrow(self) -> Any:
        """Return a pyarrow table with one row an item: group, item and, with counts, count, low and high.

        A group without items has one row without an item; a single release without items has no row. The columns ``low`` and
        ``high`` bound an interval that covers the true count 95 times in 100. A column of groups that is called like one of
        these is called ``group``.
        """
        import pyarrow as pa

        columns: dict[str, list[Any]] = {}
        counted = any(release.counts for _, release in self.by_group())
        for group, release in self.by_group():
            error = release.count_error
            listed = release.listed() or ([None] if group else [])
            for item in listed:
                row = {"group" if name in _OWN else name: value for name, value in group.items()}
                row |= {"status": str(release.status)} if group else {}
                row["item"] = item
                if counted:
                    count = None if item is None or not release.counts else release.counts[item]
                    bounds = (None, None) if count is None or error is None else error.interval(count)
                    row |= {"count": count, "low": bounds[0], "high": bounds[1]}
                for name, value in row.items():
                    columns.setdefault(name, []).append(value)
        names = ["item", *(("count", "low", "high") if counted else ())]
        return pa.table({name: _array(columns[name]) for name in columns} or {name: pa.array([]) for name in names})

    def to_pandas(self) -> Any:
        """Return the same as a pandas DataFrame; pandas must be installed."""
        require("pandas", extra="pandas", purpose="a DataFrame")
        return self.to_arrow().to_pandas()

    def plot(self) -> Picture:
        """Return the figure of `cutline.plots` as a picture that a notebook shows."""
        # Drawing knows everything that can be drawn, so it is a layer above; it is fetched by name when it is wanted.
        plots = require("cutline.plots", extra="plots", purpose="a figure")
        draw = plots.plot_table if any(group for group, _ in self.by_group()) else plots.plot_release
        buffer = io.BytesIO()
        draw(self, buffer)
        return Picture(png=buffer.getvalue())

    def __str__(self) -> str:
        names = [
            ", ".join(map(printable, group.values()))
            + ": " * bool(group)
            + (_list_words(release) or str(release.status))
            for group, release in self.by_group()
        ]
        steps, status = (
            " or ".join(step.option for step in getattr(self, "next_steps", ())),
            getattr(self, "status", ""),
        )
        wish = "for a longer list" if status == "released" else "to find more"
        return "\n".join(
            [
                _fold("; ".join(names)),
                f"{status}; {wish}: {steps}" if steps else str(status),
                printable(self.guarantee),
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Picture:
    """A figure that is drawn: a notebook shows it, and `save` writes it to a .png file."""

    png: bytes

    def _repr_png_(self) -> bytes:
        return self.png

    def save(self, path: str) -> None:
        """Write the picture to a file."""
        Path(path).write_bytes(self.png)


def _array(values: list[Any]) -> Any:
    """Return values as one Arrow array, or as text if they are of several types."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        return pa.array([None if value is None else str(value) for value in values])


def _list_words(release: Any) -> str:
    """Return the items of a release in one line, with their noisy counts if there are any."""
    counts, error = release.counts or {}, release.count_error
    words = {item: f" ({error.in_words(counts[item])})" if error else "" for item in release.listed() or ()}
    return ", ".join(f"{printable(item)}{count}" for item, count in words.items())


def _fold(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…"


def _section(title: str, plain: Mapping[str, Any]) -> str:
    """Return plain data as HTML: the items first, then one row a fact."""
    parts = [f"<h4>{html.escape(title)}</h4>"]
    items = plain.get("items")
    if items:
        words = _count_words(plain)
        heads = ["item", *(["users, noisy, 95 %"] if words else [])]
        parts.append(_table(heads, zip(items, words, strict=True) if words else ([item] for item in items)))
    groups = plain.get("groups")
    if isinstance(groups, Mapping):
        rows = [(group, one["status"], ", ".join(_item_words(one))) for group, one in groups.items()]
        parts.append(_table([str(plain.get("by", "group")), "status", "items"], rows))
    for name, value in plain.items():
        if name == "curves" and value:
            parts += ["<p>recall (items that go out), by epsilon</p>", _curve_table(value)]
        elif _is_list_of_rows(value):
            simple = [head for head, cell in value[0].items() if not isinstance(cell, Mapping | list)]
            heads = [head for head in simple if any(row.get(head) is not None for row in value)]
            cells = [[_word(row.get(head)) for head in heads] for row in value]
            parts += [f"<p>{html.escape(name)}</p>", _table([head.replace("_", " ") for head in heads], cells)]
    facts = [(name.replace("_", " "), _word(value)) for name, value in plain.items() if _is_fact(name, value)]
    return "\n".join([*parts, _table([], facts)])


def _curve_table(curves: Sequence[Mapping[str, Any]]) -> str:
    """Return the curves of a plan as one table: a row a mechanism and log, a column an epsilon."""
    epsilons = [f"{point['epsilon']:.4g}" for point in curves[0]["points"]]
    rows = [
        [curve["log"], " ".join([curve["mechanism"], *map(str, curve["parameters"].values())])]
        + [f"{point['recall']:.2f} ({point['items']:.1f})" for point in curve["points"]]
        for curve in curves
    ]
    return _table(["log", "mechanism", *epsilons], rows)


def _count_words(plain: Mapping[str, Any]) -> list[str]:
    """Return the noisy counts of a release with their error; of one below 0, which no log has, what it says."""
    counts, error = plain.get("counts") or [], plain.get("count_error")
    if not error:
        return [f"{count:,}" for count in counts]
    noisy = [f"{count:,} ± {error['plus_minus']:,}" for count in counts]
    return [
        words if count >= 0 else f"at most {high:,} ({words})"
        for words, count, (_, high) in zip(noisy, counts, error["intervals"], strict=True)
    ]


def _item_words(plain: Mapping[str, Any]) -> list[str]:
    """Return the items of a release, each with its noisy count if there is one."""
    items, words = plain["items"] or (), _count_words(plain)
    return [f"{item} ({count})" for item, count in zip(items, words, strict=True)] if words else list(map(str, items))


def _is_list_of_rows(value: Any) -> bool:
    """Tell a list of records from a list of next steps, which are sentences."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping) and "option" not in value[0]


def _is_fact(name: str, value: Any) -> bool:
    empty = value in (None, [], {}, "") or value is False or (name == "k" and not value)
    shown_already = name in ("items", "counts") or (name == "groups" and isinstance(value, Mapping))
    return name not in _LEFT_OUT and not shown_already and not _is_list_of_rows(value) and not empty


def _word(value: Any) -> str:
    """Return a value of plain data in a few words."""
    if isinstance(value, Mapping):
        if "sentence" in value:
            return str(value["sentence"])
        own = ", ".join(
            f"{k} = {_word(v)}" for k, v in value.items() if v is not None and k not in {*_LEFT_OUT, "name"}
        )
        return f"{value['name']} ({own})" if "name" in value else f"({own})"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(_word, value))
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def _table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as an HTML table; every cell is escaped, and control characters are spelled out."""

    def cells(values: Sequence[Any], tag: str) -> str:
        start = f'<{tag} style="text-align:left;vertical-align:top;padding:2px 12px 2px 0">'
        return "".join(f"{start}{html.escape(printable(value))}</{tag}>" for value in values)

    listed = list(rows)
    head = f"<thead><tr>{cells(headings, 'th')}</tr></thead>" if headings else ""
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in listed[:_MOST_ROWS])
    more = f"<p>… and {len(listed) - _MOST_ROWS} more</p>" if len(listed) > _MOST_ROWS else ""
    return f"<table>{head}<tbody>{body}</tbody></table>{more}"
