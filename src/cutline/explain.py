r"""A page for reviewers: what a release says about the people in the data, in plain words, on one printed sheet.

It is written from what is public: the JSON of an answer, the account that paid for it and the question that the books keep. It
holds no script and nothing from elsewhere; names out of the data are shown, never obeyed.
"""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cutline.errors import SourceError, printable
from cutline.rounding import digits_up
from cutline.version import __version__

_STATED = re.compile(r"\(([0-9.e+-]+), ([0-9.e+-]+)\)-DP")
_COMMAND, _CODE = re.compile("`([^`]{1,200})`"), r"<code>\1</code>"
_MOST_NAMES, _LONGEST_NAME, _LONGEST_TEXT = 24, 40, 600
_ROOM = 480  # characters for the names of one answer
_SHARED = ("name", "adjacency", "counts", "teachers", "labels")  # parameters that are said elsewhere
_STYLE = """
.cutline-page{font:15px/1.5 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;color:#22272e;background:#fff;
max-width:52rem;margin:0 auto;padding:1.5rem;overflow-wrap:anywhere}
.cutline-page h1{font-size:1.5em;line-height:1.25;margin:0 0 .2em}
.cutline-page h2{font-size:1.02em;color:#1f5fa8;margin:1.1em 0 .15em;break-after:avoid}
.cutline-page p{margin:.15em 0 .35em}
.cutline-page .lead{color:#59636e}
.cutline-page .bound{border-left:4px solid #d9822b;padding:.25em .8em;margin:.5em 0;background:#fdf6ee}
.cutline-page .mark{color:#8c1d18;font-weight:600}
@page{size:A4;margin:11mm 14mm}
@media print{body{margin:0}.cutline-page{font-size:8.4pt;line-height:1.28;padding:0;max-width:none}
.cutline-page h1{font-size:13pt}.cutline-page h2{margin-top:.55em}.cutline-page .bound{margin:.3em 0}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and its paragraphs, in plain text."""

    title: str
    paragraphs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a reviewer needs to know of one answer: `text`, `to_html`, `to_dict`; notebooks show it by themselves."""

    title: str
    lead: str
    sections: tuple[Section, ...]
    simulation: bool = False

    @property
    def text(self) -> str:
        """The page as text, folded at 80 characters."""
        return self.to_text(80)

    def to_text(self, width: int) -> str:
        """Return the page as text, folded at a width."""
        parts = ["\n".join([self.title, textwrap.fill(self.lead, width)])]
        parts += [
            "\n".join([section.title.upper(), *(textwrap.fill(p, width) for p in section.paragraphs)])
            for section in self.sections
        ]
        return "\n\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the page as plain data for JSON."""
        return {
            "title": self.title,
            "lead": self.lead,
            "simulation": self.simulation,
            "sections": {section.title: list(section.paragraphs) for section in self.sections},
        }

    def to_html(self) -> str:
        """Return the page as one HTML document that prints on one sheet of A4."""
        policy = "default-src 'none'; style-src 'unsafe-inline'"
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(self.title)}</title>\n</head>\n<body>\n<main>\n{self._repr_html_()}\n</main>\n</body>\n</html>\n"
        )

    def _repr_html_(self) -> str:
        mark = ' class="mark"' if self.simulation else ""
        lines = [f"<style>{_STYLE}</style>", '<article class="cutline-page">']
        lines += [
            f"<h1>{html.escape(self.title)}</h1>",
            f'<p class="lead"><span{mark}>{html.escape(self.lead)}</span></p>',
        ]
        for section in self.sections:
            lines.append(f"<section><h2>{html.escape(section.title)}</h2>")
            for paragraph in section.paragraphs:
                kind = ' class="bound"' if paragraph.startswith("Even odds") else ""
                # A number stays with its sign on one line, and commands look like commands.
                escaped = html.escape(paragraph).replace(" %", "&nbsp;%")
                lines.append(f"<p{kind}>{_COMMAND.sub(_CODE, escaped)}</p>")
            lines.append("</section>")
        return "\n".join([*lines, "</article>"])


def right_at_most(epsilon: float, delta: float) -> float:
    r"""Return how often somebody who starts from even odds can be right, whatever they know and do.

    Examples
    --------
    >>> f"{right_at_most(1.0, 0.0):.3f}", f"{right_at_most(0.0, 0.0):.3f}", right_at_most(2000.0, 1e-6)
    ('0.731', '0.500', 1.0)
    """
    # (e^epsilon + delta) / (1 + e^epsilon), without overflow.
    rest = math.exp(-epsilon)
    return min(1.0, (1 + delta * rest) / (1 + rest))


