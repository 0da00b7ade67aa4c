r"""The pages: plain forms and server-rendered HTML over the same office as the REST interface; they work without JavaScript.

::

    parts        templates, forms, and how a refusal becomes a page
    people       signing in and out, invitations, people, tokens
    datasets     the list, asking, and reviewing
    owners       access, requests, versions, periods
    registering  a new log and its budget
    history      what was asked so far
    answers      an answer drawn, its files, its certificate, jobs, practice
"""

from cutline.service.pages import answers, datasets, owners, people, registering

ROUTERS = (people.router, datasets.router, owners.router, registering.router, answers.router)
