"""Values nobody should pass: each a name and a fresh value, so that a finding can say what was passed."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

import numpy as np

NUMBERS: Mapping[str, object] = {
    "np.int64(3)": np.int64(3),
    "np.uint8(2)": np.uint8(2),
    "np.float32(0.5)": np.float32(0.5),
    "np.float64(1e-6)": np.float64(1e-6),
    "np.longdouble('1e-3')": np.longdouble("1e-3"),
    "Decimal('0.5')": Decimal("0.5"),
    "Decimal('NaN')": Decimal("NaN"),
    "Decimal('sNaN')": Decimal("sNaN"),
    "Decimal('1e999')": Decimal("1e999"),
    "Fraction(1, 3)": Fraction(1, 3),
    "Fraction(10**400)": Fraction(10**400),
    "True": True,
    "np.bool_(True)": np.bool_(True),
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "np.float64('nan')": np.float64("nan"),
    "0": 0,
    "-1": -1,
    "-0.0": -0.0,
    "5e-324": 5e-324,
    "1e-300": 1e-300,
    "1e-9": 1e-9,
    "0.999999999": 0.999999999,
    "1": 1,
    "7": 7,
    "50.0": 50.0,
    "1e308": 1e308,
    "2**31": 2**31,
    "2**63": 2**63,
    "-2**63": -(2**63),
    "10**400": 10**400,
    "10**5000": 10**5000,
    "1j": 1j,
}
OTHERS: Mapping[str, object] = {
    "''": "",
    "'3'": "3",
    "'nan'": "nan",
    "'lone surrogate'": "\udc80",
    "'null byte'": "a\0b",
    "'direction marks'": "\u202eabc\u2066",
    "'10,000 characters'": "x" * 10_000,
    "b'1'": b"1",
    "None": None,
    "[]": [],
    "[1, 'a', None]": [1, "a", None],
    "(1, 2)": (1, 2),
    "{}": {},
    "object()": object(),
    "np.array([1, 2])": np.array([1, 2]),
    "np.array('x')": np.array("x"),
    "an iterator": iter(()),
    "float (the type)": float,
}
VALUES: Mapping[str, object] = {**NUMBERS, **OTHERS}


def pick(chance: random.Random) -> tuple[str, object]:
    """Return one of the values with its name."""
    name = chance.choice(list(VALUES))
    return name, VALUES[name]
