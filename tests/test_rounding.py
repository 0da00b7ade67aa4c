"""Threads share python-flint's one precision; each computes with its own all the same."""

import multiprocessing
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from flint import ctx

import cutline
from cutline.privacy import Budget
from cutline.rounding import enclose, working_precision


def test_another_thread_waits_and_the_precision_is_as_before():
    before, seen = ctx.prec, []
    inside, begun = threading.Event(), threading.Event()

    def other():
        begun.set()
        with working_precision(100):
            seen.append(("other", ctx.prec, inside.is_set()))

    thread = threading.Thread(target=other)
    with working_precision(200):
        inside.set()
        thread.start()
        begun.wait()
        with working_precision(300):  # a thread does not wait for itself
            seen.append(("mine", ctx.prec, True))
        seen.append(("mine", ctx.prec, True))
        inside.clear()
    thread.join()
    assert seen == [("mine", 300, True), ("mine", 200, True), ("other", 100, False)]
    assert ctx.prec == before


def test_a_precision_ends_with_an_error_too():
    before = ctx.prec
    try:
        with working_precision(777):
            raise ValueError
    except ValueError:
        assert ctx.prec == before


def _compute_in_a_child(answers):
    with working_precision(100):
        answers.put(ctx.prec)


def test_a_forked_child_computes_while_its_parent_does():
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    inside, forked = threading.Event(), threading.Event()

    def compute():
        with working_precision(200):
            inside.set()
            forked.wait()

    thread = threading.Thread(target=compute)
    thread.start()
    inside.wait()
    child = fork.Process(target=_compute_in_a_child, args=(answers,))
    child.start()
    forked.set()
    thread.join()
    assert answers.get(timeout=60) == 100
    child.join()


def test_filters_that_threads_make_lie_within_their_budgets():
    """What failed: precisions left behind by other threads changed last bits, and accounts were refused for ever."""
    budgets = [Budget(epsilon=3 + 0.1 * n, delta=1e-6, releases=10) for n in range(60)]
    alone = [budget.filter(order=6.81, delta_share=0.111) for budget in budgets]

    def make(budget):
        limits = budget.filter(order=6.81, delta_share=0.111)
        return limits, budget.covers(limits)

    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(make, budgets * 8))
    assert [limits for limits, _ in made] == alone * 8
    assert all(covers for _, covers in made)


def test_a_computation_keeps_its_precision_while_others_change_theirs():
    stop = threading.Event()

    def disturb():
        while not stop.is_set():
            with working_precision(64):
                pass

    disturbing = [threading.Thread(target=disturb) for _ in range(2)]
    for thread in disturbing:
        thread.start()
    try:
        seen = {int(enclose(_look).unique_fmpz()) for _ in range(300)}
    finally:
        stop.set()
        for thread in disturbing:
            thread.join()
    assert seen == {96}


def _look():
    from flint import arb

    return arb(ctx.prec)


def test_nothing_else_sets_the_precision():
    package = Path(cutline.__file__).parent
    setters = {
        path.name for path in package.rglob("*.py") if re.search(r"ctx\.(prec|dps|workprec|workdps)", path.read_text())
    }
    assert setters == {"rounding.py"}
