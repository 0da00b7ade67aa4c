r"""``cutline explain``: a page for reviewers about one answer; it costs nothing, since the answer is public."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cutline.cli import options as o
from cutline.cli.door import guarded, print_json

_COMPARED = ("items", "groups", "labels", "k", "mechanism", "counts", "guarantee", "adjacency")


@guarded
def explain(
    answer: Annotated[Path, typer.Argument(metavar="FILE", help="An answer as `cutline top --json` printed it.")],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the page here, to be printed on one sheet of A4.")
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Compare with these books, and take the account's totals from them."),
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Explain an answer to those who review it: who is protected, what could be learned, who answers, what is spent.

    \b
    Example:
      cutline top checkins.parquet --user user_id --item venue --json > release.json
      cutline explain release.json
      cutline explain release.json --ledger books.db --html page.html
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.cli.files import check_writable
    from cutline.cli.show import results
    from cutline.explain import explain as write

    if html is not None:
        check_writable(html, "a page")
    plain = _read(answer)
    page = write(plain, **({} if ledger is None else _from_books(plain, ledger)))
    if html is not None:
        _write(html, page.to_html())
    if as_json:
        print_json(page.to_dict())
    elif html is None:
        console = results()
        console.print(page.to_text(min(console.width, 100)), soft_wrap=True)


def _read(path: Path) -> Any:
    """Read the answer, whatever its writer made of it."""
    from cutline.errors import SourceError

    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError:
        raise SourceError("the answer must be a readable file", f"{str(path)!r}", "Check the path.") from None
    except (ValueError, RecursionError):
        raise SourceError("the answer must be JSON", f"{str(path)!r}", "Pass what --json printed.") from None


def _from_books(plain: object, ledger: str) -> dict[str, Any]:
    """Return the account and the entry of an answer as the books have them now; refuse an answer that they do not hold."""
    from cutline.api import read_answer
    from cutline.errors import SourceError
    from cutline.ledger import Ledger
    from cutline.privacy import Cost

    number = plain.get("entry") if isinstance(plain, dict) else None
    if not isinstance(plain, dict) or not isinstance(number, int) or isinstance(number, bool):
        raise SourceError("an answer must name the entry of the ledger that paid for it", "none", "Leave --ledger out.")
    with Ledger(ledger) as books:
        entry = books.answer(number)
        account = books.show(entry.dataset).to_dict()
    kept = json.loads(json.dumps(read_answer(entry).to_dict()))
    if any(plain.get(name) != kept.get(name) for name in _COMPARED):
        raise SourceError(
            f"the answer must be the one that entry {number} of the books keeps",
            "another",
            f"Print the kept one with `cutline ledger answer {number} --json`.",
        )
    # What was reserved is the dearest that this answer could have cost, whatever came out.
    delta = float(account["budget"]["delta"])
    alone = Cost.from_dict(entry.reserved_cost).epsilon(delta), delta
    return {"account": account, "entry": entry.to_dict(), "alone": alone}


def _write(path: Path, page: str) -> None:
    from cutline.errors import ParameterError

    try:
        path.write_text(page, encoding="utf-8", errors="replace")
    except OSError:
        raise ParameterError(
            "a page must go where it can be written", f"{str(path)!r}", "Choose another path."
        ) from None
    typer.echo(f"Page written to {path}", err=True)
