"""Hosts log a person in by themselves: the SDK's client, from the gateway's challenge to a tool's call."""

import json
import ssl
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tests.fake_issuer import AUDIENCE, fake_issuer, signer
from tests.gateway.hosts import ERAS, PATIENCE_S, Era, Place, ingest, told
from tests.gateway.hosts import names as names_of
from tests.servers.certificates import certified
from tests.service import Served as Service
from tests.service import listen, served
from tests.upstream.issuer import Issuer
from tests.upstream.served import Served, running
from tests.upstream.served import served as upstream
from waygraph.registry.model.settings import Settings

CALLBACK = "http://127.0.0.1:1/callback"
LOGIN = OAuthClientMetadata(client_name="a host", redirect_uris=[AnyUrl(CALLBACK)], token_endpoint_auth_method="none")  # noqa: S106


@dataclass
class SigningIssuer(Issuer):
    """Its tokens are JSON Web Tokens for the resource that a client names (RFC 8707).

    `documents`: how it fetches the documents by which clients name themselves; None: clients register.
    """

    audience: str = ""
    documents: ssl.SSLContext | None = None

    @property
    def resource(self) -> str:
        return self.audience

    def make_token(self, granted: str, resource: str) -> str:
        with fake_issuer() as shapes:
            claims = shapes.claims(iss=self.origin, aud=resource, sub="ann", scope=granted, groups=None)
        return signer().token(claims)

    def metadata(self) -> dict[str, Any]:
        told = super().metadata() | {"jwks_uri": f"{self.origin}/keys"}
        return told | {"client_id_metadata_document_supported": self.documents is not None}

    def client(self, client_id: str) -> dict[str, Any]:
        if self.documents is None:
            return super().client(client_id)
        document: dict[str, Any] = httpx2.get(client_id, verify=self.documents).raise_for_status().json()
        assert document["client_id"] == client_id
        return document

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, dict[str, str], Any]:
        match target.partition("?")[0]:
            case "/.well-known/openid-configuration":
                return 200, {}, self.metadata()
            case "/keys":
                return 200, {}, {"keys": [signer().jwk]}
        return super().answer(method, target, body)


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
class Host:
    """A host and its person, who logs in where the host leads them. `document`: by which the host names itself."""

    url: str
    document: str | None = None
    storage: Storage = field(default_factory=Storage)
    pages: list[str] = field(default_factory=list)

    async def call(self, era: Era, query: str) -> tuple[list[str], Any]:
        """The tools found, and what the first one answered."""
        login = OAuthClientProvider(
            self.url, LOGIN, self.storage, self._open_page, self._come_back, client_metadata_url=self.document
        )
        async with (
            httpx2.AsyncClient(auth=login, timeout=PATIENCE_S) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=era) as client,
        ):
            found = list(names_of(told(await client.call_tool("find_tools", {"query": query}))))
            return found, await client.call_tool("use_tool", {"name": found[0], "params": {}})

    async def _open_page(self, page: str) -> None:
        self.pages.append(page)

    async def _come_back(self) -> AuthorizationCodeResult:
        async with httpx2.AsyncClient() as http:
            answer = await http.get(self.pages[-1])
        place = answer.headers["location"]
        assert place.startswith(CALLBACK)
        said = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(place).query))
        return AuthorizationCodeResult(code=said["code"], state=said["state"])


@dataclass
class World:
    service: Service
    issuer: SigningIssuer
    server: Served


@contextmanager
def world(folder: Path, documents: ssl.SSLContext | None = None) -> Iterator[World]:
    """A service with an issuer, and an MCP server behind it that is reached over HTTP."""
    place, issuer = Place(folder), SigningIssuer(Served(), documents=documents)
    listener = listen()
    issuer.audience = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    with upstream() as server, running(issuer.app()) as issuer.origin:
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"far": {"type": "http", "url": server.url}}}))
        assert ingest(place, str(folder / "mcp.json"), "--namespace", "desk") == 0
        settings = Settings(oidc_issuer=issuer.origin, oidc_audience=issuer.audience)
        with served(place.registry, auth=True, folder=folder, settings=settings, listener=listener) as service:
            yield World(service, issuer, server)


