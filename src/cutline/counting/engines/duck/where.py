r"""The row filter: one expression that reads one row and always says the same about it.

The text is parsed by the engine, its tree is walked, and only kinds of nodes on a list are let through; what runs is
SQL written anew from the tree, so that comments and parentheses in the text cannot reach the query around it. A row on
which the expression fails (a cast, an overflow) is dropped like one on which it is false. Functions are on a list,
too: the engine's ``TRY`` does not catch every failure, and a failure that depends on a row would tell about it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cutline.counting.engines.duck.engine import Engine, text_literal
from cutline.errors import WhereError

_CLASS_NAMES = "COMPARISON CONJUNCTION CONSTANT COLUMN_REF CAST TYPE CASE BETWEEN OPERATOR FUNCTION"
_CLASSES = frozenset(_CLASS_NAMES.split())
_OPERATOR_NAMES = """
    COMPARE_IN COMPARE_NOT_IN OPERATOR_CAST OPERATOR_COALESCE OPERATOR_IS_NOT_NULL OPERATOR_IS_NULL OPERATOR_NOT OPERATOR_TRY
    """
_OPERATORS = frozenset(_OPERATOR_NAMES.split())
_NAMES = """
    + - * / // % ** ^ & | << >> ~ || ~~ !~~ ~~* !~~* ~~~ ^@ ->>
    abs ceil ceiling floor round trunc sign sqrt cbrt exp ln log log2 log10 pow power mod greatest least isnan isinf isfinite
    lower lcase upper ucase length len strlen char_length character_length trim ltrim rtrim left right substr substring
    replace translate reverse strpos instr position contains prefix suffix starts_with ends_with concat concat_ws ascii
    unicode ord strip_accents nfc_normalize md5 sha1 sha256
    regexp_matches regexp_full_match regexp_extract regexp_replace
    date_part datepart date_trunc datetrunc year month day hour minute second quarter
    dayofmonth dayname monthname last_day epoch epoch_ms epoch_us
    make_date make_timestamp strftime try_strptime to_timestamp
    to_years to_months to_weeks to_days to_hours to_minutes to_seconds to_milliseconds to_microseconds
    json_extract_string json_valid json_type json_exists
    """
FUNCTIONS = frozenset(_NAMES.split())
_PART_NAMES = "year month day hour minute second quarter week dow isodow doy isoyear decade century epoch"
_PARTS = frozenset(_PART_NAMES.split())
_RULE = "where must be one row-local, deterministic condition"
_PREFIX = "SELECT 1 WHERE "


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A parsed filter."""

    text: str
    document: Mapping[str, Any]
    columns: tuple[str, ...]

    def bind(self, engine: Engine, columns: Mapping[str, tuple[str, str]]) -> str:
        """Return the SQL of the filter; ``columns`` gives each name its internal name and declared type."""
        document = json.loads(json.dumps(self.document))  # a copy to write in
        for node in _nodes(_expression(document)):
            if node.get("class") == "COLUMN_REF":
                node["column_names"] = [columns[node["column_names"][0]][0]]
        ((sql,),) = engine.rows("SELECT json_deserialize_sql(CAST($1 AS JSON))", [json.dumps(document)])
        expression = sql.removeprefix(_PREFIX)
        # One row without values, in a table of the declared types: binds every name and type, and reads nothing.
        values = ", ".join(f"CAST(NULL AS {declared}) AS {name}" for name, declared in columns.values())
        engine.run(f"CREATE OR REPLACE TEMP TABLE blank AS SELECT {values}")
        way_out = "Columns of CSV and JSON files are text: compare texts, or write TRY_CAST(column AS INTEGER)."
        if not engine.accepts(f"SELECT {expression} FROM blank"):
            raise WhereError(
                "where must fit the types of the columns, and must not fail on a row without values",
                _shown(self.text),
                way_out,
            )
        if engine.rows(f"SELECT typeof({expression}) FROM blank") != [("BOOLEAN",)]:
            raise WhereError(
                "where must be true or false", _shown(self.text), "Write a comparison, such as country = 'FR'."
            )
        return f"TRY({expression})"


