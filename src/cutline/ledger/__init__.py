r"""A budget that cannot be overspent: per dataset one fixed filter, and every release passes through it.

::

    books       Ledger: create, reserve, settle, release, run, answer, limit, allow, note, show, history, close
    charging    what one release may take, the transactions that move the totals, and the refusal
    chain       every write is a link of a hash chain, and an account must be what its last link says
    owner       opening accounts, backup, restore, upgrade: what the owner does
    audit       everything is recomputed, and what does not fit is named
    account     Account, Analyst, Entry, Reservation: what the books tell, in exact sums
    reading     rows to records; how names, texts and costs are written
    tables      the layout, append-only, and the statements that run on it
    address     a path or a URL, and nothing that only looks like one
    database    SQLite and PostgreSQL, durable; their errors replaced; no connection to a file is open across a fork
"""

from cutline.ledger.account import Account, Analyst, Entry, Note, Reservation
from cutline.ledger.audit import Audit
from cutline.ledger.books import Ledger
from cutline.ledger.charging import allowance, usual_filter
from cutline.ledger.owner import restore

__all__ = [
    "Account",
    "Analyst",
    "Audit",
    "Entry",
    "Ledger",
    "Note",
    "Reservation",
    "allowance",
    "restore",
    "usual_filter",
]
