r"""The row filter: one expression that reads one row and always says the same about it.

The text is parsed by the engine, its tree is walked, and only kinds of nodes on a list are let through; what runs is
SQL written anew from the tree, so that comments and parentheses in the text cannot reach the query around it. A row on
which the expression fails (a cast, an overflow) is dropped like one on which it is false. What ``TRY`` does not catch
would tell about a row: a failure past it, or one that runs out of memory. So functions are on a list: each gives a value of
fixed width, or at most as many characters as its arguments have (a hash 64, a number of JSON 24), and no nest of them grows.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cutline.counting.engines.duck.engine import Engine
from cutline.errors import EngineError, WhereError

_CLASS_NAMES = "COMPARISON CONJUNCTION CONSTANT COLUMN_REF CAST TYPE CASE BETWEEN OPERATOR FUNCTION"
_CLASSES = frozenset(_CLASS_NAMES.split())
_OPERATOR_NAMES = """
    COMPARE_IN COMPARE_NOT_IN OPERATOR_CAST OPERATOR_COALESCE OPERATOR_IS_NOT_NULL OPERATOR_IS_NULL OPERATOR_NOT OPERATOR_TRY
    """
_OPERATORS = frozenset(_OPERATOR_NAMES.split())
# Not here, because nesting them grows: BLOB and BIT (one byte, eight digits, eight bytes), JSON, lists, structs, BIGNUM.
_TYPE_NAMES = """
    BOOL BOOLEAN TINYINT SMALLINT INT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT INT1 INT2 INT4 INT8
    FLOAT REAL FLOAT4 DOUBLE FLOAT8 DECIMAL NUMERIC CHAR BPCHAR TEXT STRING VARCHAR UUID DATE TIME TIMESTAMP DATETIME INTERVAL
    TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_US TIMESTAMP_NS TIMESTAMPTZ TIMETZ TIMESTAMP|WITH|TIME|ZONE TIME|WITH|TIME|ZONE
    """
_TYPES = frozenset(name.replace("|", " ") for name in _TYPE_NAMES.split())
# Not here, because nesting them grows: replace, regexp_replace, repeat, lpad, format, concat_ws (it repeats its separator)
# and nfc_normalize (one character becomes up to three, and translate turns them back into the first).
_NAMES = """
    + - * / // % ** ^ & | << >> ~ || ~~ !~~ ~~* !~~* ~~~ ^@ ->>
    abs ceil ceiling floor round trunc sign sqrt cbrt exp ln log log2 log10 pow power mod greatest least isnan isinf isfinite
    lower lcase upper ucase length len strlen char_length character_length trim ltrim rtrim left right substr substring
    translate reverse strpos instr position contains prefix suffix starts_with ends_with concat ascii
    unicode ord strip_accents md5 sha1 sha256 regexp_matches regexp_full_match regexp_extract
    date_part datepart date_trunc datetrunc year month day hour minute second quarter
    dayofmonth dayname monthname last_day epoch epoch_ms epoch_us
    make_date make_timestamp strftime try_strptime to_timestamp
    to_years to_months to_weeks to_days to_hours to_minutes to_seconds to_milliseconds to_microseconds
    json_extract_string json_valid json_type json_exists
    """
FUNCTIONS = frozenset(_NAMES.split())
# All arguments but the first are constants: a cell as a pattern takes the product of two lengths, and one as a format grows.
_PATTERNED = re.compile(r"!?~~[*~]?|->>|(regexp|json)_.*|strftime|try_strptime")
_PART_NAMES = "year month day hour minute second quarter week dow isodow doy isoyear decade century epoch"
_PARTS = frozenset(_PART_NAMES.split())
_RULE = "where must be one row-local, deterministic condition"
_PREFIX = "SELECT 1 WHERE "
# The bounds are public. Nested or not, joined texts have at most one copy of a cell for each text that is joined.
_CHARACTERS, _LEVELS, _JOINED, _REPEATED = 2000, 50, 10, 1000
_plain_functions: list[frozenset[str]] = []  # asked of one engine for all: listing them takes longer than opening it


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A parsed filter."""

    text: str
    document: Mapping[str, Any]
    columns: tuple[str, ...]

    def bind(self, engine: Engine, columns: Mapping[str, tuple[str, str]]) -> str:
        """Return the SQL of the filter; ``columns`` gives each name its internal name and declared type."""
        document = json.loads(json.dumps(self.document))  # a copy to write in
        for node, _ in _nodes(_expression(document)):
            if node.get("class") == "COLUMN_REF":
                node["column_names"] = [columns[node["column_names"][0]][0]]
        ((sql,),) = engine.rows("SELECT json_deserialize_sql(CAST($1 AS JSON))", [json.dumps(document)])
        expression = sql.removeprefix(_PREFIX)
        # One row without values, in a table of the declared types: binds every name and type, and reads nothing.
        values = ", ".join(f"CAST(NULL AS {declared}) AS {name}" for name, declared in columns.values())
        engine.run(f"CREATE OR REPLACE TEMP TABLE blank AS SELECT {values}")
        if not engine.accepts(f"SELECT {expression} FROM blank"):
            rule = "where must fit the types of the columns, and must not fail on a row without values"
            way_out = "Columns of CSV and JSON files are text: compare texts, or write TRY_CAST(column AS INTEGER)."
            raise WhereError(rule, _shown(self.text), way_out)
        if engine.rows(f"SELECT typeof({expression}) FROM blank") != [("BOOLEAN",)]:
            way_out = "Write a comparison, such as country = 'FR'."
            raise WhereError("where must be true or false", _shown(self.text), way_out)
        return f"TRY({expression})"


