"""The hand-written pages of docs/reproduce: every number of their text is one of their tables', their notes' or the set-up's.

For each page a function recomputes, from the CSV files beside it, the phrases that hold numbers. Each phrase must stand on
the page, word for word. Whatever number is left when the phrases are taken away must be one of the set-up, listed here.
"""

import csv
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cutline.histogram import ClosedHistogram
from cutline.mechanisms import StableTopK
from cutline.mechanisms.one_gap import smallest
from cutline.mechanisms.open.table_threshold import TableThreshold
from cutline.privacy import Budget
from experiments import adaptive_k, exp1, one_gap, recurring
from experiments.datasets.catalogue import SOURCES
from experiments.datasets.labels import MULTILABEL
from experiments.datasets.logs import LOGS
from experiments.exp2 import cliff, covid
from experiments.exp3.study import Plan
from experiments.exp3.taught_ballots import CLASSES
from experiments.long_tail import study as long_tail
from experiments.long_tail.answers import BOUND, CUT, DELTA, LIMITED, OURS, RIVALS, WEIGHTED
from experiments.long_tail.thresholds import GaussianThreshold, LaplaceThreshold
from experiments.registry import EXPERIMENTS
from experiments.report import show_cell
from experiments.rivals import share_spent
from experiments.trials import Setting

PAGES = Path(__file__).parents[2] / "docs" / "reproduce"
BLOCK = re.compile(r"<!-- (table|figure) ([a-z0-9-]+) -->\n(.*?)<!-- end -->", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.,-])\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?%?(?![\w-])")