def explain(
    answer: Mapping[str, Any],
    *,
    account: Mapping[str, Any] | None = None,
    entry: Mapping[str, Any] | None = None,
    alone: tuple[float, float] | None = None,
) -> Explanation:
    r"""Explain an answer to people who do not know differential privacy, from public facts alone.

    Parameters
    ----------
    answer
        What ``to_dict()`` of a release, a table or labels returns, or their JSON read back.
    account
        The account that paid, as the books have it now (`cutline.ledger.Account.to_dict`). Without it the page repeats what the
        answer says of its account, and that it does.
    entry
        The entry of the books that paid (`cutline.ledger.Entry.to_dict`): who asked, what and what for.

    alone
        Epsilon and delta of this answer alone at its dearest, where its guarantee covers several.

    Returns
    -------
    Explanation
        Headed sections; print it, or write ``to_html()`` to a file.

    Raises
    ------
    SourceError
        If it is no answer that Cutline wrote.

    Examples
    --------
    >>> import cutline
    >>> release = cutline.top({"castle": 340, "harbour": 333, "kiosk": 2}, max_k=20)
    >>> page = release.explain()
    >>> page.sections[2].paragraphs[0].partition(":")[0]
    'Even odds become right at most 73.2 % of the time'
    """
    plain = _check(answer)
    known = account if account is not None else plain.get("ledger")
    known = known if isinstance(known, Mapping) else None
    seeded = bool(plain.get("seeded"))
    lead = _text(plain["guarantee"])
    parts: dict[str, Iterable[str]] = {
        "What was asked": _asked(plain, known, entry),
        "What went out": _went_out(plain),
        "What the guarantee means": _meaning(plain, known, alone),
        "Who is protected, and who is not": _protected(plain, known),
        "What could still be learned": _learned(),
        "Who answers for the budget": _owner(known, entry),
        "What has been spent": _spent(known, from_books=account is not None),
        "How to check it": _check_it(plain, known),
    }
    try:
        sections = tuple(Section(title=title, paragraphs=tuple(words)) for title, words in parts.items())
    except (AttributeError, LookupError, TypeError, ValueError):  # a part that Cutline would have written otherwise
        sections = ()
    if not sections:
        raise _no_answer()
    return Explanation(
        title="What this answer says about the people in the data",
        lead=f"A SIMULATION, NOT A RELEASE. {lead}" if seeded else lead,
        simulation=seeded,
        sections=sections,
    )


def _check(answer: object) -> Mapping[str, Any]:
    """Return the answer if it has what every answer has; a file is whatever its writer made of it."""
    parts = {"guarantee": str, "mechanism": Mapping, "adjacency": str, "version": str}
    if not isinstance(answer, Mapping) or not all(isinstance(answer.get(name), kind) for name, kind in parts.items()):
        raise _no_answer()
    return answer


def _no_answer() -> SourceError:
    return SourceError(
        "only an answer that Cutline wrote can be explained",
        "something else",
        "Pass what `cutline top --json` printed, or release.to_dict().",
    )


