r"""`StableTopK` as an OpenDP measurement, to be chained and composed with OpenDP's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutline.errors import ParameterError
from cutline.extras import require
from cutline.histogram import ClosedHistogram
from cutline.interop.concentration import bound_by_zcdp
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.outcome import Items
from cutline.privacy.adjacency import Adjacency


def stable_top_k_measurement(mechanism: StableTopK, *, candidates: int) -> Any:
    r"""Return an OpenDP measurement from a vector of counts to ``(k, items)``, with items None when withheld.

    The input is one count of distinct users per candidate, all candidates listed (a closed domain); items are the indices.
    The metric is the largest change of a count: monotonic, that is all in one direction, for ADD_REMOVE, and in any
    directions for REPLACE. The measure is approximate zCDP.

    **Privacy.** ``d_in = 1``, one person, maps to the smallest rho we prove for every order together and the
    cost's delta; ``d_in = 0`` to nothing; any other ``d_in`` is refused. A bit table is shaped for one order, so its rho is
    loose: for OpenDP take ``test="gaussian"``, whose rho is that of its noise [docs/interop.md].

    Parameters
    ----------
    mechanism
        What to run.
    candidates
        The public length of the vector.

    Raises
    ------
    MissingExtraError
        If OpenDP is not installed. OpenDP itself raises if its features ``contrib`` and ``honest-but-curious`` are not enabled:
        that trust is the caller's to give.
    """
    dp = require("opendp.prelude", extra="opendp", purpose="an OpenDP measurement")
    if isinstance(candidates, bool) or not isinstance(candidates, int | np.integer) or candidates < 1:
        raise ParameterError("candidates must be a whole number of at least 1", f"candidates={candidates}", "")
    rho, delta = bound_by_zcdp(mechanism.cost)

    def measure(counts: list[int]) -> tuple[int, Items | None]:
        # A bare tuple: OpenDP 0.16 hangs a record of the call, the private counts included, on any result that accepts
        # new attributes.
        release = mechanism.release(ClosedHistogram.from_counts(np.asarray(counts, dtype=np.int64)))
        return release.k, release.items

    def privacy_map(d_in: int) -> tuple[float, float]:
        if d_in not in (0, 1):
            raise ParameterError("the map speaks for one person", f"d_in={d_in}", "Ask for d_in = 1.")
        return (rho, delta) if d_in else (0.0, 0.0)

    return dp.m.make_user_measurement(
        dp.vector_domain(dp.atom_domain(T="i64", bounds=(0, 2**42 - 1)), size=int(candidates)),
        dp.linf_distance(T="i64", monotonic=mechanism.adjacency is Adjacency.ADD_REMOVE),
        dp.approximate(dp.zero_concentrated_divergence()),
        measure,
        privacy_map,
    )
