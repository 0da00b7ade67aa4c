r"""How a run of a mechanism ended, why it can end so, and what to ask next.

An `Outcome` is what the run itself shows: items, cut and steps; a mechanism's exact law is over outcomes. `explain_status` and
`advise` put it into words for a person. They read public facts alone: the outcome, the mechanism's parameters and the budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeAlias

from cutline.histogram import Item
from cutline.privacy import Budget

Items: TypeAlias = frozenset[Item] | tuple[Item, ...]

# What a next step changes. Three times the budget turned every empty answer of the logs that were tried into a list; a third of
# the items did so about half of the time, and costs no more [docs/answers.md].
_FACTOR = 3
_USUAL_K = 10
_USUAL_BOUND = 50
_BOUND_FROM = 15  # of k: below, more is found without a bound on items per user [docs/counting.md]

# A step to another kind of question is one to another mechanism, which refuses parameters that it does not have.
# Of these, the answer shows which wishes for a cut were given; who named a mechanism knows.
_WISHES = ("min_k", "target", "weight", "clip", "prefer_larger")
_LEFT_OUT = (*_WISHES, "prior", "hint", "choose", "test", "accounting", "test_share", "ranks", "mechanism")


class Status(StrEnum):
    """How a run ended."""

    RELEASED = "released"
    PARTIAL = "partial"  # fewer items than k
    EMPTY = "empty"  # no item
    WITHHELD = "withheld"  # no set at all

    def meets(self, required: str) -> bool:
        """Say whether an answer of this status is at least what was required: "released", or "partial" for any items at all.

        Examples
        --------
        >>> Status.PARTIAL.meets("partial"), Status.PARTIAL.meets("released"), Status.EMPTY.meets("partial")
        (True, False, False)
        """
        return self is Status.RELEASED or (self is Status.PARTIAL and required == "partial")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    r"""What one run of a mechanism shows: equal outcomes cannot be told apart.

    Parameters
    ----------
    items
        A ``frozenset`` (the order means nothing), a ``tuple`` (ordered), or None when withheld.
    k
        The cut that was chosen or asked for; 0 when the mechanism does not show one.
    steps
        Which public steps ran, in order. They are the same in every run of a mechanism with only one path.

    Examples
    --------
    >>> str(Outcome(items=frozenset({"a", "b"}), k=3).status), str(Outcome(items=None).status)
    ('partial', 'withheld')
    """

    items: Items | None
    k: int = 0
    steps: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """How the run ended: released, partial, empty or withheld."""
        if self.items is None:
            return Status.WITHHELD
        if not self.items:
            return Status.EMPTY
        return Status.PARTIAL if len(self.items) < self.k else Status.RELEASED


Law: TypeAlias = Mapping[Outcome, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    r"""One parameter to change when asking again, and what that may do; asking again is a release of its own.

    Parameters
    ----------
    parameter, value
        What to change, and to what.
    because
        What that may do.
    without
        Parameters that do not go with it, whether or not they were given: leave them out.
    shown
        Those of them that the answer shows to have been given, which a person is told.

    Examples
    --------
    >>> step = NextStep(parameter="k", value=10, because="items go out one by one", without=("min_k",), shown=("min_k",))
    >>> step.option, step.sentence
    ('--k 10', '--k 10, without --min-k: items go out one by one')
    """

    parameter: str
    value: int | float | str
    because: str
    without: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()

    @property
    def option(self) -> str:
        """The step as the command line takes it."""
        return f"{_as_option(self.parameter)} {self.value}"

    @property
    def sentence(self) -> str:
        """The step in a line: what to change, what to leave out, and what that may do."""
        without = f", without {' and '.join(map(_as_option, self.shown))}" if self.shown else ""
        return f"{self.option}{without}: {self.because}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        named = {"parameter": self.parameter, "value": self.value, "option": self.option, "because": self.because}
        return named | {"without": list(self.without), "sentence": self.sentence}


def _as_option(parameter: str) -> str:
    return f"--{parameter.replace('_', '-')}"


def join_statuses(statuses: Iterable[Status]) -> Status:
    """Return the status of several answers together: released if all are, withheld or empty if none has an item, or partial.

    Examples
    --------
    >>> str(join_statuses([Status.RELEASED, Status.WITHHELD])), str(join_statuses([Status.EMPTY, Status.WITHHELD]))
    ('partial', 'empty')
    """
    found = set(statuses)
    if len(found) == 1:
        return found.pop()
    return Status.PARTIAL if found & {Status.RELEASED, Status.PARTIAL} else Status.EMPTY


def explain_status(status: Status, *, mechanism: Mapping[str, Any], k: int) -> str:
    """Say in a sentence or two why an answer can have this status; it follows from the mechanism and its outcome alone."""
    few = "where the log has too few users for an epsilon this small; an empty log looks the same"
    if status is Status.WITHHELD and mechanism.get("name") == "peel-then-test":
        return (
            "An item of the list that was drawn did not stand clear enough of those that are not looked at. "
            f"That happens {few}."
        )
    if status is Status.WITHHELD:
        return (
            "The set did not pass the test whether it would be the same without any one user. That happens where the items on "
            f"both sides of the cut have nearly as many users, or {few}."
        )
    if status is Status.EMPTY:
        return f"No item could be told from one that hardly anybody has. That happens {few}."
    if status is Status.PARTIAL:
        return f"Fewer than {k} items could be told from those that hardly anybody has, or the log has no more of them."
    if k == 1:
        return "The one item went out."
    return f"All {k} items went out." if k else "Every item that was found to have many users went out."


def advise(
    outcome: Outcome, *, mechanism: Mapping[str, Any], budget: Budget | None, paid: bool
) -> tuple[NextStep, ...]:
    """Return what to change when asking again, what costs no more first; ``paid`` says whether a ledger paid, in shares."""
    status, k = outcome.status, mechanism.get("k")
    if status is Status.RELEASED:
        short = k is None and outcome.k < _USUAL_K and mechanism.get("min_k", _USUAL_K) < _USUAL_K <= mechanism["max_k"]
        why = "the list ends at a later gap, if there is one that is clear"
        return (NextStep(parameter="min_k", value=_USUAL_K, because=why),) if short else ()
    steps = []
    shown = tuple(name for name in _WISHES if mechanism.get(name) and (name, mechanism[name]) != ("min_k", 1))
    shown = shown if "prefer_larger" not in shown else ("prefer_larger",)  # which sets a clip of its own
    if isinstance(k, int) and k > 1 and status is not Status.PARTIAL:
        steps.append(NextStep(parameter="k", value=max(1, k // _FACTOR), because="fewer items share the same budget"))
    if k is None and "max_items_per_user" not in mechanism and int(mechanism.get("max_k", 0)) >= _USUAL_K:
        why = "items then go out one by one, instead of all together or not at all"
        steps.append(NextStep(parameter="k", value=_USUAL_K, because=why, without=_LEFT_OUT, shown=shown))
    if budget is not None:
        steps += _spend_more(budget, paid=paid)
    if "max_items_per_user" not in mechanism and (k is None or k > _BOUND_FROM) and "max_k" in mechanism:
        why = "more of a long tail is found; take the number of items that most users have, if it is public"
        without = ("candidates", *_LEFT_OUT)
        bound = NextStep(parameter="max_items_per_user", value=_USUAL_BOUND, because=why, without=without, shown=shown)
        steps.append(bound)
    return tuple(steps)


def _spend_more(budget: Budget, *, paid: bool) -> list[NextStep]:
    """Return the step to a larger part of a ledger's budget, or to a larger epsilon; none if all is taken already."""
    why = "less noise, for a larger part of the budget" if paid else "less noise, and less privacy"
    if not paid:
        return [NextStep(parameter="epsilon", value=float(f"{_FACTOR * budget.epsilon:.2g}"), because=why)]
    share = min(Fraction(1), Fraction(_FACTOR, budget.releases))
    return [NextStep(parameter="share", value=str(share), because=why)] if budget.releases > 1 else []
