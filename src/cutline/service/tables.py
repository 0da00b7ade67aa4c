r"""What the service remembers beside the books: people, how they prove who they are, datasets, who may ask, and jobs.

::

    service_people        name, role, password hash
    service_secrets       one-time links, sessions, tokens and sign-ins under way, by digest; none can be read back
    service_datasets      what may be asked of a log, as its owner declared it
    service_versions      names of the data as they were, in order
    service_periods       the names of a dataset's accounts in the books, in order; the last one pays
    service_grants        who may ask or review, with which share, until when
    service_requests      analysts who ask their owner for more
    service_jobs          questions that are answered later
    service_replays       what was answered to a POST with an Idempotency-Key

Money is not here: what was spent, and every answer, is in the ledger.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Float, Integer, Table, TypeDecorator

metadata = sa.MetaData()


class Text(TypeDecorator[str]):
    """Text, with a mark where somebody wrote the one character that PostgreSQL does not take."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:  # noqa: ARG002 - as the class above has it
        """Return it as it is written or looked for."""
        return value and value.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _texts(*names: str) -> list[Column[str]]:
    return [Column(name, Text, nullable=False) for name in names]


def _keys(*names: str) -> list[Column[str]]:
    return [Column(name, Text, primary_key=True) for name in names]


def _number() -> Column[int]:
    """Return the column that puts rows of one dataset in order."""
    return Column("number", Integer, nullable=False)


people = Table(
    "service_people",
    metadata,
    *_keys("name"),
    *_texts("role", "created"),
    Column("password", Text),
    Column("disabled", Text),
)

secrets = Table(
    "service_secrets",
    metadata,
    *_keys("digest"),
    *_texts("id", "kind", "person", "label", "scopes", "created", "expires"),
    Column("revoked", Text),
)

datasets = Table("service_datasets", metadata, *_keys("name"), *_texts("owner", "description", "created"))

versions = Table("service_versions", metadata, *_keys("dataset", "name"), *_texts("declared"), _number())

periods = Table("service_periods", metadata, *_keys("dataset", "name"), *_texts("declared"), _number())

grants = Table(
    "service_grants",
    metadata,
    *_keys("dataset", "person"),
    *_texts("role", "created"),
    Column("share", Text),
    Column("expires", Text),
)

requests = Table(
    "service_requests",
    metadata,
    *_keys("id"),
    *_texts("dataset", "person", "wish", "state", "created"),
    Column("share", Text),
    Column("decided", Text),
)

jobs = Table(
    "service_jobs",
    metadata,
    *_keys("id"),
    *_texts("dataset", "account", "version", "person", "question", "state", "created"),
    Column("entry", Integer),
    Column("problem", Text),
    Column("visible_from", Float),
)

replays = Table(
    "service_replays",
    metadata,
    *_keys("person", "key"),
    *_texts("digest", "location", "body", "created"),
    Column("status", Integer, nullable=False),
)
