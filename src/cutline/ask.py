r"""What can be asked: the parameters of the public verbs, named and typed once.

`cutline.top` explains them one by one. `cutline.quote`, `cutline.top` and `cutline.top_by` share `Ask`.
"""

from __future__ import annotations

from collections.abc import Sequence

from cutline.counting.question import Columns
from cutline.payment import Payment


class Ask(Columns, Payment, total=False):
    """A question about a log; the last parameters belong to single mechanisms, and each refuses those it does not have."""

    k: int | None
    max_k: int | None
    mechanism: str | None
    counts: bool | str

    min_k: int | None
    target: int | None
    weight: float | None
    clip: int | None
    prior: Sequence[float] | None
    prefer_larger: bool | None
    hint: int | bool | None
    choose: str | None
    test: str | None
    accounting: str | None
    test_share: float | None
    ranks: tuple[int, ...] | None
