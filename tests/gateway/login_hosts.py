"""Hosts that log a person in by themselves: the SDK's client, and a browser of the person's own."""

import json
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx2
from anyio import to_thread
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tests.gateway.hosts import PATIENCE_S, Era
from tests.http_doubles import Quiet, serve_in_thread
from tests.identity_provider import Person
from tests.servers.certificates import certified

CALLBACK = "http://127.0.0.1:1/callback"
LOGIN = OAuthClientMetadata(client_name="a host", redirect_uris=[AnyUrl(CALLBACK)], token_endpoint_auth_method="none")  # noqa: S106


@dataclass
class Storage(TokenStorage):
    """What a host keeps of its login."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@dataclass
class LoginHost:
    """A host and its person, who logs in where the host leads them.

    `document`: the address by which the host names itself; None: it registers.
    """

    url: str
    person: Person
    document: str | None = None
    storage: Storage = field(default_factory=Storage)
    pages: list[str] = field(default_factory=list)
    """To which it led the person."""

    @property
    def token(self) -> str:
        assert self.storage.tokens is not None
        return self.storage.tokens.access_token

    @asynccontextmanager
    async def connected(self, era: Era = "auto", **callbacks: Any) -> AsyncIterator[Client]:
        login = OAuthClientProvider(
            self.url, LOGIN, self.storage, self._open_page, self._come_back, client_metadata_url=self.document
        )
        async with (
            httpx2.AsyncClient(auth=login, timeout=PATIENCE_S) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=era, **callbacks) as client,
        ):
            yield client

    async def _open_page(self, page: str) -> None:
        self.pages.append(page)

    async def _come_back(self) -> AuthorizationCodeResult:
        answer = await to_thread.run_sync(self.person.open, self.pages[-1], CALLBACK)
        assert answer.next_request is not None, answer.text
        told = answer.next_request.url.params
        return AuthorizationCodeResult(code=told["code"], state=told["state"], iss=told["iss"])


@contextmanager
def client_document(folder: Path, callback: str = CALLBACK) -> Iterator[tuple[str, ssl.SSLContext]]:
    """The address of a client's metadata document, and who trusts it."""
    certificate = certified(folder)

    class Document(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told = {"client_id": address, "client_name": "a host", "redirect_uris": [callback]}
            body = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with HTTPServer(("127.0.0.1", 0), Document) as server:
        server.socket = certificate.context().wrap_socket(server.socket, server_side=True)
        address = f"https://127.0.0.1:{server.server_port}/host.json"
        with serve_in_thread(server):
            yield address, ssl.create_default_context(cafile=certificate.authority)