def rows_of(stem: str) -> list[dict[str, str]]:
    with (PAGES / f"{stem}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def page_of(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def prose_of(name: str) -> str:
    """The text of a page without its run, tables and figures, in one line."""
    text = re.sub(r"(?m)^\*(Read: |No data are read).*\*$", "", page_of(name))
    return " ".join(re.sub(r"\d{4}-\d\d-\d\d", "", BLOCK.sub("", text)).split())


def note_of(name: str, table: str) -> str:
    """What the runner wrote under a table."""
    [block] = [found[3] for found in BLOCK.finditer(page_of(name)) if found[1] == "table" and found[2] == table]
    return block.rsplit("|\n", 1)[1]


def shown_cells(name: str, table: str) -> list[list[str]]:
    """The rows of a table as the page shows them: what its file rounded to a tie was above or below it."""
    [block] = [found[3] for found in BLOCK.finditer(page_of(name)) if found[1] == "table" and found[2] == table]
    lines = [line for line in block.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def listed(texts: list[str]) -> str:
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


# ---- what each page says, recomputed


def exp1_phrases() -> list[str]:
    found = rows_of("exp1-found")

    def pair(row: Mapping[str, str], method: str) -> tuple[float, float]:
        return float(row[method]), float(row[f"{method} (error)"])

    ours = [pair(row, "test-first") for row in found]
    rivals = [max(pair(row, "Top Stable"), pair(row, "Limited Domain")) for row in found]
    papers = [pair(row, "StableTopK (paper)") for row in found]
    level = sum(
        rival[0] - own[0] <= max(0.04, 2 * math.hypot(own[1], rival[1]))
        for own, rival in zip(ours, rivals, strict=True)
    )
    above = sum(paper[0] - own[0] <= 2 * math.hypot(own[1], paper[1]) for own, paper in zip(ours, papers, strict=True))
    ahead = [own[0] - rival[0] for own, rival in zip(ours, rivals, strict=True)]
    over = [own[0] - paper[0] for own, paper in zip(ours, papers, strict=True)]
    assert min(over) >= 0  # "nowhere below"
    return [
        f"(within 0.04 or two standard errors), or above it, in {level} of {len(found)} cells",
        f"the farthest it is behind is {-min(ahead):.3f}, the farthest ahead {max(ahead):.3f}",
        f"in {above} of {len(found)} cells, up to {max(over):.3f} above it and nowhere below",
        *(phrase for name in exp1.DATA for phrase in log_phrases(name)),
        "(38,333 and 61,858)",
        "2,293 users, which is Tokyo",
        *later_phrases(found),
    ]


def later_phrases(found: list[dict[str, str]]) -> list[str]:
    """How far the mechanisms for long tails are above test-first, and below it."""

    def over(method: str, *sizes: str) -> list[float]:
        return [float(row[method]) - float(row["test-first"]) for row in found if row["k"] in sizes]

    _, choose, table = exp1.LATER
    large, small = over(choose, "50"), over(choose, "3", "10")
    peeled, most = over("peel-then-test", "10"), over("peel-then-test", "50")
    assert np.mean(over(table, "3", "10", "50")) < -0.5  # "no rival"
    assert max(over("peel-then-test", "3")) <= 0
    return [
        f"up to {max(large):.3f} above test-first and nowhere more than {-min(large):.3f} below it",
        f"where a bound is not worth what it leaves out, it is up to {-min(small):.3f} below",
        f"at k = 10 up to {max(peeled):.3f} above test-first and nowhere more than {-min(peeled):.3f} below",
        f"between {-min(most):.3f} below and {max(most):.3f} above",
    ]


def log_phrases(name: str) -> list[str]:
    """The sizes of a log as it is read and as it was published."""
    log, whole = LOGS[name].packed, LOGS[name].original.known
    if not log.subset:
        return [f"complete; {log.users:,} users, {log.items:,} places"]
    return [f"{log.users:,} of {whole['users']:,} users and {log.items:,} of {whole['items']:,} places"]


def smallest_gap() -> int:
    """The gap at 15 that passes the first test of test-first nine times in ten."""
    mechanism = covid._calibrate("test-first", 55)

    def passes(gap: int) -> bool:
        counts = ClosedHistogram.from_counts(np.where(np.arange(55) < 15, gap, 0))
        question = next(mechanism.planned_tests(counts))
        return bool(question.test.chances(question.gap, question.slack, mechanism.adjacency)[0][0] >= 0.9)

    return smallest(passes)


def covid_phrases(name: str) -> list[str]:
    recalls = {row["mechanism"]: row for row in rows_of(f"{name}-recall")}
    tests = {row["mechanism"]: row for row in rows_of(f"{name}-tests")}
    blocks = [covid._label(block) for block in range(4)]
    limited = covid._calibrate("Limited Domain", 55)
    bottom = round(1 + math.log(limited.max_k / limited.delta) / limited.epsilon)

    def means(mechanism: str) -> str:
        return listed([f"{float(recalls[mechanism][block]):.3f}" for block in blocks])

    def shares(mechanism: str) -> str:
        return listed([tests[mechanism][block].split()[0] for block in blocks])

    assert {tests["StableTopK (bit table)"][block].split()[-1] for block in blocks} == {"1"}
    median_gaps = listed([f"{int(tests['median gap at 15'][block]):,}" for block in blocks])
    phrases = [
        f"if the gap there is {smallest_gap():,} cases",
        f"edian gap is {median_gaps} in the four blocks",
        f"StableTopK with the bit table passes its test in {shares('StableTopK (bit table)')} of the releases",
        "at a median cut of 1, far from 15",
        f"here Top Stable stands alone, and finds {means('Top Stable')}",
        f"bottom element at {bottom:,} cases",
        means("Limited Domain"),
    ]
    if name == "exp2-covid":
        assert shares("test-first") == "0.0%, 0.0%, 0.0% and 0.0%"  # "none of its tests ever passed"
        return phrases
    assert [tests["test-first"][block].split()[-1] for block in blocks[2:]] == ["9", "9"]
    return [*phrases, f"passes in {shares('test-first')} of the releases, at a median cut of 9 where it does"]


def cliff_phrases() -> list[str]:
    by_k, by_height = rows_of("exp2-synthetic-recall"), rows_of("exp2-synthetic-height")
    stable = [line for line in cliff._LINES if "EM" not in line and line != "Limited Domain"]
    assert {float(row[line]) for row in by_k for line in stable} == {1.0}
    peeled = {int(row["k"]): float(row["EM-CDP (paper)"]) for row in by_k}
    lowest = min(peeled, key=peeled.__getitem__)
    first: dict[str, int | None] = {}
    for line in cliff._LINES:
        enough = [float(row[line]) >= 0.9 for row in by_height]
        start = len(enough) - next((i for i, found in enumerate(reversed(enough)) if not found), len(enough))
        first[line] = int(by_height[start]["height"]) if start < len(enough) else None
    assert [line for line, height in first.items() if height is None] == [
        "EM-CDP (paper)",
        "peeling EM",
        "Limited Domain",
    ]
    order = sorted((height, line) for line, height in first.items() if height is not None)
    low = by_height[0]
    assert low["height"] == "50"
    return [
        "the mean is 1.000 for StableTopK in all its forms, test-first and Top Stable",
        f"from {peeled[10]:.3f} at k = 10 to its lowest, {peeled[lowest]:.3f} at k = {lowest}",
        f"at k = 1500 it finds {peeled[1500]:.3f}, where bins drawn blindly would hit {1500 / 15_000:.3f} of the top",
        f"At least 0.9 of the top 500 are found by {listed([f'{line} from {height} on' for height, line in order])}",
        f"At a height of 50 the adaptive one finds {float(low['StableTopK (adaptive)']):.3f}",
        f"and test-first {float(low['test-first']):.3f}, since it selects then",
        f"and finds at most {max(float(row['Limited Domain']) for row in by_k):.3f}",
    ]


def paper_spends(*, epsilon: float, releases: int = 1) -> str:
    budget = Budget(epsilon=epsilon, delta=1e-6, releases=releases)
    return f"{share_spent(StableTopK.calibrate(budget, max_k=100, test='paper'), budget):.2f} of the budget"


def one_gap_phrases() -> list[str]:
    curve = [{name: float(value) for name, value in row.items()} for row in rows_of("one-gap-releases")]
    over = [row["paper"] / min(row["EM + table"], row["argmax + table"]) for row in curve]
    tests = [row["EM + Gaussian"] / row["EM + table"] for row in curve]
    worse = [row["releases"] for row in curve if row["argmax + table"] > row["EM + table"]]
    crossing = min(row["releases"] for row in curve if row["releases"] > max(worse))
    return [
        f"costs {paper_spends(epsilon=1.0)} with 1 release and {paper_spends(epsilon=1.0, releases=1000)} with 1,000 releases",
        f"needs {min(over):.1f} to {max(over):.1f} times the gap of the better of ours",
        f"its Gaussian test needs {min(tests):.2f} to {max(tests):.2f} times the table's",
        f"From {crossing:g} releases on argmax needs no more than the exponential mechanism",
        "600 releases at 3.66 with 39 cuts",
    ]


def recurring_phrases() -> list[str]:
    anew, hinted = rows_of("recurring-days")
    days, wait = "days with the right list", "days after a move until the next list"
    moves = list(recurring.MOVES.items())
    ends = " and ".join(f"at {cut} from day {day} on" for day, cut in moves[2:])
    return [
        f"ends at {moves[0][1]} items first, at {moves[1][1]} from day {moves[1][0]} on, {ends}",
        f"needs a gap of {hinted['gap needed']} users where choosing one every day needs {anew['gap needed']}",
        f"goes out on {float(hinted[days]):.1f} days instead of {float(anew[days]):.1f}",
        f"it takes {float(hinted[wait]):.1f} days longer",
        f"({float(anew[wait]):.1f} with a new cut every day",
        f"In the end {float(hinted['left at the end, %']):.1f} % of the account are left",
    ]


def adaptive_k_phrases() -> list[str]:
    needed = rows_of("adaptive-k-needed")
    low, high = min(adaptive_k.EPSILONS), max(adaptive_k.EPSILONS)

    def savings(over: str) -> list[float]:
        pairs = [(row["EM + table"], row[over]) for row in needed]
        return [
            float(ours) / float(other) for ours, other in pairs if "none" not in (ours, other) and float(other) > low
        ]

    saved, by_test = savings("paper"), savings("EM + Gaussian")
    [wrong] = re.findall(r"tied with the next: (\S+)\.\n", note_of("adaptive-k", "chances"))
    assert float(wrong) < 1e-6  # "below the total delta"
    retail = LOGS["fimi_retail"].packed
    return [
        f"costs {paper_spends(epsilon=low)} at epsilon = {low:g} and {paper_spends(epsilon=high)} at epsilon = {high:g}",
        f"needs {min(saved):.2f} to {max(saved):.2f} of the epsilon the paper's form needs",
        f"and {min(by_test):.2f} to {max(by_test):.2f} of what the Gaussian test needs",
        f"({len(saved)} of the {len(needed)} logs)",
        f"complete; {retail.users:,} baskets, {retail.items:,} items",
    ]


def exp3_phrases() -> list[str]:
    polls = ("celeba", "tmc2007", "delicious")
    labels = {
        poll: {(row["aggregator"], row["relation"]): row for row in rows_of(f"exp3-{poll}-labels")} for poll in polls
    }
    majority = {row["data"]: float(row["plain majority"]) for row in rows_of("exp3-limits") if row["limit"] == "none"}
    needed = {row["aggregator"]: row for row in rows_of("exp3-needed")}
    accounting = {(row["data"], row["relation"]): row for row in rows_of("exp3-accounting")}
    planned = {row["accounting"]: row for row in rows_of("exp3-planned")}
    balanced = {row["aggregator"]: float(row["balanced, REPLACE"]) for row in rows_of("exp3-balanced")}
    assert float(planned["adaptive"]["right"]) >= 0.85
    [unlimited] = re.findall(r"The plain majority: [\d.]+ right, balanced ([\d.]+)\.", note_of("exp3", "balanced"))

    def score(poll: str, line: str, relation: str, epsilon: str = "3.66") -> float:
        return float(labels[poll][line, relation][f"epsilon {epsilon}"])

    plain = majority["CelebA attributes"]
    behind = [f"{plain - score('celeba', 'OptimalVote', 'REPLACE', e):.3f} at {e}" for e in ("3.66", "5", "8", "12")]
    least, limited = needed["OptimalVote"], needed["OptimalVote, limited"]
    papers = accounting["CelebA attributes", "ADD_REMOVE"]
    table = "StableTopK (bit table)"
    gaps = {
        poll: f"{score(poll, table, 'ADD_REMOVE'):.3f} under ADD_REMOVE and {score(poll, table, 'REPLACE'):.3f} under REPLACE"
        for poll in polls
    }
    votes = {
        poll: f"OptimalVote without a limit {score(poll, 'OptimalVote', 'REPLACE'):.3f} under both" for poll in polls
    }
    assert all(score(poll, "OptimalVote", "REPLACE") == score(poll, "OptimalVote", "ADD_REMOVE") for poll in polls)
    better = [
        e for e in ("1", "2", "3.66", "5", "8", "16") if score("tmc2007", table, "ADD_REMOVE", e) > majority["TMC2007"]
    ]
    assert better == ["5", "8", "16"]

    def most(line: str) -> str:
        answered = [row[f"answered, {r}"] for row in rows_of("exp3-answers") for r in ("REPLACE", "ADD_REMOVE")
                    if row["aggregator"] == line]  # fmt: skip
        assert all(value.startswith(">") for name, value in needed[line].items() if name != "aggregator")
        return f"answers at most {max(map(float, answered)):.0%}"

    return [
        f"The plain majority is right about {plain:.3f} of all labels",
        f"is behind it by {listed(behind)}",
        f"reaches 0.85, the paper's accuracy, at a proved epsilon of {least['CelebA attributes REPLACE']}",
        f"then an epsilon of {float(planned['adaptive']['epsilon']):.2f} is enough",
        f"OptimalVote has {balanced['OptimalVote']:.3f}, the plain majority {unlimited}.",
        f"Cutting ballots to 10 labels lowers it to {balanced['OptimalVote, limited']:.3f}",
        f"limited to 10 labels, {limited['CelebA attributes REPLACE']} is enough",
        f"and {limited['CelebA attributes ADD_REMOVE']} under ADD_REMOVE",
        f"answers {float(papers['answered, exact']):.1%} of these queries even under ADD_REMOVE",
        f"would spend {float(papers['part of epsilon it spends, own accounting']):.0%} of that",
        f"and answer {float(papers['answered, own']):.1%}",
        f"at 3.66 StableTopK with the bit table has {gaps['celeba']}",
        f"have one: {gaps['tmc2007']}, {votes['tmc2007']}",
        f"Delicious has none either: {gaps['delicious']}, {votes['delicious']}",
        votes["celeba"],
        f"is better than the plain majority ({majority['TMC2007']:.3f}) from 5 on",
        f"Our StableMajority, which pays nothing per label, {most('StableMajority')} of the labels at 3.66 and reaches no goal",
        f"our StableConfident {most('StableConfident')} and reaches none",
        *student_phrases(),
        *ballot_phrases(),
        *digit_phrases(),
    ]


def student_phrases() -> list[str]:
    columns = ("REPLACE 3.66", "REPLACE 8", "ADD_REMOVE 3.66", "ADD_REMOVE 8")
    rows = rows_of("exp3-students")
    note = note_of("exp3", "students")

    def best(data: str) -> list[tuple[str, str]]:
        winners = [max((row for row in rows if row["data"] == data), key=lambda row: float(row[c])) for c in columns]
        return [(row["aggregator"], f"{float(row[c]):.3f}") for row, c in zip(winners, columns, strict=True)]

    def without_privacy(data: str) -> tuple[str, str]:
        [found] = re.findall(rf"{data}, without privacy: a student of the plain majority F1 ([\d.]+), of the true labels of "
                             r"the same examples ([\d.]+)", note)  # fmt: skip
        return found

    for data in ("TMC2007", "Delicious"):
        majority, truth = without_privacy(data)
        assert float(truth) < float(majority)  # "a student of the true labels is worse"
        assert [float(score) > float(majority) for _, score in best(data)] == [False, True, True, True]
    tmc, delicious = best("TMC2007"), best("Delicious")
    assert [line for line, _ in tmc] == ["OptimalVote", *["StableTopK (bit table)"] * 3]
    assert [line for line, _ in delicious] == ["OptimalVote, limited", "PATE-tau"] * 2
    return [
        f"*OptimalVote* at 3.66 under REPLACE ({tmc[0][1]})",
        f"in the other three columns: {tmc[1][1]} at 8 under REPLACE, {tmc[2][1]} at 3.66 and {tmc[3][1]} at 8 under",
        f"*OptimalVote, limited* at 3.66 ({delicious[0][1]} under REPLACE, {delicious[2][1]} under ADD_REMOVE)",
        f"*PATE-tau* at 8 ({delicious[1][1]} under REPLACE, {delicious[3][1]} under ADD_REMOVE)",
    ]


def digit_phrases() -> list[str]:
    rows = {row["aggregator"]: row for row in rows_of("exp3-digits")}

    def right(line: str, epsilon: str) -> float:
        return float(rows[line][f"epsilon {epsilon}"])

    for epsilon in ("2", "4", "8"):
        assert max(rows, key=lambda line: right(line, epsilon)) == "ClassVote"
    assert right("ClassVote", "8") >= 0.78
    needed = {row["one draw a query"]: row["0.78 right"] for row in rows_of("exp3-digits-needed")}
    assert min(needed, key=lambda rival: float(needed[rival])) == "ClassVote"
    return [
        "`PATEClassifier(classes=10)`",
        (
            f"For 0.78 of the classes right *ClassVote* needs an epsilon of {needed['ClassVote']}, "
            f"*GNMax* {needed['GNMax']}, the exponential mechanism {needed['exponential mechanism']} "
            f"and the margin {needed['bit table on the margin']}"
        ),
        (
            f"*ClassVote* is right {right('ClassVote', '2'):.3f} of the time at epsilon 2, {right('ClassVote', '4'):.3f} at 4 "
            f"and {right('ClassVote', '8'):.3f} at 8; *GNMax* {right('GNMax', '2'):.3f}, {right('GNMax', '4'):.3f} and "
            f"{right('GNMax', '8'):.3f}"
        ),
    ]


def ballot_phrases() -> list[str]:
    plan = Plan()
    tmc, delicious = MULTILABEL["tmc2007"], MULTILABEL["delicious"]
    group, other = CLASSES["tmc2007"], CLASSES["delicious"]
    return [
        f"{plan.teachers} teachers and {plan.queries} queries of the test split",
        "202,599 images, 40 attributes",
        f"{tmc.train + tmc.test:,} examples, {tmc.labels} labels",
        f"{group.teachers} real teachers",
        f"vote on {group.queries} examples of the test split; a ballot holds",
        f"the other {tmc.test - group.queries:,} test examples",
        f"{delicious.train + delicious.test:,} examples, {delicious.labels} labels",
        f"{other.teachers} teachers of the same kind vote on {other.queries} examples",
        f"a ballot names its {other.names} surest labels, and a label needs {other.quorum:.0%} of the teachers",
        f"instead of half (`quorum={other.quorum:g}`)",
        f"the other {delicious.test - other.queries:,} test examples",
        (
            f"`PATEClassifier(SurestLabels(RidgeClassifier(alpha={other.penalty}), names={other.names}), "
            f"n_teachers={other.teachers}, limit={other.limit}, quorum={other.quorum})`"
        ),
    ]


def long_tail_phrases() -> list[str]:
    behind = {
        bound: [row for row in rows_of("long-tail-behind") if row["bound"] == bound] for bound in ("50 items", "none")
    }
    tables = {
        name: {(row["data"], row["k"], row["epsilon"]): row for row in rows_of(f"long-tail-{name}")}
        for name in ("recall", "precision", "released")
    }
    bounded, unbounded = behind.values()
    defaults = {(row["k"], row["epsilon"]): row["default"] for row in bounded}
    means = {(row["k"], row["epsilon"]): row for row in rows_of("long-tail-mean")}
    shares = {
        k: [cells[4] for cells in shown_cells("long-tail", "behind") if cells[:2] == ["50 items", k]]
        for k in ("3", "10", "50", "200")
    }

    def ours(row: Mapping[str, str], among: Sequence[str], default: str) -> float:
        return round(max(float(row[method]) for method in among) - float(row[default]), 6)

    told = (*OURS, *LIMITED)
    alone = {place: ours(row, told, defaults[place[1:]]) for place, row in tables["recall"].items()}
    free = {(row["k"], row["epsilon"]): row["default"] for row in unbounded}
    without = {
        place: ours(row, [method for method in OURS if method != "find-then-choose"], free[place[1:]])
        for place, row in tables["recall"].items()
    }
    rivals = {place: ours(row, RIVALS, defaults[place[1:]]) for place, row in tables["recall"].items()}
    above = [float(row["default's share"]) - float(row["best threshold"]) for row in bounded]
    far = [place for place, by in alone.items() if by > long_tail.LOG_BAR]
    york, brightkite = worst_two = sorted(alone, key=lambda place: -alone[place])[:2]
    assert (far, worst_two) == ([york], [("Foursquare New York", "200", "3.0"), ("Brightkite (subset)", "50", "1.0")])
    assert max(told, key=lambda method: float(tables["recall"][york][method])) == WEIGHTED
    assert max(told, key=lambda method: float(tables["recall"][brightkite][method])) == CUT
    assert {place[1] for place, by in without.items() if by > long_tail.LOG_BAR} == {"200"}
    assert {place[1] for place, by in rivals.items() if by > 0} == {"200"}
    worst = max(rivals, key=lambda place: rivals[place])
    assert (worst[0], worst[2], min(above) > 0) == ("Retail baskets", "0.3", True)
    assert all(tables["precision"][place][defaults[place[1:]]] for place in alone)
    log = LOGS["foursquare_nyc"].packed
    budget = Budget(epsilon=1.0, delta=DELTA)
    noisy = [kind.calibrate(budget, max_items_per_user=BOUND) for kind in (GaussianThreshold, LaplaceThreshold)]
    half = [next(n for n in range(1, 1000) if rival.shown(n) >= 0.5) for rival in noisy]
    table = TableThreshold.calibrate(budget, max_items_per_user=BOUND)
    more = float(means["200", "3.0"][WEIGHTED]) - float(means["200", "3.0"]["find-then-choose"])
    return [
        *(f"k = {k}: {listed(found)}" for k, found in shares.items()),
        f"at most {max(float(row['behind']) for row in bounded):.3f} below the best of all mechanisms at each k",
        f"it is at most {max(alone.values()):.3f} below, and more than 0.06, the bar, in {len(far)} of {len(alone)} cells",
        f"table-threshold finds {alone[brightkite]:.3f} more. Only about {float(tables['released'][brightkite][CUT]):.0f}",
        f"table-threshold finds {float(means['50', '1.0'][CUT]):.3f}.",
        f"weighted votes find {alone[york]:.3f} more. Its users visit {log.pairs / log.users:.0f} places in the mean",
        f"In the mean over the logs they find {more:.3f} more there",
        f"is at most {max(float(row['behind']) for row in unbounded):.3f} below the best that needs none, in the mean",
        f"below in {sum(by > long_tail.LOG_BAR for by in without.values())} of {len(without)} cells, all at k = 200",
        f"({max(without.values()):.3f} at most)",
        f"in all {len(above)} cells, by {min(above):.3f} to {max(above):.3f}",
        f"ahead in {sum(by > 0 for by in rivals.values())} of {len(rivals)} cells, all at k = 200",
        f"by {rivals[worst]:.3f} at most (retail, epsilon = 0.3)",
        f"at least {min(float(tables['precision'][p][defaults[p[1:]]]) for p in alone):.3f} is in the true top k",
        f"from {half[0]} users on with Gaussian noise, from {half[1]} on with Laplace noise",
        f"and from {table.count_found(0.5)} on with table-threshold",
        f"({LOGS['fimi_retail'].packed.users:,} of them, {LOGS['fimi_retail'].packed.items:,} items)",
    ]


# By page: the phrases, and the numbers of the set-up (budgets, sizes, dates, what the paper printed).
CLAIMS: dict[str, tuple[Callable[[], list[str]], set[str]]] = {
    "exp1": (
        exp1_phrases,
        {"1", "2", "3", "5", "10", "50", "100", "0", "500", "1.00", "100,000"}
        | {"2011", "2015", "2019", "2023", "2025"},
    ),
    "exp2-covid": (lambda: covid_phrases("exp2-covid"), {"15", "0.1", "1e-6", "55", "5", "0", "100"}),
    "exp2-covid-cumulative": (
        lambda: covid_phrases("exp2-covid-cumulative"),
        {"15", "0.1", "1e-6", "55", "0", "100"},
    ),
    "exp2-synthetic": (
        cliff_phrases,
        {"15,000", "700", "0.15", "1e-6", "500", "50", "100", "10", "5", "1", "1500", "0"},
    ),
    "exp3": (
        exp3_phrases,
        {
            "0",
            "20",
            "1e-6",
            "0.895",
            "0.72",
            "0.985",
            "3.6",
            "1",
            "486",
            "0.95",
            "600",
            "1e-9",
            "6e-7",
            "2",
            "60",
            "1e-12",
        }
        | {"3.66", "8", "9.0", "2.2", "5", "800", "85", "89.5", "10", "7.7", "2005", "2008", "2015", "22"},
    ),
    "long-tail": (
        long_tail_phrases,
        {"1", "3", "8", "10", "50", "100", "200", "0.3", "1e-6", "0.03", "0.06"},
    ),
    "adaptive-k": (adaptive_k_phrases, {"1e-06", "1", "100", "9", "10", "1999"}),
    "one-gap": (one_gap_phrases, {"1", "1000", "0", "0.9", "1e-06", "100"}),
    "recurring": (recurring_phrases, {"100", "1", "1e-6", "30", "240"}),
}


def test_every_experiment_has_a_page_and_claims() -> None:
    assert CLAIMS.keys() == EXPERIMENTS.keys()
    assert {path.stem for path in PAGES.glob("*.md")} == {*EXPERIMENTS, "data", "index"}


def mistakes(text: str, phrases: list[str], set_up: set[str]) -> list[str]:
    """What is wrong with a text: phrases that it lacks, and numbers that are neither in a phrase nor of the set-up."""
    lacking = [phrase for phrase in phrases if phrase not in text]
    for phrase in phrases:
        text = text.replace(phrase, " ")
    return lacking + sorted({*NUMBER.findall(text)} - set_up)


@cache
def phrases_of(name: str) -> list[str]:
    """What a page must say, recomputed once for all tests."""
    return CLAIMS[name][0]()


@pytest.mark.parametrize("name", CLAIMS)
def test_every_number_of_the_text_is_measured_or_of_the_set_up(name: str) -> None:
    assert mistakes(prose_of(name), phrases_of(name), CLAIMS[name][1]) == []


@pytest.mark.parametrize("name", CLAIMS)
def test_whatever_number_of_the_text_changes_is_noticed(name: str) -> None:
    set_up = CLAIMS[name][1]
    text, known = prose_of(name), phrases_of(name)
    numbers = list(NUMBER.finditer(text))
    assert len(numbers) >= 15
    for number in numbers:
        changed = f"{text[: number.start()]}0.12345{text[number.end() :]}"
        assert mistakes(changed, known, set_up), number


@pytest.mark.parametrize("name", CLAIMS)
def test_tables_on_the_page_are_those_of_the_files(name: str) -> None:
    blocks = [(kind, part, text) for kind, part, text in BLOCK.findall(page_of(name))]
    files = {path.stem.removeprefix(f"{name}-") for path in PAGES.glob(f"{name}-*.csv")}
    drawn = {path.stem.removeprefix(f"{name}-") for path in PAGES.glob(f"{name}-*.png")}
    if name == "exp2-covid":  # the other page's names begin with this one's
        files, drawn = ({part for part in parts if not part.startswith("cumulative-")} for parts in (files, drawn))
    assert {part for kind, part, _ in blocks if kind == "table"} == files
    assert {part for kind, part, _ in blocks if kind == "figure"} == drawn
    for kind, part, text in blocks:
        if kind == "table":
            lines = [line for line in text.splitlines() if line.startswith("|")]
            cells = [
                [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines
            ]
            compare(cells[0], cells[2:], rows_of(f"{name}-{part}"))


def compare(columns: list[str], cells: list[list[str]], rows: list[dict[str, str]]) -> None:
    """Compare a table of the page with the file it was made from; an estimate is two columns of the file."""
    assert len(cells) == len(rows)
    for line, row in zip(cells, rows, strict=True):
        for column, cell in zip(columns, line, strict=True):
            for shown, value in zip(cell.split(" ± "), [row[key] for key in row if is_of(key, column)], strict=False):
                same = shown == value
                if not same:  # a number: as the page shows it, but for what the file's six digits have rounded off
                    assert abs(float(shown) - float(value)) <= 0.00051 * max(1.0, abs(float(value))), (
                        column,
                        shown,
                        value,
                    )


def is_of(key: str, column: str) -> bool:
    return key == column or key in (f"{column} (error)", f"{column} (standard deviation)")


@pytest.mark.parametrize("name", CLAIMS)
def test_the_page_names_its_run(name: str) -> None:
    experiment = EXPERIMENTS[name]
    [line] = [line for line in page_of(name).splitlines() if line.startswith(("*Read: ", "*No data are read"))]
    generated = experiment.describe_run(Setting())
    assert line.split(";")[-1] == generated.split(";")[-1]  # the default trials and seed
    files = [] if line.startswith("*No data") else line.removeprefix("*Read: ").split(";")[0].split(", ")
    known = [{file for form in SOURCES[data].forms for file in form} for data in experiment.data]
    assert len(files) == len(known)
    assert all(file in forms for file, forms in zip(files, known, strict=True))
    assert f"`python -m experiments {name}" in page_of(name)


def test_the_constants_of_the_set_up_are_those_of_the_code() -> None:
    assert (exp1.SIZES, exp1.TRIALS) == ((3, 10, 50), 500)
    assert (long_tail.SIZES, long_tail.EPSILONS, DELTA, BOUND) == ((3, 10, 50, 200), (0.3, 1.0, 3.0), 1e-6, 50)
    assert (long_tail.MEAN_BAR, long_tail.LOG_BAR) == (0.03, 0.06)
    assert (covid._K, covid._BUDGET.epsilon, covid._BUDGET.delta, covid._BUDGET.releases) == (15, 0.1, 1e-6, 10)
    assert (cliff._BINS, cliff._HEIGHT, cliff._MIDDLE, cliff._MAX_K) == (15_000, 700, 500, 1500)
    assert (min(cliff._HEIGHTS), max(cliff._HEIGHTS), min(cliff._KS), max(cliff._KS)) == (50, 700, 10, 1500)
    assert (cliff._BUDGET.epsilon, cliff._BUDGET.delta) == (0.15, 1e-6)
    assert (one_gap.EPSILON, one_gap.DELTA, one_gap.MAX_K) == (1.0, 1e-6, 100)
    assert (min(one_gap.RELEASES), max(one_gap.RELEASES)) == (1, 1000)
    assert (adaptive_k.DELTA, adaptive_k.MAX_K) == (1e-6, 100)
    assert (recurring.EPSILON, recurring.DELTA, recurring.DAYS, recurring.FIRST, recurring.SHARE) == (
        1,
        1e-6,
        100,
        10,
        125,
    )
    assert {recurring.gap_on(day) - 240 for day in range(1, 8)} == {23, 29, 13, -13, -29, -23, 0}
    assert (Plan().limit, Plan().shown) == (10, 3.66)
    assert [show_cell(value) for value in (0.5, 1e-6)] == ["0.500", "1e-06"]


def test_qualitative_claims_of_the_covid_pages() -> None:
    paper = ("EM-CDP (paper)", "Top Stable", "Limited Domain", "StableTopK (paper)")
    blocks = [covid._label(block) for block in range(4)]

    def order(name: str) -> tuple[list[str], list[str], dict[str, list[str]]]:
        rows = {row["mechanism"]: row for row in rows_of(f"{name}-recall") if row["mechanism"] != "plan's choice"}
        firsts = [max(paper, key=lambda line: float(rows[line][b])) for b in blocks]
        overall = [max(rows, key=lambda line: float(rows[line][b])) for b in blocks]
        beside = {}
        for line, other in (("peeling EM", paper[0]), ("test-first", "peeling EM"), ("subset EM", "peeling EM")):
            words = []
            for b in blocks:
                apart = float(rows[line][b]) - float(rows[other][b])
                room = 2 * math.hypot(float(rows[line][f"{b} (error)"]), float(rows[other][f"{b} (error)"]))
                words.append("above" if apart > room else "below" if apart < -room else "level")
            beside[line] = words
        return firsts, overall, beside

    firsts, overall, beside = order("exp2-covid")
    assert firsts == [paper[0]] * 4
    assert overall == ["peeling EM"] * 4
    assert beside == {"peeling EM": ["above"] * 4, "test-first": ["below"] * 4, "subset EM": ["below"] * 4}
    assert [row["choice"] for row in rows_of("exp2-covid-plan")] == overall

    firsts, overall, beside = order("exp2-covid-cumulative")
    assert firsts == [paper[0]] * 3 + ["Limited Domain"]
    assert overall == ["peeling EM"] * 2 + ["subset EM"] * 2
    assert beside == {
        "peeling EM": ["above"] * 4,
        "test-first": ["below"] * 2 + ["level"] * 2,
        "subset EM": ["below"] * 2 + ["above"] * 2,
    }
    assert [row["choice"] for row in rows_of("exp2-covid-cumulative-plan")] == overall


def test_the_fifteenth_state_has_as_many_cases_as_the_pages_say() -> None:
    daily, cumulative = (
        [int(count.replace(",", "")) for count in re.findall(r"\d[\d,]*(?=, |\.)", note_of(name, "tests"))[-4:]]
        for name in ("exp2-covid", "exp2-covid-cumulative")
    )
    assert len(daily) == len(cumulative) == 4
    assert max(daily) < 5211 / 10  # "far fewer"
    assert cumulative[2] > 0.9 * 5211 > cumulative[1]  # "comes near that in the third block"
    assert cumulative[3] > 5211  # "and passes it in the fourth"


def test_limited_ballots_need_the_least_everywhere() -> None:
    rows = rows_of("exp3-needed")
    for column in rows[0]:
        if column != "aggregator":
            needed = {row["aggregator"]: row[column] for row in rows if row[column][0].isdigit()}
            assert min(needed, key=lambda line: float(needed[line].split()[0])) == "OptimalVote, limited"
            assert not any(row[column].startswith("at most") for row in rows)
