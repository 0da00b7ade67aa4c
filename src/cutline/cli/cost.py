r"""``cutline cost``: what releases would cost and what they could show, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cutline.cli import options as o
from cutline.cli.door import guarded, print_json

if TYPE_CHECKING:
    from cutline.privacy import Budget


@guarded
def cost(
    mechanism: o.Mechanism = None,
    epsilon: o.Epsilon = 1.0,
    delta: o.Delta = 1e-6,
    releases: o.Releases = 1,
    k: o.K = None,
    max_k: o.MaxK = None,
    min_k: o.MinK = None,
    target: o.Target = None,
    weight: o.Weight = None,
    clip: o.Clip = None,
    prefer_larger: o.PreferLarger = None,
    choose: o.Choose = None,
    test: o.GapTest = None,
    accounting: o.Accounting = None,
    adjacency: o.Adjacency = "add-remove",
    as_json: o.AsJson = False,
) -> None:
    """Show what releases cost under every rule, without any data.

    The mechanism is calibrated for the budget. Its one-gap number is the smallest gap at which the right set goes
    out with probability 0.9 when all other gaps are 0.

    \b
    Example:
      cutline cost --epsilon 1 --releases 10
      cutline cost --test paper --json
      cutline cost --releases 100 --choose argmax --accounting adaptive
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.cli.show import working
    from cutline.mechanisms.registry import calibrate, default_max_k, default_mechanism
    from cutline.privacy import Budget
    from cutline.privacy.rules.registry import PLANNED_RULES

    max_k = default_max_k(k) if max_k is None else max_k
    budget = Budget(epsilon=epsilon, delta=delta, releases=releases)
    wishes: dict[str, Any] = {"min_k": min_k, "target": target, "weight": weight, "clip": clip}
    cut = k or target or min_k or 1
    with working("Calibrating"):
        chosen = calibrate(
            mechanism or default_mechanism(k, budget=budget).name,
            budget,
            adjacency=adjacency,
            k=k,
            max_k=max_k,
            **wishes,
            choose=choose,
            test=test,
            prefer_larger=prefer_larger,
            accounting=accounting,
        )
        rules = dict((releases * chosen.cost).epsilons(delta))
        planned = {name: rule(chosen.cost, delta, releases=releases) for name, rule in PLANNED_RULES.items()}
        rules |= {name: value for name, value in planned.items() if value < math.inf}
        gap = gap_needed(chosen, max_k=max_k, cut=cut)
        paper = calibrate("stable-top-k", budget, adjacency=adjacency, max_k=max_k, **wishes, test="paper")
        paper_gap = gap_needed(paper, max_k=max_k, cut=cut)
    if not as_json:
        _print(chosen, budget, rules, gap, paper_gap)
        return
    print_json(
        {
            "mechanism": dict(chosen.describe()),
            "adjacency": str(chosen.adjacency),
            "delta": delta,
            "releases": releases,
            "epsilon": rules,
            "one_gap": gap,
            "one_gap_paper": paper_gap,
            "cost": chosen.cost.to_dict(),
        }
    )


def gap_needed(chosen: Any, *, max_k: int, cut: int = 1) -> int | None:
    """Return the one-gap number, or None where no gap is enough."""
    from cutline.mechanisms.one_gap import one_gap

    gap = one_gap(chosen.chance, max_k=max_k, k=cut, closed="open" not in chosen.domains)
    return gap if gap <= 2**30 else None


def _print(chosen: Any, budget: Budget, rules: Mapping[str, float], gap: int | None, paper_gap: int | None) -> None:
    from rich.table import Table

    from cutline.cli.show import parameters, print_facts, print_titled, results

    console = results()
    times = "1 release" if budget.releases == 1 else f"{budget.releases} releases together"
    table = Table()
    table.add_column("rule")
    table.add_column("epsilon", justify="right")
    best = min(rules, key=rules.__getitem__, default=None)
    for rule, value in sorted(rules.items(), key=lambda pair: pair[1]):
        table.add_row(rule, f"{math.ceil(1e4 * value) / 1e4:.4f}", style="bold" if rule == best else None)
    print_titled(console, f"Epsilon of {times} at delta = {budget.delta:.3g}, under every rule that applies", table)
    print_facts(
        console,
        {
            "mechanism": parameters(chosen.describe()),
            **{f"use {i}": use_in_words(use) for i, use in enumerate(chosen.cost.uses, 1)},
            "protects": chosen.adjacency.protects,
            "one-gap number": f"{in_words(gap)} (the paper's mechanism at this budget: {in_words(paper_gap)})",
        },
    )


def in_words(gap: int | None) -> str:
    """Return the number, or say that there is none."""
    return "none" if gap is None else str(gap)


def use_in_words(use: Any) -> str:
    """Describe one use of a curve by its kind and its numbers."""
    from cutline.privacy.curves.base import curve_to_dict

    numbers = {name: v for name, v in curve_to_dict(use.curve).items() if isinstance(v, int | float)}
    values = len(getattr(use.curve, "values", ()))
    shown = [f"{name} = {v:.4g}" for name, v in numbers.items()] + ([f"{values} values"] if values else [])
    delta = f", delta = {use.delta:.3g}" if use.delta else ""
    return f"{use.curve.kind} ({', '.join(shown)}){delta}" + (f", {use.times} times" if use.times > 1 else "")