def parse_where(engine: Engine, text: str) -> Condition:
    r"""Parse a filter, or refuse it; no row is read."""
    if not isinstance(text, str) or not text.strip():
        raise WhereError(_RULE, _shown(text), "Write a condition, such as country = 'FR', or leave where out.")
    _check_bound(len(text), _CHARACTERS, "characters")
    document, template = _parse(engine, f"(\n{text}\n)"), _parse(engine, "(TRUE)")
    # Alone, "a) OR (b" does not parse; in parentheses, "a ORDER BY b" does not.
    alone = document and _parse(engine, text)
    if not document or not alone or not template or _frame(document) != _frame(template):
        raise WhereError(_RULE, _shown(text), "Write a single SQL expression, such as country = 'FR' AND year > 2020.")
    used, called, joined = [], set(), 1
    for node, level in _nodes(_expression(document)):
        _check_bound(level, _LEVELS, "levels of nesting")
        _check_node(node, text)
        if node.get("class") == "COLUMN_REF":
            used.append(node["column_names"][0])
        elif node.get("class") == "FUNCTION":
            called.add(node["function_name"])
            joined += len(node["arguments"]) - 1 if node["function_name"] in ("||", "concat") else 0
    _check_bound(joined, _JOINED, "texts joined by || and concat")
    for name in sorted(called):
        _check_function(engine, name, text)
    return Condition(text=text, document=document, columns=tuple(dict.fromkeys(used)))


def _check_bound(number: int, most: int, what: str) -> None:
    if number > most:
        way_out = "Shorten it, or filter the log before counting it."
        raise WhereError(f"where must have at most {most} {what}", str(number), way_out)


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
    if kind == "TYPE" and (node["type_name"].upper() not in _TYPES or node["schema"] or node["catalog"]):
        raise _refuse(text, f"the type {node['type_name']!r}", "Cast to text, a number, a date or a truth value.")
    if kind == "FUNCTION":
        name, arguments = node["function_name"], [argument["expression"] for argument in node["arguments"]]
        special = [node[part] for part in ("schema", "catalog", "filter", "distinct", "export_state")]
        special += [node["order_bys"]["orders"], *(argument["name"] for argument in node["arguments"])]
        # A constant part that every date and time has, or none fails on.
        parts = [str(_constant_text(part)).lower() for part in arguments[:1]]
        if name in ("date_part", "datepart") and not _PARTS.issuperset(parts):
            raise _refuse(text, "an unusual part of a date", f"Use one of {', '.join(sorted(_PARTS))}.")
        if any(special):
            raise _refuse(text, "a special call", "Call functions as name(arguments).")
        for pattern in arguments[1:] if _PATTERNED.fullmatch(name) else ():
            _check_pattern(name, pattern, text)


def _check_pattern(name: str, pattern: Mapping[str, Any], text: str) -> None:
    """Let through constants; of regular expressions small ones, and of JSON paths those to one place.

    Matching is linear in the cell, but a{1000} takes a thousand times the memory of a, and ``$..*`` gives each part of
    a document once for each part around it.
    """
    constant = _constant_text(pattern)
    if constant is None:
        raise _refuse(text, f"a pattern, format or path of {name!r} from a row", "Write it as one constant.")
    if name.startswith("regexp_"):
        counts = re.findall(r"\{(\d+)(?:,(\d*))?\}", constant)
        repeated = math.prod(max(1, *(int(number or 0) for number in pair)) for pair in counts)
        _check_bound(repeated, _REPEATED, "repetitions, multiplied, in a regular expression")
    elif (name == "->>" or name.startswith("json_")) and ("*" in constant or ".." in constant):
        raise _refuse(text, "a path with wildcards", "Write the path of one value, such as '$.country'.")


def _refuse(text: str, what: str, way_out: str) -> WhereError:
    return WhereError(_RULE, f"{_shown(text)} with {what}", way_out)


def _constant_text(expression: Mapping[str, Any]) -> str | None:
    literal = expression.get("literal") if expression.get("class") == "CONSTANT" else None
    return None if literal is None else str(literal.get("text", ""))


def _check_function(engine: Engine, name: str, text: str) -> None:
    """Let through functions of the list that the engine itself calls scalar and consistent."""
    if name not in FUNCTIONS or name not in _list_plain_functions(engine):
        way_out = "Use another function, or filter the log before counting it."
        raise _refuse(text, f"the function {name!r}", way_out)


def _list_plain_functions(engine: Engine) -> frozenset[str]:
    """Return the functions that are scalar and consistent and nothing else beside; one engine has the same as the next."""
    if not _plain_functions:
        kinds = "SELECT DISTINCT function_name, function_type, stability FROM duckdb_functions()"
        known: dict[str, set[tuple[str, str]]] = {}
        for name, *kind in engine.rows(kinds):
            known.setdefault(name, set()).add((kind[0], kind[1]))
        _plain_functions.append(
            frozenset(
                name
                for name, found in known.items()
                if ("scalar", "CONSISTENT") in found and not {kind for kind, _ in found} & {"macro", "aggregate"}
            )
        )
    return _plain_functions[0]


def _parse(engine: Engine, text: str) -> dict[str, Any] | None:
    query = _PREFIX + text if "\0" not in text else ""
    try:
        ((answer,),) = engine.rows("SELECT json_serialize_sql($1)", [query])
        document: dict[str, Any] = json.loads(answer)
    except (EngineError, RecursionError, ValueError):
        return None
    kinds = [] if document.get("error") else [statement["node"]["type"] for statement in document["statements"]]
    return document if kinds == ["SELECT_NODE"] else None


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


def _nodes(tree: Any) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield all objects of a tree with their levels, without recursion."""
    waiting = [(tree, 0)]
    while waiting:
        node, level = waiting.pop()
        if isinstance(node, dict):
            level += "class" in node
            yield node, level
        inside = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        waiting.extend((part, level) for part in inside)
