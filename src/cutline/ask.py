r"""What can be asked: the parameters of the public verbs, named and typed once.

`cutline.top` explains them one by one. `cutline.quote`, `cutline.top` and `cutline.top_by` share `Ask`; labels are paid for by
the same `Payment`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from cutline.counting.question import Columns
from cutline.privacy import Adjacency
from cutline.sampling import Source

if TYPE_CHECKING:
    from cutline.ledger import Ledger

LedgerAddress = str | os.PathLike[str]  # by address; an open `cutline.Ledger` will do as well


class Payment(TypedDict, total=False):
    """What may be spent and who pays; `agree_terms` settles it, for top sets and for labels alike."""

    epsilon: float | None
    delta: float | None
    releases: int | None
    adjacency: Adjacency | str | None
    ledger: Ledger | LedgerAddress | None
    dataset: str | None
    analyst: str | None
    rng: Source | None


class Ask(Columns, Payment, total=False):
    """A question about a log; the last parameters belong to single mechanisms, and each refuses those it does not have."""

    k: int | None
    max_k: int | None
    mechanism: str | None
    counts: bool

    min_k: int | None
    target: int | None
    weight: float | None
    clip: int | None
    prior: Sequence[float] | None
    prefer_larger: bool | None
    choose: str | None
    test: str | None
    accounting: str | None
    test_share: float | None
    ranks: tuple[int, ...] | None
