"""An MCP server that needs a login, and its OAuth issuer, in this process on a free loopback port.

It speaks what the specification of MCP asks for: RFC 9728 and 8414 documents, dynamic registration, PKCE (S256), a
code for a token, renewal with a new token for each old one. A `browser` is whoever follows the page's address and comes
back to the callback.
"""

import base64
import hashlib
import json
import secrets
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from tests.upstream.served import Served, running


@dataclass
class Issuer:
    """What it gave out and was asked. `expires_in` is of the tokens it gives."""

    served: Served
    origin: str = ""
    expires_in: int = 3600
    refuses_login: bool = False
    clients: dict[str, dict[str, Any]] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    renewals: dict[str, str] = field(default_factory=dict)
    repeats_tokens: bool = False
    """Whether the server quotes the token that it was sent in an error."""
    answers_late_s: float = 0.0
    """Between the gift of a token and the answer that tells of it."""
    drops: int = 0
    """That answer begins with so many spaces, a tenth of a second each."""
    held_until: int = 0
    """So many requests of the server are let in together, and none before."""
    waiting: list[anyio.Event] = field(default_factory=list)
    scope: str = ""
    """Without which no request of the server is let in."""
    granted: dict[str, str] = field(default_factory=dict)
    pages: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def browser(self, page: str) -> None:
        """A person who logs in: follows the page, which sends them back to the callback."""
        self.pages.append(page)
        assert page.startswith(self.origin)
        with urllib.request.urlopen(page, timeout=60) as answer:  # noqa: S310 - a loopback address
            answer.read()

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, dict[str, str], Any]:
        parts = urllib.parse.urlsplit(target)
        given = dict(urllib.parse.parse_qsl(body.decode() or parts.query))
        self.asked.append(parts.path)
        match method, parts.path:
            case "GET", "/.well-known/oauth-protected-resource/mcp":
                return 200, {}, {"resource": f"{self.origin}/mcp", "authorization_servers": [self.origin]}
            case "GET", "/.well-known/oauth-authorization-server":
                return 200, {}, self.metadata()
            case "POST", "/register":
                client = {**json.loads(body), "client_id": secrets.token_hex(4)}
                self.clients[client["client_id"]] = client
                return 201, {}, client
            case "GET", "/login":
                return 302, {"location": self.logged_in(given)}, {}
            case "POST", "/give":
                return self.token(given)
        return 404, {}, {}

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/login",
            "token_endpoint": f"{self.origin}/give",
            "registration_endpoint": f"{self.origin}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
        }

    def logged_in(self, given: dict[str, str]) -> str:
        client = self.client(given["client_id"])
        assert given["redirect_uri"] in client["redirect_uris"]
        if self.refuses_login:
            said = {"error": "access_denied", "state": given["state"]}
        else:
            code = secrets.token_hex(8)
            self.codes[code] = given
            said = {"code": code, "state": given["state"]}
        return f"{given['redirect_uri']}?{urllib.parse.urlencode(said)}"

    def client(self, client_id: str) -> dict[str, Any]:
        return self.clients[client_id]

    def token(self, given: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        if given["grant_type"] == "refresh_token":
            if self.renewals.pop(given["refresh_token"], None) != given["client_id"]:
                self.end_logins()  # stolen, for all that can be known (RFC 9700, 4.14.2)
                return 400, {}, {"error": "invalid_grant"}
            granted = self.granted[given["refresh_token"]]
        else:
            asked = self.codes.pop(given["code"])
            proof = base64.urlsafe_b64encode(hashlib.sha256(given["code_verifier"].encode()).digest())
            assert proof.rstrip(b"=").decode() == asked["code_challenge"]
            granted = asked.get("scope", "")
            assert given["resource"] == self.resource
        token, renewal = self.make_token(granted, given.get("resource", "")), f"ren-{secrets.token_hex(8)}"
        self.tokens.add(token)
        self.granted[token] = self.granted[renewal] = granted
        self.renewals[renewal] = given["client_id"]
        answer = {
            "access_token": token,
            "token_type": "Bearer",
            "refresh_token": renewal,
            "expires_in": self.expires_in,
        }
        return 200, {}, answer

    @property
    def resource(self) -> str:
        """For what clients ask for a token."""
        return f"{self.origin}/mcp"

    def make_token(self, granted: str, resource: str) -> str:  # noqa: ARG002 - says nothing of either
        return f"tok-{secrets.token_hex(8)}"

    def end_logins(self) -> None:
        self.tokens.clear()
        self.renewals.clear()

    def gifts(self) -> int:
        """How often a token was asked for, by a code or for one that has ended."""
        return self.asked.count("/give")

    async def let_in(self) -> None:
        self.waiting.append(anyio.Event())
        if len(self.waiting) < self.held_until:
            await self.waiting[-1].wait()
        for event in self.waiting:
            event.set()

    def app(self) -> Any:
        inner = self.served.app()

        async def guarded(scope: Any, receive: Any, send: Any) -> Any:
            if scope["type"] != "http":
                return await inner(scope, receive, send)
            heard = {name.decode(): value.decode() for name, value in scope["headers"]}
            if scope["path"] != "/mcp":
                body = (await receive()).get("body", b"")
                target = scope["path"] + "?" + scope["query_string"].decode()
                answer = self.answer(scope["method"], target, body)
                is_gift = scope["path"] == "/give"
                await anyio.sleep(self.answers_late_s if is_gift else 0)
                return await _send(send, *answer, drops=self.drops if is_gift else 0)
            token = heard.get("authorization", "").removeprefix("Bearer ")
            if token in self.tokens and self.repeats_tokens:
                error = {"code": -32000, "message": f"no seat is left for {token}"}
                return await _send(send, 400, {}, {"jsonrpc": "2.0", "id": None, "error": error})
            if token in self.tokens and self.scope not in ("", *self.granted[token].split()):
                challenge = {"www-authenticate": f'Bearer error="insufficient_scope", scope="{self.scope}"'}
                return await _send(send, 403, challenge, {"error": "insufficient_scope"})
            if token in self.tokens:
                await self.let_in()
                return await inner(scope, receive, send)
            document = f"{self.origin}/.well-known/oauth-protected-resource/mcp"
            challenge = {"www-authenticate": f'Bearer resource_metadata="{document}"'}
            return await _send(send, 401, challenge, {"error": "invalid_token"})

        return guarded


async def _send(send: Any, status: int, headers: dict[str, str], document: Any, drops: int = 0) -> None:
    said = [(b"content-type", b"application/json"), *((n.encode(), v.encode()) for n, v in headers.items())]
    await send({"type": "http.response.start", "status": status, "headers": said})
    for _ in range(drops):
        await send({"type": "http.response.body", "body": b" ", "more_body": True})
        await anyio.sleep(0.1)
    await send({"type": "http.response.body", "body": json.dumps(document).encode()})


@contextmanager
def issuing() -> Iterator[Issuer]:
    issuer = Issuer(Served())
    with running(issuer.app(), lambda loop: setattr(issuer.served, "loop", loop)) as origin:
        issuer.origin, issuer.served.url = origin, f"{origin}/mcp"
        yield issuer