@contextmanager
def client_document(folder: Path) -> Iterator[tuple[str, ssl.SSLContext]]:
    """The address of a client's metadata document, and who trusts it."""
    certificate = certified(folder)

    class Document(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told = {"client_id": address, "client_name": "a host", "redirect_uris": [CALLBACK]}
            body = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    with HTTPServer(("127.0.0.1", 0), Document) as server:
        server.socket = certificate.context().wrap_socket(server.socket, server_side=True)
        address = f"https://127.0.0.1:{server.server_port}/host.json"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield address, ssl.create_default_context(cafile=certificate.authority)
        finally:
            server.shutdown()
            thread.join()


def log_in(host: Host, world: World, era: Era) -> None:
    """It finds and calls a tool; the server of the tool hears nothing of the login."""
    found, answer = anyio.run(host.call, era, "alpha")
    assert found == ["far__alpha"]
    assert answer.is_error  # the server lists its tool and runs none, which it says itself
    assert any(heard.get("mcp-method") == "tools/call" for heard in world.server.headers)
    assert host.storage.tokens is not None
    token = host.storage.tokens.access_token
    assert not any("authorization" in heard or token in str(heard) for heard in world.server.headers)
    [page] = host.pages
    asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page).query))
    assert asked["scope"] == "waygraph:route waygraph:use"
    assert asked["resource"] == world.issuer.audience
    assert anyio.run(host.call, era, "alpha")[0] == found
    assert host.pages == [page], "it is logged in"


@pytest.mark.parametrize("era", ERAS)
def test_a_host_registers_and_logs_a_person_in(era: Era, tmp_path: Path) -> None:
    with world(tmp_path) as found:
        log_in(Host(found.issuer.audience), found, era)
        assert len(found.issuer.clients) == 1


def test_a_host_names_itself_by_a_document(tmp_path: Path) -> None:
    with client_document(tmp_path) as (address, trusts), world(tmp_path, trusts) as found:
        host = Host(found.issuer.audience, address)
        log_in(host, found, "auto")
        assert found.issuer.clients == {}
        assert host.storage.client is not None
        assert host.storage.client.client_id == address


def test_who_is_not_known_is_told_where_to_log_in(tmp_path: Path) -> None:
    """At the doors of MCP alone; also where a token is there that is not good, such as one for another audience."""
    own = signer()
    with fake_issuer(own) as issuer:
        settings = Settings(oidc_issuer=issuer.url, oidc_audience=AUDIENCE, oidc_scope_prefix="wg.")
        with served(auth=True, folder=tmp_path, settings=settings) as service:
            stranger, wrong = service.client(), service.client(own.token(issuer.claims(aud="another")))
            for path in ("/mcp", "/desk/mcp"):
                where = f"{service.url}/.well-known/oauth-protected-resource{path}"
                pointer = f'resource_metadata="{where}", scope="wg.route wg.use"'
                for method, body in (("GET", None), ("POST", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})):
                    refused = stranger.request(method, path, json=body)
                    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, f"Bearer {pointer}")
                    refused = wrong.request(method, path, json=body)
                    assert refused.status_code == 401
                    assert refused.headers["www-authenticate"] == f'Bearer error="invalid_token", {pointer}'
                assert stranger.get(where).json() == {
                    "resource": f"{service.url}{path}",
                    "authorization_servers": [issuer.url],
                    "scopes_supported": ["wg.route", "wg.use"],
                    "bearer_methods_supported": ["header"],
                    "resource_name": "Waygraph",
                }
            assert stranger.get("/v1/agents").headers["www-authenticate"] == "Bearer"
            assert stranger.get("/.well-known/oauth-protected-resource/v1").status_code == 404


@pytest.mark.parametrize(
    ("audience", "resource"),
    [
        ("https://w.example/mcp", "https://w.example/mcp"),
        ("https://w.example", "https://w.example"),
        ("https://w.example/", "https://w.example/"),
        ("https://w.example/desk/mcp", "https://w.example/mcp"),
        ("https://w.exam", "https://w.example/mcp"),
        ("waygraph", "https://w.example/mcp"),
    ],
)
def test_the_resource_is_the_audience_where_that_is_an_address_of_the_gateway(
    audience: str, resource: str, tmp_path: Path
) -> None:
    settings = Settings(oidc_issuer="https://i.example", oidc_audience=audience, public_url="https://w.example/")
    with served(auth=True, folder=tmp_path, settings=settings) as service:
        told = service.client().get("/.well-known/oauth-protected-resource/mcp").json()
        assert told["resource"] == resource


def test_without_an_issuer_nothing_is_said_of_logins(tmp_path: Path) -> None:
    with served(auth=True, folder=tmp_path) as service:
        client = service.client()
        assert client.get("/.well-known/oauth-protected-resource/mcp").status_code == 404
        assert client.get("/mcp").headers["www-authenticate"] == "Bearer"
