r"""A budget that cannot be overspent: per dataset one fixed filter, and every release passes through it.

::

    books        Ledger: create, reserve, settle, release, run, limit, show, history, close
    allowance    what one release may take of a filter, and the refusal when it is not there
    records      Account, Entry, Reservation: what the books tell
    sums         the exact arithmetic of charges
    reading      rows to records
    tables       the layout, append-only
    database     SQLite and PostgreSQL, durable; their errors replaced
    forking      no connection to a file is open across a fork
"""

from cutline.ledger.allowance import allowance, usual_filter
from cutline.ledger.books import Ledger
from cutline.ledger.records import Account, Analyst, Entry, Reservation

__all__ = ["Account", "Analyst", "Entry", "Ledger", "Reservation", "allowance", "usual_filter"]
