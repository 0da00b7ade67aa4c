r"""What callers may send: exactly these fields, of exactly these types, each within its range."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from cutline.privacy import Budget
from cutline.service.asking import Asked
from cutline.service.catalogue import Description, Groups

Name = Annotated[str, Field(min_length=1, max_length=100)]
Cursor = Annotated[str | None, Query(max_length=100, description="Where the last page ended.")]
Limit = Annotated[int, Query(ge=1, le=200, description="How many on a page.")]
Plain = dict[str, Any]


class Words(BaseModel):
    """A body: exactly these fields, of exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AskedIn(Words):
    """A question, in names that the dataset's owner declared."""

    item: Name
    k: Annotated[int, Field(ge=1, le=1000)] | None = None
    filter: Name | None = None
    by: Name | None = None
    counts: bool = False
    share: Annotated[str, Field(max_length=30)] | None = None
    purpose: Annotated[str, Field(max_length=500)] | None = None

    def asked(self) -> Asked:
        """Return it in the service's own words."""
        return Asked(**self.model_dump())


class QuoteIn(AskedIn):
    """A question whose price is wanted, and how far the items to be found may stand above the others, in users."""

    size: Annotated[int, Field(ge=1, le=10**9)] | None = None

    def asked(self) -> Asked:
        """Return the question in the service's own words."""
        return Asked(**self.model_dump(exclude={"size"}))


class GroupsIn(Words):
    """The groups of one column."""

    values: Annotated[list[str | int], Field(min_length=1, max_length=10_000)]
    max_groups_per_user: Annotated[int, Field(ge=1, le=10_000)] | None = None


class BudgetIn(Words):
    """What all answers of one period may cost together."""

    epsilon: Annotated[float, Field(ge=1e-9, le=1e4)]
    delta: Annotated[float, Field(ge=1e-200, lt=1)] = 1e-6
    questions: Annotated[int, Field(ge=1, le=1_000_000)]

    def budget(self) -> Budget:
        """Return it as the library has it."""
        return Budget(epsilon=self.epsilon, delta=self.delta, releases=self.questions)


class DatasetIn(Words):
    """What an owner declares about a log."""

    name: Name
    title: Annotated[str, Field(min_length=1, max_length=200)]
    source: Name
    user: Name
    items: Annotated[list[Name], Field(min_length=1, max_length=50)]
    filters: dict[Name, Annotated[str, Field(min_length=1, max_length=2000)]] = {}
    groups: dict[Name, GroupsIn] = {}
    max_items_per_user: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    answers: Literal["now", "later"] = "now"
    practice_names: Annotated[list[Name], Field(max_length=10_000)] = []
    version: Name
    period: Name
    budget: BudgetIn

    def description(self) -> Description:
        """Return it as the catalogue keeps it."""
        groups = {
            column: Groups(values=tuple(each.values), max_groups_per_user=each.max_groups_per_user)
            for column, each in self.groups.items()
        }
        return Description(
            title=self.title,
            source=self.source,
            user=self.user,
            items=tuple(self.items),
            filters=self.filters,
            groups=groups,
            max_items_per_user=self.max_items_per_user,
            answers=self.answers,
            practice_names=tuple(self.practice_names),
        )


class VersionIn(Words):
    """A new name for the data as they are now."""

    version: Name


class PeriodIn(Words):
    """A new account for the same people."""

    period: Name
    budget: BudgetIn


class GrantIn(Words):
    """Access for one person."""

    model_config = ConfigDict(extra="forbid", strict=False)  # a date arrives as text

    person: Name
    role: Literal["analyst", "reviewer"]
    share: Annotated[str, Field(max_length=30)] | None = None
    expires: dt.date | None = None


class RequestIn(Words):
    """A wish for more."""

    wish: Annotated[str, Field(min_length=1, max_length=1000)]
    share: Annotated[str, Field(max_length=30)] | None = None


class DecisionIn(Words):
    """What the owner decides."""

    approve: bool


class TokenIn(Words):
    """A token for a program."""

    label: Annotated[str, Field(max_length=100)] = ""
    scopes: Annotated[list[Literal["read", "ask", "manage"]], Field(min_length=1)]
    days: Annotated[int, Field(ge=1, le=366)] = 30


class PersonIn(Words):
    """Somebody to invite."""

    name: Name
    role: Literal["admin", "owner", "analyst", "reviewer"]


class PlanIn(Words):
    """How many questions, and how small a gap they should see."""

    questions: Annotated[int, Field(ge=1, le=100_000)]
    gap: Annotated[int, Field(ge=1, le=10**9)]
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-6


class Problem(BaseModel):
    """A refusal: the rule, the public value that broke it, and what to do."""

    type: str
    title: str
    status: int
    detail: str
    rule: str
    value: str
    way_out: str


REFUSALS: dict[int | str, Any] = {
    code: {"model": Problem, "content": {"application/problem+json": {}}, "description": text}
    for code, text in {
        400: "The request cannot be read.",
        401: "Nobody is signed in, or the token is unknown.",
        403: "Not for this role, this token, or from another site.",
        404: "There is none, or not for this caller.",
        408: "The body did not come to its end.",
        409: "The state of things, or of the budget, does not allow it.",
        413: "The body is too large.",
        415: "The body is not JSON.",
        422: "A value is out of its range.",
        429: "Too many calls in a minute.",
        500: "The engine failed; its own words are withheld.",
        503: "The books cannot be written now; nothing is released.",
    }.items()
}
