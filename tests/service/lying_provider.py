"""A provider of OpenID Connect whose every answer a test may change, and tokens put together by hand."""

import base64
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value):
    return encode(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def compact(header, claims, sign):
    """Return a token; it is put together here by hand, so that anything can be wrong with it."""
    text = ".".join(encode(json.dumps(part).encode()) for part in (header, claims))
    return f"{text}.{encode(sign(text.encode()))}"


def make_rsa(bits=2048, **more):
    key = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    numbers = key.public_key().public_numbers()
    return key, {"kty": "RSA", "kid": "first", "n": number(numbers.n), "e": number(numbers.e), **more}


def make_ec(curve=None, name="P-256"):
    key = ec.generate_private_key(curve or ec.SECP256R1())
    numbers = key.public_key().public_numbers()
    return key, {"kty": "EC", "kid": "second", "crv": name, "x": number(numbers.x), "y": number(numbers.y)}


def sign_rsa(key, digest=hashes.SHA256):
    return lambda text: key.sign(text, padding.PKCS1v15(), digest())


def sign_ec(key):
    def sign(text):
        pair = decode_dss_signature(key.sign(text, ec.ECDSA(hashes.SHA256())))
        return b"".join(part.to_bytes((key.key_size + 7) // 8, "big") for part in pair)

    return sign


def sign_shared(secret):
    return lambda text: hmac.digest(secret, text, hashlib.sha256)


class Liar:
    """A provider on this machine whose every answer a test may change."""

    def __init__(self, keys):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        self.be_honest(keys)

    def be_honest(self, keys):
        """Forget every lie."""
        self.answers, self.seen, self.keys = {}, [], keys
        self.description = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/auth?marked=1",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/me",
        }
        self.more = {"sub": "marked-1", "email": "ann@example.org", "email_verified": True}

    def close(self):
        if self.thread.is_alive():
            self.server.shutdown()
            self.thread.join()
            self.server.server_close()

    def claims(self, nonce):
        now = int(time.time())
        said = {"iss": self.issuer, "aud": "cutline", "exp": now + 300, "iat": now, "nonce": nonce}
        return {**said, "sub": "marked-1", "email": "ann@example.org", "email_verified": True}

    def say(self, path, said, status=200, **headers):
        self.answers[path] = (status, said if isinstance(said, bytes) else json.dumps(said).encode(), headers)

    def answer(self, path):
        usual = {
            "/.well-known/openid-configuration": self.description,
            "/keys": {"keys": self.keys},
            "/me": self.more,
        }
        if path in self.answers:
            return self.answers[path]
        return (200, json.dumps(usual[path]).encode(), {}) if path in usual else (404, b"marked", {})

    def _handler(liar):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
                liar.seen.append((self.path, dict(self.headers), parse_qs(body)))
                status, text, headers = liar.answer(self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_GET

            def log_message(self, *_):
                pass

        return Handler
