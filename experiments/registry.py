r"""Which experiments there are; each is loaded when it is run."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from cutline.errors import ParameterError

if TYPE_CHECKING:
    from experiments.report import Report
    from experiments.setting import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A name, what it shows, and where it lives as ``module:function``."""

    name: str
    summary: str
    where: str

    def run(self, setting: Setting) -> Report:
        """Run the experiment."""
        module, function = self.where.split(":")
        report: Report = getattr(importlib.import_module(module), function)(setting)
        return report


EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        name: Experiment(name=name, summary=summary, where=f"experiments.{where}")
        for name, summary, where in (
            ("exp1", "share of the true top k found in check-in logs", "places:run"),
            ("exp2-covid", "top 15 states by daily new cases, ten days together", "covid:run"),
            ("exp2-covid-cumulative", "the same on cumulative cases", "covid:run_cumulative"),
            ("exp2-synthetic", "one cliff at k, for k from 10 to 1500", "cliff:run"),
            (
                "exp3",
                "multi-label PATE: what it costs, and what each aggregator makes of the ballots",
                "multilabel_pate:run",
            ),
            ("adaptive-k", "where the top ends: chance of release and chosen k against epsilon", "adaptive_k:run"),
            ("one-gap", "the gap each mechanism needs, for 1 to 1000 releases", "one_gap_study:run"),
        )
    }
)


def experiment(name: str) -> Experiment:
    """Return the experiment of that name."""
    if name not in EXPERIMENTS:
        raise ParameterError("the experiment must be a known one", f"{name!r}", f"Known: {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]