def parse_where(engine: Engine, text: str) -> Condition:
    r"""Parse a filter, or refuse it; no row is read."""
    if not isinstance(text, str) or not text.strip():
        raise WhereError(_RULE, _shown(text), "Write a condition, such as country = 'FR', or leave where out.")
    document, template = _parse(engine, f"(\n{text}\n)"), _parse(engine, "(TRUE)")
    # Alone, "a) OR (b" does not parse; in parentheses, "a ORDER BY b" does not.
    alone = document and _parse(engine, text)
    if not document or not alone or not template or _frame(document) != _frame(template):
        raise WhereError(_RULE, _shown(text), "Write a single SQL expression, such as country = 'FR' AND year > 2020.")
    used, called = [], set()
    for node in _nodes(_expression(document)):
        _check_node(node, text)
        if node.get("class") == "COLUMN_REF":
            used.append(node["column_names"][0])
        elif node.get("class") == "FUNCTION":
            called.add(node["function_name"])
    for name in sorted(called):
        _check_function(engine, name, text)
    return Condition(text=text, document=document, columns=tuple(dict.fromkeys(used)))


def _check_node(node: Mapping[str, Any], text: str) -> None:
    """Let through only nodes that are known to be row-local."""
    kind = node.get("class")
    if kind is None:
        return
    if kind not in _CLASSES or (kind == "OPERATOR" and node["type"] not in _OPERATORS):
        what = str(node["type"] if kind == "OPERATOR" else kind).lower().replace("_", " ")
        way_out = "Use comparisons, AND, OR, NOT, IN, BETWEEN, CASE, casts and plain functions."
        raise _refuse(text, f"a {what}", way_out)
    if kind == "COLUMN_REF" and len(node["column_names"]) != 1:
        raise _refuse(text, "a qualified name", "Write the name of a column alone, in double quotes if need be.")
    if kind == "FUNCTION":
        special = [node[part] for part in ("schema", "catalog", "filter", "distinct", "export_state")]
        special += [node["order_bys"]["orders"], *(argument["name"] for argument in node["arguments"])]
        if node["function_name"] in ("date_part", "datepart") and not _is_part(node["arguments"]):
            raise _refuse(text, "an unusual part of a date", f"Use one of {', '.join(sorted(_PARTS))}.")
        if any(special):
            raise _refuse(text, "a special call", "Call functions as name(arguments).")


def _refuse(text: str, what: str, way_out: str) -> WhereError:
    return WhereError(_RULE, f"{_shown(text)} with {what}", way_out)


def _is_part(arguments: list[Any]) -> bool:
    """Tell whether the first argument is a constant part that every date and time has, or none fails on."""
    first = arguments[0]["expression"] if arguments else {}
    return first.get("class") == "CONSTANT" and str(first.get("literal", {}).get("text", "")).lower() in _PARTS


def _check_function(engine: Engine, name: str, text: str) -> None:
    """Let through functions of the list that the engine itself calls scalar and consistent."""
    known = engine.rows(
        "SELECT DISTINCT function_type, stability FROM duckdb_functions() WHERE function_name = $1", [name]
    )
    if (
        name not in FUNCTIONS
        or ("scalar", "CONSISTENT") not in known
        or any(kind in ("macro", "aggregate") for kind, _ in known)
    ):
        way_out = "Use another function, or filter the log before counting it."
        raise _refuse(text, f"the function {name!r}", way_out)


def _parse(engine: Engine, text: str) -> dict[str, Any] | None:
    query = _PREFIX + text if "\0" not in text else ""
    if not engine.accepts(f"SELECT json_serialize_sql({text_literal(query)})"):
        return None
    ((answer,),) = engine.rows("SELECT json_serialize_sql($1)", [query])
    try:
        document: dict[str, Any] = json.loads(answer)
    except (RecursionError, ValueError):
        return None
    if (
        document.get("error")
        or len(document["statements"]) != 1
        or document["statements"][0]["node"]["type"] != "SELECT_NODE"
    ):
        return None
    return document


def _shown(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) <= 200 else shown[:200] + "..."


def _expression(document: Mapping[str, Any]) -> Any:
    return document["statements"][0]["node"]["where_clause"]


def _frame(document: Mapping[str, Any]) -> str:
    """Everything around the expression; it must be what the template has."""
    statement = document["statements"][0]
    around = {key: value for key, value in statement["node"].items() if key != "where_clause"}
    return json.dumps([around, statement.get("named_param_map")], sort_keys=True)


def _nodes(tree: Any) -> list[dict[str, Any]]:
    """All objects of a tree, without recursion."""
    found, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            found.append(node)
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return found