def _text(value: object, longest: int = _LONGEST_TEXT) -> str:
    """Return a value as printable text of a bounded length."""
    text = printable(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _stated(guarantee: str) -> tuple[float, float] | None:
    """Return the epsilon and the delta that a guarantee states, or None if it states none that is finite."""
    found = _STATED.match(guarantee)
    try:
        return (float(found[1]), float(found[2])) if found else None
    except ValueError:
        return None


def _percent(share: float, *, up: bool) -> str:
    """Print a share with one decimal, rounded to the side on which the guarantee is weaker."""
    return f"{(math.ceil if up else math.floor)(round(1000 * share, 6)) / 10:.1f} %"


def _asked(
    plain: Mapping[str, Any], account: Mapping[str, Any] | None, entry: Mapping[str, Any] | None
) -> Iterable[str]:
    mechanism = plain["mechanism"]
    question = dict((entry or {}).get("question") or {})
    column = f" of the column {_text(question['item'], 60)}" if question.get("item") else ""
    where = f", in rows where {_text(question['where'], 120)}" if question.get("where") else ""
    if "labels" in plain:
        what = f"Labels for {_text(plain.get('queries', '?'), 20)} queries, by a vote of teachers who share no record"
    elif "groups" in plain:
        what = f"The top items{column} in each of {len(plain['groups'])} groups by {_text(plain.get('by', '?'), 60)}{where}"
    elif mechanism.get("k"):
        what = f"The top {_text(mechanism['k'], 20)} items{column}{where}"
    else:
        what = f"The top items{column}{where}, the number of them to be found by the mechanism"
    counted = ", with noisy counts of them" if mechanism.get("counts") else ""
    data = f" Data: {_text(account['dataset'], 80)}" if account and account.get("dataset") else ""
    version = f", version {_text(entry['data_version'], 60)}" if entry and entry.get("data_version") else ""
    purpose = f" Purpose: {_text(entry['purpose'], 120)}." if entry and entry.get("purpose") else ""
    yield f"{what}{counted}.{data}{version}{'.' if data else ''}{purpose}"


def _went_out(plain: Mapping[str, Any]) -> Iterable[str]:
    if "labels" in plain:
        numbers = {name: _text(plain.get(name, "?"), 20) for name in ("answered", "withheld", "partly")}
        yield "{answered} queries were answered, {withheld} withheld, {partly} partly labelled.".format(**numbers)
    elif "groups" in plain:
        groups = {name: group for name, group in plain["groups"].items() if isinstance(group, Mapping)}
        shown = sum(bool(group.get("items")) for group in groups.values())
        yield f"One list for each group: {shown} of {len(groups)} hold items, the others are empty or withheld."
        first = {name: {**groups[name], "counts": None} for name in list(groups)[: _MOST_NAMES // 4]}
        rest = f" And {len(groups) - len(first)} more groups." if len(groups) > len(first) else ""
        words = [f"{_text(name, _LONGEST_NAME)}: {_items(group, most=4, room=60)}." for name, group in first.items()]
        yield " ".join(words) + rest
    elif not isinstance(plain.get("items"), list):
        yield "Nothing: the set was withheld, because it could have told too much about one person. That is an answer too."
    elif not plain["items"]:
        yield "An empty list: no item could be told from one that hardly anybody has. That is an answer too."
    else:
        number = len(plain["items"])
        many = f"{number} {'item' if number == 1 else 'items'}"
        of = f" of the {_text(plain.get('k'), 20)} that were asked for" if plain.get("status") == "partial" else ""
        order = "in the order in which they were drawn" if plain.get("ordered") else "without their order"
        yield f"{many}{of}{f', {order}' if number > 1 else ''}: {_items(plain, most=_MOST_NAMES)}."
    if plain.get("count_error"):
        wide = _text(plain["count_error"].get("plus_minus", "?"), 20)
        yield f"The numbers are noisy counts of users: each is within {wide} of the truth in 95 cases of 100."


def _items(plain: Mapping[str, Any], *, most: int, room: int = _ROOM) -> str:
    """Name the items of a list, with their noisy counts if it has any: at most so many, and about so many characters."""
    items, counts = plain.get("items") or [], plain.get("counts") or []
    if not items:
        return _text(plain.get("status", "nothing"), 20)
    words = [f" ({count:,})" if count >= 0 else " (below 0, by its noise)" for count in map(int, counts)]
    words = words if len(words) == len(items) else [""] * len(items)
    names = [f"{_text(item, _LONGEST_NAME)}{word}" for item, word in zip(items[:most], words, strict=False)]
    shown = [name for at, name in enumerate(names) if at == 0 or sum(map(len, names[: at + 1])) <= room]
    return "; ".join([*shown, *([f"and {len(items) - len(shown)} more"] if len(items) > len(shown) else [])])


def _meaning(
    plain: Mapping[str, Any], account: Mapping[str, Any] | None, alone: tuple[float, float] | None
) -> Iterable[str]:
    stated = _stated(plain["guarantee"])
    if stated is None:
        yield "The sentence above states no finite epsilon: nothing is promised to anybody."
        return
    one = "whether a certain user is in the data"
    if plain["adjacency"] == "replace":
        one = "which of two contents one certain record has (that there is such a record, they may know)"
    most = _percent(right_at_most(*stated), up=True)
    yield (
        f"Even odds become right at most {most} of the time: somebody who cannot tell {one}, and then sees "
        f"{_span(plain['guarantee'])}, knowing everything about everybody else, guesses right at most so often."
    )
    by_itself = ""
    if alone is not None and alone[0] < stated[0]:
        often = _percent(right_at_most(*alone), up=True)
        by_itself = f"This answer alone: {often} (epsilon {digits_up(alone[0], 3)}, delta {digits_up(alone[1], 3)}). "
    yield (
        f"{by_itself}Other odds are multiplied by at most e^epsilon = {math.exp(min(stated[0], 700.0)):.3g}, but for a chance "
        f"of {stated[1]:.3g} (delta). For comparison: a coin is right 50 % of the time; epsilon 0.1 allows 53 %, epsilon "
        "1 73 %, epsilon 3 95 %."
    )
    if account and isinstance(account.get("budget"), Mapping):
        epsilon, delta = (float(account["budget"][name]) for name in ("epsilon", "delta"))
        yield (
            "The account's total: everything that is ever released from these data through the ledger, this answer included, "
            f"lets even odds become right at most {_percent(right_at_most(epsilon, delta), up=True)} of the time (epsilon "
            f"{digits_up(epsilon, 4)}, delta {digits_up(delta, 3)})."
        )


def _span(guarantee: str) -> str:
    """Return what a guarantee covers, in its own words."""
    found = re.search(r"; covers ([^,;]{1,80})", guarantee)
    return _text(found[1], 80) if found else "all of it"


def _protected(plain: Mapping[str, Any], account: Mapping[str, Any] | None) -> Iterable[str]:
    unit = f" (the column {_text(account['unit'], 60)})" if account and account.get("unit") else ""
    if plain["adjacency"] == "replace":
        yield f"Protected is the content of one record, all of it: what it says. That it exists is not hidden{unit}."
        yield "Not protected: a person with several records, by more than each of them alone."
    else:
        yield f"Protected is every user, with all rows of one user id{unit}: whether they are in the data, and what they did."
        yield "Not protected as one: a person with rows under several ids. Each id is protected, not the person behind them."
    stated = _stated(plain["guarantee"])
    if stated:
        epsilon, delta = stated
        two = right_at_most(2 * epsilon, delta * (1 + math.exp(min(epsilon, 700.0))))
        yield (
            f"Groups are protected less the larger they are: about two people together, even odds can become right "
            f"{_percent(two, up=True)} of the time. What many people do is what the answer is meant to show."
        )


def _learned() -> Iterable[str]:
    yield (
        "What is true of many: that an item on the list is popular, and what follows from that about people in general, also "
        "about people who are not in the data. What is known anyway, from elsewhere, stays known. A list that is short or "
        "withheld is an answer as well."
    )
    yield (
        "How long the computation took, the log files themselves and whoever can read them are not covered; nor are releases "
        "from the same data that the books below do not hold."
    )


def _owner(account: Mapping[str, Any] | None, entry: Mapping[str, Any] | None) -> Iterable[str]:
    if account is None:
        yield "Nobody that it names: it was made without a ledger, so nothing counts other releases from the same data."
        return
    asked = f" This answer was asked for by {_text(entry['analyst'], 80)}." if entry and entry.get("analyst") else ""
    yield f"{_text(account.get('owner', '?'), 120)}, the owner of the account {_text(account.get('dataset', '?'), 80)}.{asked}"


def _spent(account: Mapping[str, Any] | None, *, from_books: bool) -> Iterable[str]:
    if account is None:
        yield "Not known. Without a ledger every further release adds to this one; in the worst case their epsilons add up."
        return
    used, budget = dict(account.get("used_percent") or {}), dict(account.get("budget") or {})
    share = _percent(max(map(float, used.values()), default=100.0) / 100, up=True)
    of = _text(budget.get("releases", "?"), 20)
    left = f"{_text(account.get('remaining_releases', '?'), 20)} of {of} questions of the usual size are left"
    closed = " The account is closed for good." if account.get("closed") else ""
    source = "as the answer tells it, when it was made: the books were not opened for this page"
    source = "read from the books" if from_books else source
    entries = _text(account.get("entries", "?"), 20)
    yield f"{share} of the account's budget is spent; number of entries: {entries}; {left} ({source}).{closed}"


def _check_it(plain: Mapping[str, Any], account: Mapping[str, Any] | None) -> Iterable[str]:
    mechanism = plain["mechanism"]
    name = _text(mechanism.get("name", "?"), 60)
    own = {
        key: value for key, value in mechanism.items() if key not in _SHARED and isinstance(value, str | int | float)
    }
    values = ", ".join(
        f"{_text(key, 30)} = {value:.4g}" if isinstance(value, float) else f"{_text(key, 30)} = {_text(value, 40)}"
        for key, value in own.items()
    )
    made = _text(plain["version"], 30)
    yield f"Mechanism: {name} ({_text(values, 300)}); Cutline {made}. The proofs are under docs/proofs."
    checks = f"`cutline verify --mechanism {name}` (version {made}) compares its exact law on small data with what it claims."
    if account is not None:
        number = _text(plain.get("entry", "ID"), 20)
        checks += (
            f" `cutline ledger answer {number}` prints this answer from the books, `cutline ledger audit` recomputes their "
            "sums and hash chain."
        )
    yield f"{checks} The draw cannot be repeated: its randomness was not kept. This page was written by Cutline {__version__}."
