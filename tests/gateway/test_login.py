"""Hosts log a person in by themselves: the SDK's client, from the gateway's challenge to a tool's call."""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp.shared.auth import OAuthToken

from tests.fake_issuer import AUDIENCE, fake_issuer, signer
from tests.gateway.hosts import Era, Place, ingest, told
from tests.gateway.hosts import names as names_of
from tests.gateway.login_hosts import LoginHost, client_document
from tests.identity_provider import Person, Realm, identity_provider
from tests.service import Served as Service
from tests.service import listen, served
from tests.upstream.served import Served
from tests.upstream.served import served as upstream
from waygraph.registry.model.settings import Settings


@dataclass
class World:
    service: Service
    origin: str
    audience: str
    realm: Realm
    server: Served


@contextmanager
def world(folder: Path, documents: ssl.SSLContext | None = None, audience: str = "/mcp") -> Iterator[World]:
    """A service with an issuer, and an MCP server behind it that is reached over HTTP."""
    place, listener = Place(folder), listen()
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with upstream() as server, identity_provider("main") as [realm]:
        realm.documents = documents
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"far": {"type": "http", "url": server.url}}}))
        assert ingest(place, str(folder / "mcp.json"), "--namespace", "desk") == 0
        settings = Settings(oidc_issuer=realm.issuer, oidc_audience=origin + audience)
        with served(place.registry, auth=True, folder=folder, settings=settings, listener=listener) as service:
            yield World(service, origin, origin + audience, realm, server)


def log_in(found: World, era: Era, document: str | None = None, path: str = "/mcp") -> LoginHost:
    """A host that finds and calls a tool; the server of the tool hears nothing of the login."""
    with Person("ann") as ann:
        host = LoginHost(found.origin + path, ann, document)

        async def call() -> None:
            async with host.connected(era) as client:
                assert list(names_of(told(await client.call_tool("find_tools", {"query": "alpha"})))) == ["far__alpha"]
                answer = await client.call_tool("use_tool", {"name": "far__alpha", "params": {}})
                assert answer.is_error  # the server lists its tool and runs none, which it says itself

        anyio.run(call)
        assert any(heard.get("mcp-method") == "tools/call" for heard in found.server.headers)
        assert not any("authorization" in heard or host.token in str(heard) for heard in found.server.headers)
        [page] = host.pages
        asked = httpx2.URL(page).params
        assert (asked["scope"], asked["resource"]) == ("waygraph:route waygraph:use", found.audience)
        anyio.run(call)
        assert host.pages == [page], "it is logged in"
    return host


def test_a_host_registers_and_logs_a_person_in(era: Era, tmp_path: Path) -> None:
    with world(tmp_path) as found:
        log_in(found, era)
        assert len(found.realm.clients) == 1


@pytest.mark.parametrize("path", ["/mcp", "/desk/mcp", "/chosen/mcp"])
def test_one_audience_is_for_every_endpoint_below_it(path: str, tmp_path: Path) -> None:
    with world(tmp_path, audience="") as found:
        found.service.registry.operator.set_toolset("chosen", agents=["far"])
        log_in(found, "auto", path=path)


def test_a_host_names_itself_by_a_document(tmp_path: Path) -> None:
    with client_document(tmp_path) as (address, trusts), world(tmp_path, trusts) as found:
        host = log_in(found, "auto", address)
        assert found.realm.clients == {}
        assert host.storage.client is not None
        assert host.storage.client.client_id == address


def test_who_is_not_known_is_told_where_to_log_in(tmp_path: Path) -> None:
    """At the doors of MCP alone; also where a token is there that is not good, such as one for another audience."""
    own = signer()
    with fake_issuer(own) as issuer:
        settings = Settings(oidc_issuer=issuer.url, oidc_audience=AUDIENCE, oidc_scope_prefix="wg.")
        with served(auth=True, folder=tmp_path, settings=settings) as service:
            stranger, wrong = service.client(), service.client(own.token(issuer.claims(aud="another")))
            assert stranger.get("/.well-known/oauth-protected-resource").json()["resource"] == service.url
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


STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.mark.parametrize(
    ("method", "params", "needed"),
    [
        ("tools/list", {}, ""),
        ("tools/call", {"name": "find_tools", "arguments": {"query": "alpha"}}, ""),
        ("tools/call", {"name": "find_tools", "arguments": {"query": "a", "kind": "prompt"}}, "route use"),
        ("tools/call", {"name": "use_tool", "arguments": {"name": "far__alpha", "params": {}}}, "route use"),
        ("tools/call", {"name": "far__alpha", "arguments": {}}, "route use"),
        ("prompts/get", {"name": "x"}, "route use"),
        ("resources/read", {"uri": "waygraph://agents/far/a:b"}, "route use"),
    ],
)
def test_a_token_that_lacks_a_scope_is_told_which(
    method: str, params: dict[str, object], needed: str, tmp_path: Path
) -> None:
    """By HTTP, as MCP asks for, so that a host can have its person grant it. Of a key nobody grants more."""
    own = signer()
    with fake_issuer(own) as issuer:
        settings = Settings(oidc_issuer=issuer.url, oidc_audience=AUDIENCE)
        with served(auth=True, folder=tmp_path, settings=settings) as service:
            head = {
                "accept": "application/json, text/event-stream",
                "mcp-protocol-version": "2026-07-28",
                "mcp-method": method,
            }
            if name := str(params.get("name") or params.get("uri") or ""):
                head["mcp-name"] = name
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": STATELESS}}
            answer = service.client(own.token(issuer.claims(scope="waygraph:route"))).post(
                "/mcp", json=body, headers=head
            )
            assert service.client(service.key("route")).post("/mcp", json=body, headers=head).status_code != 403
    if not needed:
        assert answer.status_code == 200
        assert "www-authenticate" not in answer.headers
        return
    assert answer.status_code == 403
    scopes = " ".join(f"waygraph:{scope}" for scope in needed.split())
    where = f"{service.url}/.well-known/oauth-protected-resource/mcp"
    challenge = f'Bearer error="insufficient_scope", resource_metadata="{where}", scope="{scopes}"'
    assert answer.headers["www-authenticate"] == challenge


async def test_a_host_has_its_person_grant_what_its_token_lacks(tmp_path: Path) -> None:
    with world(tmp_path) as found, Person("ann") as ann:
        host = LoginHost(found.audience, ann)
        narrow = found.realm.issue("ann", found.audience, "waygraph:route")
        host.storage.tokens = OAuthToken(access_token=narrow, token_type="Bearer", expires_in=600)  # noqa: S106
        async with host.connected() as client:
            assert not (await client.call_tool("find_tools", {"query": "alpha"})).is_error
            assert not host.pages
            await client.call_tool("use_tool", {"name": "far__alpha", "params": {}})
        [page] = host.pages
        assert httpx2.URL(page).params["scope"] == "waygraph:route waygraph:use"


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
