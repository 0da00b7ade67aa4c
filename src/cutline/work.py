r"""What a quote runs: one kind of work for top sets, one for tables of groups and one for labels, all paid for in one way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic

from cutline.counting import Progress
from cutline.payment import Answer
from cutline.privacy import Budget, Cost
from cutline.sampling import Source


class Work(ABC, Generic[Answer]):
    """What a quote runs: bound to a source before it is paid for, counted and drawn afterwards."""

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """The cost of the dearest path."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return name and public parameters of what runs, as plain data."""

    @abstractmethod
    def promise(self, budget: Budget, *, seeded: bool) -> str:
        """Return the guarantee that the answer will state; it does not depend on the answer."""

    @abstractmethod
    def ask(self) -> dict[str, Any]:
        """Return the public question as plain data: all that must be equal for one answer to serve twice, but the data."""

    def as_asked(self) -> Work[Answer]:
        """Return the work without what the books added to it: by this a question that is asked again is recognised."""
        return self

    def planned(self, budget: Budget) -> Budget:
        """Return how many releases like this one the budget covers: all that it is for, or fewer if each may take more."""
        return budget

    def say_by_chance(self) -> str | None:
        """Say how much of the answer would be chance on a log that has nothing to find; None where nothing is then shown."""
        return None

    @abstractmethod
    def read(self, record: Mapping[str, Any]) -> Answer:
        """Read an answer to this question back from its record."""

    @abstractmethod
    def bind(self, source: Any) -> Any:
        """Open the source and refuse, for public reasons only, what does not fit; no row is read."""

    @abstractmethod
    def count(self, bound: Any, progress: Progress | None) -> Any:
        """Read the rows and count; the result is private."""

    @abstractmethod
    def draw(self, counted: Any, rng: Source) -> Answer:
        """Draw what becomes public."""
