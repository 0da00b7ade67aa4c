r"""All exhaustive checks together: of the mechanisms, and of the aggregators, which the checker itself knows nothing about.

`cutline.verify` decides claims about anything that has a law, a cost and neighbours. What joins it with `cutline.pate`, its
sibling, stands here, above both.
"""

from __future__ import annotations

from collections.abc import Sequence

from cutline.errors import ParameterError
from cutline.mechanisms.registry import MECHANISMS
from cutline.pate.aggregators.registry import AGGREGATORS
from cutline.verify.check import Check
from cutline.verify.suite import checks as mechanism_checks
from cutline.verify.suites.aggregators.checks import checks_of


def checks(names: Sequence[str] | None = None) -> list[Check]:
    """Return the checks of the named mechanisms and aggregators, or of all; unknown names are refused."""
    votes = [kind.name for kind in AGGREGATORS]
    known = [*MECHANISMS, *votes]
    for name in names or ():
        if name not in known:
            raise ParameterError(
                "the mechanism or aggregator must be a registered one", f"{name!r}", f"Registered: {', '.join(known)}."
            )
    return [
        check for name in names or known for check in (checks_of(name) if name in votes else mechanism_checks([name]))
    ]
