r"""The REST interface, ``/api/v1``: thin routes over the office, each with its rule.

::

    bodies     what callers may send
    parts      who calls, which dataset, and how a question waits for its answer
    once       a POST with an Idempotency-Key is done once
    people     me, people, tokens, healthz
    datasets   datasets, versions, periods, grants, requests, plans
    releases   quotes, releases, jobs, certificates, audit
"""

from cutline.service.api import datasets, people, releases

ROUTERS = (people.router, datasets.router, releases.router)
