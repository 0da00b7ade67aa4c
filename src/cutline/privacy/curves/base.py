r"""What one use of a mechanism costs at every Rényi order: the protocol, the register of kinds, and composed uses.

A curve is inert public data. What else is known about it (zCDP, Gaussian DP, its privacy profile) it says by having the
attribute of `Concentrated`, `Normal` or `Profiled`; rules ask for no more than that. It is serialised as its fields plus
its ``kind`` and read back equal. A cost is a bag of uses of curves (`cutline.privacy.cost`) and asks every rule for an
epsilon (`cutline.privacy.rules.registry`). So that neither needs the other, rules are written against `Composition`,
which a cost fulfils.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from cutline.arrays import FloatArray
from cutline.errors import ParameterError, shortened


@runtime_checkable
class Curve(Protocol):
    """The Rényi curve of ONE use, an upper bound in both directions between neighbours."""

    kind: ClassVar[str]

    def rdp(self, order: float) -> float:
        """Return the Rényi divergence bound at ``order`` > 1, rounded up; ``math.inf`` as order asks for pure DP."""


@runtime_checkable
class Concentrated(Protocol):
    """A curve that is also rho-zCDP: ``rdp(order) <= rho * order`` for every order."""

    @property
    def rho(self) -> float:
        """The zCDP parameter, rounded up."""


@runtime_checkable
class Normal(Protocol):
    """A curve that is exactly mu-Gaussian DP."""

    @property
    def mu(self) -> float:
        """The separation of the two unit normal laws, rounded up."""


@runtime_checkable
class Profiled(Protocol):
    """A curve whose privacy profile is known, so that privacy-loss distributions can compose it."""

    def profile(self, epsilons: FloatArray) -> FloatArray:
        """Return, for each (possibly negative) epsilon, the largest hockey-stick divergence between neighbours."""


_KINDS: dict[str, type[Curve]] = {}

CurveClass = TypeVar("CurveClass", bound=type[Curve])


def register(kind: CurveClass) -> CurveClass:
    """Make a curve class readable from plain data."""
    _KINDS[kind.kind] = kind
    return kind


def known_kinds() -> tuple[str, ...]:
    """Return the kinds of all curves that can be read from plain data."""
    return tuple(sorted(_KINDS))


def curve_to_dict(curve: Curve) -> dict[str, Any]:
    """Return the curve as plain data."""
    record: Any = curve  # a protocol cannot say that every curve is a dataclass
    plain = {field.name: getattr(record, field.name) for field in fields(record)}
    return {"kind": curve.kind} | {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}


def curve_from_dict(plain: Mapping[str, Any]) -> Curve:
    """Read a curve back from plain data; the class checks its own fields."""
    if plain.get("kind") not in _KINDS:
        rule, known = "a curve's kind must be a known one", ", ".join(known_kinds())
        raise ParameterError(rule, f"kind={plain.get('kind')!r}", f"Known: {known}.")
    build: Callable[..., Curve] = _KINDS[plain["kind"]]
    return build(**{k: tuple(v) if isinstance(v, list) else v for k, v in plain.items() if k != "kind"})


def check_number(name: str, value: object) -> float:
    """Return a number as a plain float, or refuse what is none: text, truth values, arrays, what no float can hold.

    Numbers of numpy, decimals and fractions are numbers; not-a-number and infinity are left to the range that follows.
    """
    if not isinstance(value, bool) and isinstance(value, numbers.Real | Decimal):
        with suppress(OverflowError, ValueError):
            return float(value)
    raise ParameterError(f"{name} must be a number", f"{name}={shortened(value)}", f"Pass {name} as a float.")


def hold(record: object, **fields: object) -> None:
    """Set fields of a frozen record while it is made: numbers of numpy, decimals and fractions are kept as plain ones."""
    for name, value in fields.items():
        object.__setattr__(record, name, value)


def check_order(order: float) -> float:
    """Return a Rényi order as a plain float; refuse one that is not above 1 (NaN included)."""
    value = check_number("order", order)
    if not value > 1:
        raise ParameterError("a Rényi order must be above 1", f"order={value}", "Try an order between 2 and 64.")
    return value


def check_positive(name: str, value: float) -> float:
    """Return a parameter as a plain float; refuse one that is not finite and above 0 (NaN included)."""
    number = check_number(name, value)
    if not 0 < number < float("inf"):
        raise ParameterError(f"{name} must be finite and above 0", f"{name}={number}", f"Pass {name} > 0.")
    return number


def check_probability(name: str, value: float) -> float:
    """Return a delta as a plain float; refuse one that is not in [0, 1) (NaN included)."""
    number = check_number(name, value)
    if not 0 <= number < 1:
        raise ParameterError(f"{name} must be at least 0 and below 1", f"{name}={number}", f"Try {name}=1e-6.")
    return number


def check_whole(name: str, value: object, way_out: str = "", *, most: int | None = None) -> int:
    """Return a count as a plain int, or refuse one that is not a whole number of at least 1 and at most ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ParameterError(f"{name} must be a whole number of at least 1", f"{name}={shortened(value)}", way_out)
    if most is not None and value > most:
        raise ParameterError(f"{name} must be at most {most}", f"{name}={shortened(value)}", f"Lower {name}.")
    return int(value)


def check_flag(name: str, value: object) -> bool:
    """Return a truth value, also one of numpy, as a plain one; raise for anything else."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name} must be True or False", f"{name}={shortened(value)}", "Leave it out for False.")
    return bool(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A curve with the probability outside which it holds, and how many times it is used."""

    curve: Curve
    delta: float = 0.0
    times: int = 1

    def __post_init__(self) -> None:
        hold(self, delta=check_probability("delta", self.delta), times=check_whole("times", self.times))


class Composition(Protocol):
    """Uses composed with each other, in any order and adaptively."""

    @property
    def uses(self) -> tuple[Use, ...]:
        """The uses, equal ones merged."""

    @property
    def delta(self) -> float:
        """The sum of the uses' deltas, rounded up."""

    def rdp(self, order: float) -> float:
        """Return the sum of the curves at ``order``, rounded up."""
