from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping

import numpy as np
import pytest
from scipy.stats import chisquare


@pytest.fixture(scope="session")
def p_value() -> Callable[[Iterable[Hashable], Mapping[Hashable, float]], float]:
    """Chi-square test of outcomes against a law, rare ones pooled; 0 for an outcome that the law does not know."""

    def chance(outcomes: Iterable[Hashable], law: Mapping[Hashable, float]) -> float:
        counted = Counter(outcomes)
        if not counted.keys() <= law.keys():
            return 0.0
        expected = np.array(list(law.values())) * counted.total()
        observed = np.array([counted[outcome] for outcome in law], dtype=float)
        rare = expected < 5
        expected = np.append(expected[~rare], expected[rare].sum())
        observed = np.append(observed[~rare], observed[rare].sum())
        if expected[-1] < 5:  # rare even together
            expected = np.append(expected[:-2], expected[-2:].sum())
            observed = np.append(observed[:-2], observed[-2:].sum())
        if len(expected) < 2:
            return 1.0
        return float(chisquare(observed, expected * observed.sum() / expected.sum()).pvalue)

    return chance
