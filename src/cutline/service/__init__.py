r"""Cutline as a service: owners hand analysts a page, engineers make one call of HTTP, and nobody overspends the budget.

::

    config         the file of settings: addresses, books, logs by name
    tables, store  what is remembered beside the books
    people         who somebody is: roles, passwords, sessions, tokens
    openid         who somebody is, on a provider's word
    catalogue      which datasets there are, what may be asked of them, and by whom
    asking         prices and answers, one at a time for equal questions, seen on a tick
    jobs           answers that come later
    certificates   signed statements of what was answered
    office         all of these together
    web, api, app  rules, routes, the application
"""
