r"""Exact uniform integers, by rejection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cutline.errors import ParameterError
from cutline.sampling.source import Source, resolve

if TYPE_CHECKING:
    from cutline.arrays import IntArray


def integers_below(bounds: npt.ArrayLike, *, rng: Source | None = None) -> IntArray:
    r"""Draw a uniform integer from 0..bound-1 for every bound.

    With t = 2^64 mod bound, the words from t up are a whole number of times ``bound`` many, so the remainder
    of such a word is uniform; a word below t is drawn again, which happens with probability below bound /
    2^64 <= 1/2.

    Parameters
    ----------
    bounds
        Integers from 1 to 2^63 - 1, of any shape. A bound of 1 draws no bits.
    rng
        None for the operating system's source.

    Returns
    -------
    IntArray
        The integers, in the shape of ``bounds``.

    Raises
    ------
    ParameterError
        If a bound is below 1, above 2^63 - 1 or not an integer. Bounds are private: the message shows none.

    Examples
    --------
    >>> integers_below([1, 1]).tolist(), bool(integers_below(6) < 6)
    ([0, 0], True)
    """
    source = resolve(rng)
    array = np.asarray(bounds)
    if array.dtype.kind not in "iu" or (array.size and not (array.min() >= 1 and array.max() < 2**63)):
        raise ParameterError(
            "bounds must be integers from 1 to 2**63 - 1",
            f"{array.dtype}",
            "Pass the number of values to choose from.",
        )
    flat = array.reshape(-1).astype(np.uint64)
    drawn = np.zeros(flat.shape, dtype=np.int64)
    pending = np.flatnonzero(flat > 1)
    while pending.size:
        words, bound = source.words(pending.size), flat[pending]
        accepted = words >= (np.uint64(0) - bound) % bound  # unsigned: 0 - bound is 2^64 - bound
        drawn[pending[accepted]] = (words % bound)[accepted]
        pending = pending[~accepted]
    return drawn.reshape(array.shape)
