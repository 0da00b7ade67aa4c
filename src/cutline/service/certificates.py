r"""Signed certificates: what was asked and answered, bound to the books, under a key that only the service has.

A certificate is plain JSON with an Ed25519 signature over its canonical form (keys sorted, no spaces, ASCII). Whoever has the
service's public key can check it offline; nothing private is in it.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutline.errors import CutlineError, ParameterError
from cutline.extras import require

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KIND = "cutline release certificate 1"
_PURPOSE = {"extra": "service", "purpose": "a signature"}


class CertificateError(CutlineError, ValueError):
    """The signature and what it should cover do not belong together."""


def create_key(path: Path) -> None:
    """Write a new signing key that its owner alone may read; never over another."""
    serialization, kinds = _library()
    key = kinds.Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(text)


class Signer:
    """The service's own key."""

    def __init__(self, path: Path) -> None:
        serialization, _ = _library()
        try:
            mode, text = path.stat().st_mode, path.read_bytes()
            key = serialization.load_pem_private_key(text, password=None)
        except (OSError, ValueError, TypeError):
            raise ParameterError(
                "the service needs its signing key", repr(path.name), "Create it with `cutline serve init`."
            ) from None
        if mode & 0o077:
            raise ParameterError(
                "a signing key must be readable by its owner alone", f"mode {mode & 0o777:o}", "Run chmod 600 on it."
            )
        self._key: Ed25519PrivateKey = key

    @property
    def public_key(self) -> str:
        """The public half, for those who check certificates: base64 of its 32 bytes."""
        return _encode(self._key.public_key().public_bytes_raw())

    def sign(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return a certificate of public facts."""
        body = {"kind": KIND, "facts": dict(facts)}
        return {**body, "key": self.public_key, "signature": _encode(self._key.sign(canonical(body)))}


def check(certificate: Mapping[str, Any], *, public_key: str) -> dict[str, Any]:
    """Return the facts of a certificate that the holder of this key signed, or raise.

    The certificate names its own key, which proves nothing: the caller's key decides.
    """
    from cryptography.exceptions import InvalidSignature

    body = {name: certificate.get(name) for name in ("kind", "facts")}
    if body["kind"] != KIND or not isinstance(body["facts"], dict) or not isinstance(certificate.get("signature"), str):
        raise CertificateError("a certificate must be one that `cutline serve` signed", "", "Download it again.")
    try:
        _read_public_key(public_key).verify(_decode(certificate["signature"]), canonical(body))
    except (InvalidSignature, ValueError):
        raise CertificateError(
            "the signature must be that of the given key over exactly these facts",
            "another",
            "Do not rely on this file; ask the service for it again.",
        ) from None
    return body["facts"]


def canonical(plain: Mapping[str, Any]) -> bytes:
    """Return the one text of plain data that is signed."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _read_public_key(text: str) -> Ed25519PublicKey:
    _, kinds = _library()
    try:
        key: Ed25519PublicKey = kinds.Ed25519PublicKey.from_public_bytes(_decode(text.strip()))
    except ValueError:
        raise ParameterError(
            "a public key is 32 bytes in base64", f"{len(text)} characters", "Copy it from the service's page."
        ) from None
    return key


def _library() -> tuple[Any, Any]:
    kinds = require("cryptography.hazmat.primitives.asymmetric.ed25519", **_PURPOSE)
    return require("cryptography.hazmat.primitives.serialization", **_PURPOSE), kinds


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
