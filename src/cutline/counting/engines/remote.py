r"""What adapters of other people's engines share: refusals, the caller's lists, and errors that quote nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from cutline.counting.engines.duck.candidates import register_listed
from cutline.counting.engines.duck.engine import Engine
from cutline.counting.question import Question
from cutline.errors import ColumnTypeError, CutlineError, EngineError, ParameterError, WhereError
from cutline.histogram import Item

T = TypeVar("T")


def refuse_local_options(question: Question, *, engine: str) -> None:
    """Refuse what only the engine of this process can do."""
    if question.where is not None:
        raise WhereError(
            f"where is for files and tables in memory; {engine} filters its own rows",
            repr(question.where)[:200],
            "Filter before you pass it on; each row must be kept or dropped by its own cells alone.",
        )
    if question.memory_limit is not None:
        raise ParameterError(
            f"memory_limit is for files and tables in memory; {engine} has settings of its own",
            repr(question.memory_limit),
            "Leave it out.",
        )


def refuse_type(role: str, name: str, declared: str, *, known: str) -> ColumnTypeError:
    """Return the refusal of a column's type, which is public."""
    return ColumnTypeError(
        f"the {role} column must hold {known}",
        f"{name!r} of type {declared[:80]}",
        "Turn it into one of these first; each new value must come from its own row alone.",
    )


def listed_values(
    role: str, values: Sequence[Item], *, column: str, declared: str
) -> tuple[list[tuple[int, Any]], Any]:
    """Match the caller's list to a type of DuckDB's; return rows (place, value), and the places in the values' own order.

    One engine orders the candidates of all, so that no other engine's idea of order can differ.
    """
    with Engine() as engine:
        register_listed(engine, role, values, column=column, declared=declared)
        rows = engine.rows(f"SELECT place, value FROM {role} ORDER BY place")
        return [(place, value) for place, value in rows], engine.arrow(f"SELECT place FROM {role} ORDER BY value")


def counted_table(rows: Sequence[Sequence[Any]]) -> Any:
    """Return rows (g, place, n) as a pyarrow table."""
    import pyarrow as pa

    places, kinds = ("g", "place", "n"), (pa.int32(), pa.int32(), pa.int64())
    return pa.table({name: pa.array([row[i] for row in rows], kinds[i]) for i, name in enumerate(places)})


def silently(engine: str, action: Callable[[], T]) -> T:
    """Run a call of another engine; replace what it raises and drop what it warns of, because both can quote cells."""
    refusal: CutlineError
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return action()
    except CutlineError as error:
        refusal = error
    except Exception:
        refusal = EngineError(
            f"{engine} must finish the count", "", f"Run the same table's count() in {engine} to see its own words."
        )
    raise refusal
