r"""The default adapter: files and tables in memory, counted by a private DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cutline.counting.engines.duck.candidates import register_listed
from cutline.counting.engines.duck.columns import check_names, plain_value
from cutline.counting.engines.duck.engine import Engine
from cutline.counting.engines.duck.files import Log
from cutline.counting.engines.duck.spill import spill_directory
from cutline.counting.engines.duck.tally import tally_candidates, top_of_all, top_of_groups
from cutline.counting.engines.duck.termination import clean_termination
from cutline.counting.engines.duck.where import parse_where
from cutline.counting.question import Question
from cutline.errors import WhereError


@dataclass(frozen=True, slots=True, kw_only=True)
class Duck:
    """A log that DuckDB reads."""

    log: Log

    def check(self, question: Question) -> None:
        """Bind the question to the log's declared columns; no row is counted."""
        with Engine(paths=self.log.paths, row_local=question.where is not None) as engine:
            _show_votes(engine, self.log.shape(), question)

    def top(self, question: Question, *, max_k: int) -> list[tuple[Any, ...]]:
        """Return rows (group, item, count): the top ``max_k + 1`` of each group, in order."""
        with self._votes(question) as engine:
            if question.grouping is None:
                return top_of_all(engine, max_k=max_k, cheap=self.log.cheap)
            return top_of_groups(engine, question.grouping, max_k=max_k)

    def tally(self, question: Question) -> tuple[Any, Any]:
        """Return the candidates' own order and their positive counts."""
        with self._votes(question) as engine:
            return tally_candidates(engine, question.grouping)

    @contextmanager
    def _votes(self, question: Question) -> Iterator[Engine]:
        with (
            clean_termination(),
            spill_directory() as spill,
            Engine(
                spill=spill,
                memory_limit=question.memory_limit,
                paths=self.log.paths,
                row_local=question.where is not None,
                progress=question.progress,
            ) as engine,
        ):
            _show_votes(engine, self.log, question)
            yield engine
            engine.finished()


def _show_votes(engine: Engine, log: Log, question: Question) -> None:
    """Create the view ``votes`` and the tables of the caller's lists; refuse what does not fit."""
    condition = None if question.where is None else parse_where(engine, question.where)
    filtered = condition.columns if condition else ()
    wanted = list(dict.fromkeys([*question.columns, *filtered]))
    present = log.columns(engine)
    if present is not None:
        check_names(question.columns, present)
        check_names(filtered, present, refusal=WhereError)
    engine.run(f"CREATE TEMP VIEW log AS {log.scan(engine, wanted)}")
    declared = [kind for _, kind, *_ in engine.rows("DESCRIBE log")]
    columns = {name: (f"c{i}", kind) for i, (name, kind) in enumerate(zip(wanted, declared, strict=True))}
    users, _ = plain_value("user", question.user, *columns[question.user])
    items, kind = plain_value("item", question.item, *columns[question.item])
    kept = "" if condition is None else f" AND {condition.bind(engine, columns)}"
    group = ""
    if question.candidates is not None:
        register_listed(engine, "candidates", question.candidates, column=question.item, declared=kind)
    if question.grouping is not None:
        by = question.grouping.column
        groups, kind = plain_value("by", by, *columns[by])
        register_listed(engine, "groups", question.grouping.groups, column=by, declared=kind)
        group = f", {groups} AS b"
    engine.run(
        f"CREATE TEMP VIEW votes AS SELECT {users} AS u, {items} AS i{group} FROM log "
        f"WHERE ({users}) IS NOT NULL AND ({items}) IS NOT NULL{kept}"
    )
