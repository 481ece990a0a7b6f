"""An MCP server of the SDK on loopback that takes a realm's tokens alone, and keeps a note for each person."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context
from pydantic import AnyHttpUrl, BaseModel
from starlette.responses import JSONResponse, Response

from tests.identity_provider import Realm
from tests.upstream.served import Asgi, running

TOOLS = ["whoami", "remember", "recall", "ask"]


class Answer(BaseModel):
    colour: str


@dataclass
class ProtectedServer:
    """What it heard, and whose notes it keeps. `scopes`: without which it lets nobody in."""

    realm: Realm
    url: str
    name: str = "protected"
    scopes: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    """By subject."""
    headers: list[dict[str, str]] = field(default_factory=list)
    """Of every request, by name in lower case."""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Tool and subject."""
    modern: bool = True
    """False: it speaks the handshake era alone."""
    publishes: bool = True
    """False: it has no metadata of a protected resource, but that of its issuer."""
    quotes_tokens: bool = False
    """Whether it quotes the token that it was sent in an error."""

    @property
    def authorizations(self) -> list[str]:
        """As they came."""
        return [heard["authorization"] for heard in self.headers if "authorization" in heard]

    async def verify_token(self, token: str) -> AccessToken | None:
        claims = self.realm.claims(token)
        if claims is None:
            return None
        return AccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=claims.get("scope", "").split(),
            expires_at=claims["exp"],
            resource=claims["aud"],
            subject=claims["sub"],
            claims=claims,
        )

    def app(self) -> Asgi:
        auth = AuthSettings(
            issuer_url=AnyHttpUrl(self.realm.issuer),
            resource_server_url=AnyHttpUrl(self.url),
            required_scopes=self.scopes,
            validate_token_resource=True,
        )
        server: MCPServer[Any] = MCPServer(self.name, token_verifier=self, auth=auth, log_level="CRITICAL")

        @server.tool()
        async def whoami(wait_s: float = 0.0) -> str:
            """Tell who is logged in at this server, after a while."""
            subject = self._caller("whoami")
            await anyio.sleep(wait_s)
            return subject

        @server.tool()
        async def remember(text: str) -> str:
            """Keep a note of whoever is logged in."""
            self.notes[self._caller("remember")] = text
            return "kept"

        @server.tool()
        async def recall() -> str:
            """Give the note that was kept of whoever is logged in."""
            return self.notes.get(self._caller("recall"), "nothing")

        @server.tool()
        async def ask(context: Context) -> str:
            """Ask whoever is logged in for a colour."""
            subject = self._caller("ask")
            said = await context.elicit(f"Which colour, {subject}?", Answer)
            return f"{subject}: {said.data.colour if said.action == 'accept' else said.action}"

        @server.resource("note://mine")
        async def note() -> str:
            """The note that was kept of whoever is logged in."""
            return self.notes.get(self._caller("note://mine"), "nothing")

        return self._recording(server.streamable_http_app())

    def _caller(self, tool: str) -> str:
        token = get_access_token()
        assert token is not None
        assert token.subject is not None
        self.calls.append((tool, token.subject))
        return token.subject

    def _recording(self, inner: Asgi) -> Asgi:
        async def recording(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                heard = {name.decode(): value.decode() for name, value in scope["headers"]}
                self.headers.append(heard)
                if not self.publishes and scope["path"].startswith("/.well-known/"):
                    is_issuer = scope["path"] == "/.well-known/oauth-authorization-server"
                    answer = JSONResponse(self.realm.metadata()) if is_issuer else Response(status_code=404)
                    await answer(scope, receive, send)
                    return
                token = heard.get("authorization", "").removeprefix("Bearer ")
                if not self.modern and self.realm.claims(token) and heard.get("mcp-protocol-version", "") >= "2026":
                    await send({"type": "http.response.start", "status": 400, "headers": []})
                    await send({"type": "http.response.body", "body": b"Bad Request"})
                    return
                if self.quotes_tokens and self.realm.claims(token):
                    error = {"code": -32000, "message": f"no seat is left for {token}"}
                    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
                    kind = [(b"content-type", b"application/json")]
                    await send({"type": "http.response.start", "status": 400, "headers": kind})
                    await send({"type": "http.response.body", "body": body})
                    return
            await inner(scope, receive, send)

        return recording


@contextmanager
def protected_server(realm: Realm, **more: Any) -> Iterator[ProtectedServer]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        server = ProtectedServer(realm, f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", **more)
        with running(server.app(), listener=listener):
            yield server
