r"""``cutline ledger audit``, ``backup``, ``restore`` and ``upgrade``: how the owner looks after the books."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutline.cli import options as o
from cutline.cli.door import guarded, print_json, printable
from cutline.cli.ledger import Books

Head = Annotated[
    str | None,
    typer.Option("--head", metavar="HASH", help="The head of the chain, as it was noted outside the ledger."),
]


@guarded
def audit(books: Books, head: Head = None, as_json: o.AsJson = False) -> None:
    """Recompute every sum and the hash chain; with a head, find a cut end too. Exit 1 if something does not fit.

    \b
    Example:
      cutline ledger audit --ledger books.db
      cutline ledger audit --ledger books.db --head 5d0f...
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.ledger import Ledger

    with Ledger(books) as opened:
        found = opened.audit(head)
    if as_json:
        print_json(found.to_dict())
    else:
        from cutline.cli.show import print_facts, results

        known = "; the chain holds the given head" if head is not None else ""
        facts = {
            "audit": f"everything fits{known}" if found.passed else "something does not fit; restore from a backup",
            **{f"finding {i}": printable(finding) for i, finding in enumerate(found.findings, start=1)},
            "recomputed": f"{found.datasets:,} accounts, {found.entries:,} entries, {found.links:,} links",
            "head": found.head,
        }
        print_facts(results(), facts)
    if not found.passed:
        raise typer.Exit(1)


@guarded
def backup(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")], books: Books, as_json: o.AsJson = False
) -> None:
    """Copy the whole ledger, as it is at one moment, to a new file that its owner alone may read.

    Note the head that is printed. A ledger that is restored with it goes on where the backup was, if nothing was spent since;
    without it, a restored ledger has nothing left to spend.

    \b
    Example:
      cutline ledger backup books-2026-11-16.db --ledger books.db
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.ledger import Ledger

    with Ledger(books) as opened:
        head = opened.backup(path)
    _tell({"backup": str(path), "head": head}, as_json=as_json)


@guarded
def restore(
    path: Annotated[Path, typer.Argument(metavar="BACKUP", help="What `backup` wrote.")],
    books: Annotated[str, typer.Option("--ledger", metavar="FILE", help="The new ledger.")],
    head: Head = None,
    as_json: o.AsJson = False,
) -> None:
    """Make a ledger from a backup, with nothing left to spend unless --head is the last head of the lost ledger.

    What was spent since the backup is unknown. If the head that was noted last is the backup's, nothing was.

    \b
    Example:
      cutline ledger restore books-2026-11-16.db --ledger books.db
      cutline ledger restore books-2026-11-16.db --ledger books.db --head 5d0f...
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.ledger import Ledger
    from cutline.ledger import restore as restore_ledger

    restore_ledger(path, books, head=head)
    with Ledger(books) as opened:
        found = opened.audit()
    spent = "the whole remainder of every account was charged" if head is None else "as it was at the backup"
    _tell({"restored": opened.address, "spent": spent, "head": found.head}, as_json=as_json)


@guarded
def upgrade(books: Books, as_json: o.AsJson = False) -> None:
    """Bring a ledger that an older version wrote to the layout of this one; nothing is spent, and nothing is lost.

    \b
    Example:
      cutline ledger upgrade --ledger books.db
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.ledger import Ledger

    with Ledger(books) as opened:
        opened.upgrade()
        found = opened.audit()
    _tell({"upgraded": opened.address, "head": found.head}, as_json=as_json)


def _tell(facts: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    from cutline.cli.show import print_facts, results

    print_facts(results(), {name: printable(value) for name, value in facts.items()})
