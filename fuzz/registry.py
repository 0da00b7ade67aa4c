"""The targets, by name: a new one is a function of a case and one line here."""

from __future__ import annotations

from collections.abc import Mapping

from fuzz import api, claims, command_line, files, kills, rules
from fuzz.target import Target

TARGETS: Mapping[str, Target] = {
    "mechanisms": claims.mechanisms,
    "aggregators": claims.aggregators,
    "rules": rules.rules,
    "api": api.calls,
    "counts": api.ready_counts,
    "books": api.books,
    "commands": command_line.commands,
    "files": files.broken,
    "rows": files.one_row_more,
    "kills": kills.kills,
}
