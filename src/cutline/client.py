r"""A small client of the service, with the library's own words: the same question, asked over HTTP.

Examples
--------
A release of a service is a `cutline.Release`, as one of the library is::

    service = Client("https://cutline.example.org", token=...)
    service.quote("check-ins", item="venue", k=10)["share_percent"]
    service.top("check-ins", item="venue", k=10).listed()
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote as percent_encoded
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from cutline.errors import CutlineError, ParameterError
from cutline.grouped import GroupedRelease
from cutline.release import Release

_PATIENCE = 600  # seconds until an answer


class ServiceError(CutlineError):
    """The service refused, or cannot be reached; ``status`` is that of HTTP, or None."""

    def __init__(self, rule: str, value: str = "", way_out: str = "", *, status: int | None = None) -> None:
        super().__init__(rule, value, way_out)
        self.status = status


class _NoRedirects(HTTPRedirectHandler):
    """Follows none: the next request would carry the token to wherever an answer points."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Client:
    """One service, and a token for it.

    Parameters
    ----------
    address
        Where it is, like ``https://cutline.example.org``; plain ``http`` is for this machine alone.
    token
        A secret that was minted in the browser.
    """

    def __init__(self, address: str, *, token: str) -> None:
        parts = urlsplit(address)
        local = parts.hostname in ("127.0.0.1", "::1", "localhost")
        if parts.scheme != "https" and not (parts.scheme == "http" and local):
            raise ParameterError(
                "a token travels by https, or stays on this machine", repr(address)[:80], "Write https://..."
            )
        self._address, self._token = address.rstrip("/"), token
        # A token goes where the caller sent it: not after a redirect, and not through a proxy if it stays on this machine.
        self._opener = build_opener(_NoRedirects(), *([ProxyHandler({})] if parts.scheme == "http" else []))

    def __repr__(self) -> str:
        return f"Client({self._address!r}, token=...)"

    def datasets(self) -> list[dict[str, Any]]:
        """Return the datasets that the token's owner may see."""
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page = self._call("GET", f"/datasets?limit=200&after={percent_encoded(after, safe='')}")
            found += page["datasets"]
            if page["next"] is None:
                return found
            after = page["next"]

    def quote(self, dataset: str, *, item: str, **ask: Any) -> dict[str, Any]:
        """Return what a question would cost and could show; nothing is read and nothing charged.

        ``ask`` are the words of `top`, and ``size``: with it, the chance that the right items come out if they have so many
        users more than any other.
        """
        return self._call("POST", f"{_place(dataset)}/quotes", {"item": item, **ask})

    def top(self, dataset: str, *, item: str, **ask: Any) -> Release | GroupedRelease:
        """Ask, pay, and return the release; a dataset that answers later is waited for.

        ``ask`` are ``k``, ``filter``, ``by``, ``counts``, ``share`` and ``purpose``, by the names that the owner listed.
        """
        told = self._call("POST", f"{_place(dataset)}/releases", {"item": item, **ask}, key=secrets.token_hex(16))
        if "state" in told:
            told = self._wait_for(told["id"])
        return self.read_answer(dataset, told["entry"])

    def read_answer(self, dataset: str, entry: int) -> Release | GroupedRelease:
        """Return an answer of the service's books, free."""
        record = self._call("GET", f"{_place(dataset)}/releases/{int(entry)}?form=record")
        kind = GroupedRelease if record["answer"]["kind"] == "table" else Release
        return kind.from_record(record["answer"]).with_account(record["account"], entry=int(entry))

    def _wait_for(self, job: str) -> dict[str, Any]:
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            told = self._call("GET", f"/jobs/{percent_encoded(job, safe='')}")
            if told["state"] == "done":
                return told
            if told["state"] == "failed":
                raise ServiceError(*(told["problem"][part] for part in ("rule", "value", "way_out")))
            time.sleep(1)
        raise ServiceError("an answer must come within ten minutes", "none yet", "Read it later by its entry.")

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, key: str | None = None
    ) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {self._token}", "accept": "application/json"}
        if body is not None:
            headers["content-type"] = "application/json"
        if key is not None:
            headers["idempotency-key"] = key
        data = None if body is None else json.dumps(body).encode()
        request = Request(  # noqa: S310 - the address was checked: https, or this machine
            f"{self._address}/api/v1{path}", data=data, headers=headers, method=method
        )
        try:
            with self._opener.open(request, timeout=_PATIENCE) as response:
                told: dict[str, Any] = json.load(response)
                return told
        except HTTPError as error:
            raise _refusal(error) from None
        except (URLError, OSError, ValueError):
            raise ServiceError("the service must answer", repr(self._address), "Check the address.") from None


def _place(dataset: str) -> str:
    return f"/datasets/{percent_encoded(dataset, safe='')}"


def _refusal(error: HTTPError) -> ServiceError:
    """Return a refusal of the service in its own three parts."""
    try:
        told = json.load(error)
        parts = [str(told[part]) for part in ("rule", "value", "way_out")]
    except (ValueError, KeyError, TypeError):
        parts = ["the service must answer as it should", f"status {error.code}", "Check the address."]
    return ServiceError(*parts, status=error.code)
