r"""A budget that cannot be overspent: per dataset one fixed filter, and every release passes through it.

::

    books       Ledger: create, reserve, settle, release, run, limit, show, history, close
    charging    what one release may take, the transactions that move the totals, and the refusal
    account     Account, Analyst, Entry, Reservation: what the books tell, in exact sums
    tables      the layout, append-only; rows to records, and what is written
    database    SQLite and PostgreSQL, durable; their errors replaced; no connection to a file is open across a fork
"""

from cutline.ledger.account import Account, Analyst, Entry, Reservation
from cutline.ledger.books import Ledger
from cutline.ledger.charging import allowance, usual_filter

__all__ = ["Account", "Analyst", "Entry", "Ledger", "Reservation", "allowance", "usual_filter"]
