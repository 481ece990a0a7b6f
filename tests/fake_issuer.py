"""An OIDC issuer on a free loopback port: discovery, keys and tokens, over real sockets.

Tokens are signed here with `cryptography` alone, not with the library that checks them.
"""

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512, HashAlgorithm

from tests.http_doubles import Quiet, serve_in_thread

DISCOVERY = "/.well-known/openid-configuration"
AUDIENCE = "https://waygraph.example.com"
HASHES: dict[str, HashAlgorithm] = {"256": SHA256(), "384": SHA384(), "512": SHA512()}
CURVES: dict[str, tuple[str, ec.EllipticCurve, int]] = {
    "ES256": ("P-256", ec.SECP256R1(), 32),
    "ES384": ("P-384", ec.SECP384R1(), 48),
    "ES512": ("P-521", ec.SECP521R1(), 66),
}

type PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def number(value: int, size: int = 0) -> str:
    """A Base64urlUInt of RFC 7518, 2; of `size` bytes where a curve says so."""
    return base64url(value.to_bytes(size or (value.bit_length() + 7) // 8))


@dataclass(frozen=True)
class Signer:
    """A key of the issuer, which signs by one algorithm."""

    kid: str
    algorithm: str
    private: PrivateKey

    @property
    def jwk(self) -> dict[str, object]:
        """The public half, as RFC 7517 has it."""
        return {"kid": self.kid, "use": "sig", "alg": self.algorithm, **_numbers(self)}

    @property
    def private_jwk(self) -> dict[str, object]:
        """What must never be published, of a curve's key."""
        assert isinstance(self.private, ec.EllipticCurvePrivateKey)
        secret = self.private.private_numbers().private_value
        return {**self.jwk, "d": number(secret, CURVES[self.algorithm][2])}

    def token(self, claims: Mapping[str, object], **header: object) -> str:
        """A JSON Web Token; a header that is None is left out."""
        told = {"typ": "JWT", "alg": self.algorithm, "kid": self.kid, **header}
        signed = unsigned({name: value for name, value in told.items() if value is not None}, claims)
        return f"{signed}.{base64url(_signature(self, signed.encode()))}"


def unsigned(header: Mapping[str, object], claims: Mapping[str, object]) -> str:
    """What is signed of a token."""
    return ".".join(base64url(json.dumps(part).encode()) for part in (header, claims))


@cache
def signer(kid: str = "first", algorithm: str = "ES256", *, bits: int = 2048) -> Signer:
    """The same key for the same arguments, since RSA keys take long to make."""
    if algorithm in CURVES:
        return Signer(kid, algorithm, ec.generate_private_key(CURVES[algorithm][1]))
    if algorithm == "EdDSA":
        return Signer(kid, algorithm, ed25519.Ed25519PrivateKey.generate())
    return Signer(kid, algorithm, rsa.generate_private_key(public_exponent=65537, key_size=bits))


def _numbers(signer: Signer) -> dict[str, object]:
    match signer.private:
        case rsa.RSAPrivateKey() as key:
            public = key.public_key().public_numbers()
            return {"kty": "RSA", "n": number(public.n), "e": number(public.e)}
        case ec.EllipticCurvePrivateKey() as key:
            name, _, size = CURVES[signer.algorithm]
            point = key.public_key().public_numbers()
            return {"kty": "EC", "crv": name, "x": number(point.x, size), "y": number(point.y, size)}
        case key:
            return {"kty": "OKP", "crv": "Ed25519", "x": base64url(key.public_key().public_bytes_raw())}


def _signature(signer: Signer, content: bytes) -> bytes:
    """RFC 7518, 3.3 to 3.5, and RFC 8037, 3.1."""
    if isinstance(signer.private, ed25519.Ed25519PrivateKey):
        return signer.private.sign(content)
    by = HASHES[signer.algorithm[2:]]
    if isinstance(signer.private, ec.EllipticCurvePrivateKey):
        size = CURVES[signer.algorithm][2]
        r, s = decode_dss_signature(signer.private.sign(content, ec.ECDSA(by)))
        return r.to_bytes(size) + s.to_bytes(size)
    if signer.algorithm.startswith("PS"):
        return signer.private.sign(content, padding.PSS(padding.MGF1(by), by.digest_size), by)
    return signer.private.sign(content, padding.PKCS1v15(), by)


@dataclass
class FakeIssuer:
    """What the issuer publishes, how it behaves, and what it was asked. Change the fields while it runs."""

    url: str = ""
    published: list[Mapping[str, object]] = field(default_factory=list)
    """JSON Web Keys."""
    discovery: dict[str, object] = field(default_factory=dict)
    """Said in the discovery document, in place of what is true."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """Of the keys, in place of what is true."""
    gate: threading.Event = field(default_factory=threading.Event)
    """While it is clear nothing is answered."""
    drip_s: float = 0.0
    """Time between two bytes of the keys."""
    requests: list[str] = field(default_factory=list)
    """The paths that were asked for."""

    @property
    def fetches(self) -> int:
        """How often the keys were asked for."""
        return self.requests.count("/keys")

    def claims(self, **changes: object) -> dict[str, Any]:
        """A good token's; a claim that is None is left out."""
        now_s = int(time.time())
        good: dict[str, object] = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "user-1",
            "iat": now_s,
            "exp": now_s + 300,
            "scope": "openid waygraph:route waygraph:read",
            "groups": ["finance"],
        }
        return {name: value for name, value in (good | changes).items() if value is not None}


@contextmanager
def fake_issuer(*signers: Signer, tls: ssl.SSLContext | None = None) -> Iterator[FakeIssuer]:
    fake = FakeIssuer(published=[each.jwk for each in signers])
    fake.gate.set()
    with ThreadingHTTPServer(("127.0.0.1", 0), _answering_for(fake)) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        fake.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
        with serve_in_thread(server):
            try:
                yield fake
            finally:
                fake.gate.set()


def _answering_for(fake: FakeIssuer) -> type[BaseHTTPRequestHandler]:
    class Endpoint(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.requests.append(self.path)
            fake.gate.wait()
            status, body = _answer(fake, self.path)
            self.send_response(status)
            for name, value in fake.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self._send(body)
            except OSError:
                self.close_connection = True  # who asked has left

        def _send(self, body: bytes) -> None:
            size = 1 if fake.drip_s and self.path == "/keys" else len(body)
            for start in range(0, len(body), size or 1):
                self.wfile.write(body[start : start + size])
                time.sleep(fake.drip_s)

    return Endpoint


def _answer(fake: FakeIssuer, path: str) -> tuple[int, bytes]:
    if path == DISCOVERY:
        document = {"issuer": fake.url, "jwks_uri": f"{fake.url}/keys", **fake.discovery}
        return 200, json.dumps(document).encode()
    if path != "/keys":
        return 404, b"{}"
    return fake.status, json.dumps({"keys": fake.published}).encode() if fake.body is None else fake.body
