"""An MCP server at which each person logs in for themselves, with its issuer; and callers' logins there."""

import base64
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp import types
from mcp.server import Server
from tests.upstream.issuer import Issuer

from tests.upstream.served import Asgi, Served, running
from waygraph.ingest.upstream.logins import Login, LoginFile

KEY = base64.b64encode(b"k" * 32).decode()
OTHER_KEY = base64.b64encode(b"o" * 32).decode()
QUESTION = {"type": "object", "properties": {"word": {"type": "string"}}}


def new_key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


@dataclass
class Desk(Served):
    """Its tool `whoami` answers with whose token it was called, `ask` asks whoever called it for a word."""

    tools: list[str] = field(default_factory=lambda: ["whoami", "ask"])
    persons: dict[str, str] = field(default_factory=dict)
    """By what stands behind `Bearer `."""
    called: list[str] = field(default_factory=list)
    made: Asgi | None = None

    async def call_tool(self, context: Any, params: Any) -> Any:
        shown = context.request.headers.get("authorization", "").removeprefix("Bearer ")
        person = self.persons.get(shown, "nobody")
        self.called.append(person)
        word = ""
        if params.name == "ask":
            answer = await context.session.elicit_form(f"a word, {person}?", QUESTION, context.request_id)
            word = f" {(answer.content or {}).get('word')}"
        return types.CallToolResult(content=[types.TextContent(type="text", text=f"{person}{word}")])

    def app(self) -> Asgi:
        """The same each time: behind the issuer's guard and without it."""
        self.made = self.made or self._make()
        return self.made

    def _make(self) -> Asgi:
        server: Server[Any] = Server("desk", on_list_tools=self.list_tools, on_call_tool=self.call_tool)
        inner = server.streamable_http_app()

        async def recording(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                heard = {name.decode(): value.decode() for name, value in scope["headers"]}
                self.headers.append({":method": scope["method"], **heard})
                if not self.modern and heard.get("mcp-protocol-version", "") >= "2026":
                    await send({"type": "http.response.start", "status": 400, "headers": []})
                    await send({"type": "http.response.body", "body": b"Bad Request"})
                    return
            await inner(scope, receive, send)

        return recording


@dataclass
class Persons(Issuer):
    """Who follows its page is `person`. `guards`: whether the server asks for a login at all."""

    person: str = ""
    guards: bool = True
    renews: int = 200
    """The status of a renewal."""
    suspects: bool = True
    """Whether it ends all logins when an old token comes again."""
    of_renewal: dict[str, str] = field(default_factory=dict)

    @property
    def desk(self) -> Desk:
        assert isinstance(self.served, Desk)
        return self.served

    def logged_in(self, given: dict[str, str]) -> str:
        return super().logged_in({**given, "person": self.person})

    def token(self, given: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        if given["grant_type"] == "refresh_token" and self.renews != 200:
            return self.renews, {}, {"error": "temporarily_unavailable"}
        former = given.get("refresh_token", "")
        person = self.of_renewal.get(former) or self.codes.get(given.get("code", ""), {}).get("person", "")
        status, headers, told = super().token(given)
        if status == 200:
            self.desk.persons[told["access_token"]] = self.of_renewal[told["refresh_token"]] = person
        return status, headers, told

    def end_logins(self) -> None:
        if self.suspects:
            super().end_logins()

    def enroll(self, person: str) -> dict[str, Any]:
        """What is kept of a login of this person, as if they had logged in."""
        token, renewal, client = f"tok-{secrets.token_hex(8)}", f"ren-{secrets.token_hex(8)}", secrets.token_hex(4)
        self.tokens.add(token)
        self.renewals[renewal], self.granted[token], self.granted[renewal] = client, "", ""
        self.desk.persons[token] = self.of_renewal[renewal] = person
        tokens = {"access_token": token, "token_type": "Bearer", "refresh_token": renewal, "expires_in": 3600}
        registered = {
            "client_id": client,
            "redirect_uris": ["http://127.0.0.1:1/x"],
            "token_endpoint_auth_method": "none",
        }
        return {"tokens": tokens, "expires_at": None, "client": registered, "issuer": self.metadata()}

    def log_in(self, file: LoginFile, caller: str, person: str, agent_id: str = "desk") -> Login:
        return file.put(caller, agent_id, self.served.url, "oauth", self.enroll(person))

    def app(self) -> Any:
        guarded, inner = super().app(), self.served.app()

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            open_now = scope["type"] == "lifespan" or (scope["path"] == "/mcp" and not self.guards)
            await (inner if open_now else guarded)(scope, receive, send)

        return answer


@contextmanager
def desk(*, modern: bool = True) -> Iterator[Persons]:
    issuer = Persons(Desk(modern=modern))
    with running(issuer.app(), lambda loop: setattr(issuer.served, "loop", loop)) as origin:
        issuer.origin, issuer.served.url = origin, f"{origin}/mcp"
        yield issuer
