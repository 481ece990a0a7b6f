"""Through the proxy of a network, as a company's machines reach the world; and past it to this machine."""

import json
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest

from tests.fake_openai import fake_openai
from tests.forward_proxy import ForwardProxy, forward_proxy
from tests.mcp_stubs import http_servers
from tests.service import served
from tests.web_pages import Answer, web_pages
from waygraph import Settings
from waygraph.ingest import ingest
from waygraph.ingest.execution.call import Request, Web
from waygraph.registry.embedding import open_embedder
from waygraph.registry.embedding.weights import pull
from waygraph.registry.http.client import UnusableProxy
from waygraph.registry.model.errors import SourceError, UpstreamRefused
from waygraph.registry.registry import Registry

WORDS = Settings(embedder="none")
WAYS: dict[str, Callable[[ForwardProxy], str]] = {"http": lambda proxy: proxy.http, "socks": lambda proxy: proxy.socks}
CATALOGUE = json.dumps({"waygraph": 1, "agents": [{"id": "tides", "name": "Tides"}]}).encode()
PAGE: Answer = (200, {"Content-Type": "application/json"}, CATALOGUE)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def set_proxy(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.delenv("all_proxy", raising=False)
    monkeypatch.setenv("ALL_PROXY", address)


def port_of(url: str) -> int:
    return urlsplit(url).port or 80


def test_a_document_comes_through_it(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy resolves the name: to a machine behind it many have none."""
    address = "http://pages.test/agents.json"
    with web_pages({"/agents.json": PAGE, address: PAGE}) as pages, forward_proxy(port_of(pages.url)) as proxy:
        set_proxy(monkeypatch, WAYS[way](proxy))
        with Registry.open(":memory:", settings=WORDS) as registry:
            ingest(registry, address)
            assert [agent.id for agent in registry.agents()] == ["tides"]
        assert proxy.asked == [(way, "pages.test")]


def test_an_mcp_server_is_asked_through_it(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with http_servers(4) as servers, forward_proxy(servers.port) as proxy:
        set_proxy(monkeypatch, WAYS[way](proxy))
        path = urlsplit(servers.url("server-0")).path
        with Registry.open(":memory:", settings=WORDS) as registry:
            ingest(registry, f"http://servers.test{path}")
            assert len(registry.tools()) == 3
        assert {way for way, _ in proxy.asked} == {way}
        assert {host for _, host in proxy.asked} == {"servers.test"}


def test_a_service_answers_through_it(way: str, catalog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(auth=True, folder=tmp_path) as service, forward_proxy(port_of(service.url)) as proxy:
        settings = replace(WORDS, api_key=service.key(everything=True), remote_plain_http=True)
        ingest(service.registry, catalog)
        set_proxy(monkeypatch, WAYS[way](proxy))
        with Registry.open("http://registry.test", settings=settings) as registry:
            assert len(registry.agents()) == 36
        assert (way, "registry.test") in proxy.asked


def test_this_machine_is_asked_past_it(monkeypatch: pytest.MonkeyPatch) -> None:
    set_proxy(monkeypatch, "http://127.0.0.1:9")
    with (
        web_pages({"/agents.json": PAGE}) as pages,
        http_servers(4) as servers,
        fake_openai() as fake,
        Registry.open(":memory:", settings=WORDS) as registry,
    ):
        ingest(registry, f"{pages.url}/agents.json")
        ingest(registry, servers.url("server-0").replace("127.0.0.1", "localhost"))
        assert len(registry.agents()) == 2
        embedder = open_embedder("openai:m", WORDS, fake.environ)
        assert embedder is not None
        assert len(embedder.embed(["tides"], "query")) == 1


async def asked_of_a_service(settings: Settings) -> None:
    """What opens the way to services does not mind: a gateway starts all the same."""
    async with aclosing(Web(settings)) as web:
        await web.ask(Request(method="GET", url="http://service.test/", allow_private=True))


@pytest.mark.parametrize("address", ["ftp://me:s3cret-word@proxy", "http://me:s3cret-word@proxy:port", "proxy://x"])
def test_one_that_cannot_be_is_told(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the error of whatever was asked for, without the address: it may hold a password."""
    set_proxy(monkeypatch, address)
    settings = Settings(embedder="none", cache_dir=str(tmp_path))
    registry = Registry.open(":memory:", settings=settings)
    told = []
    for error, act in (
        (SourceError, lambda: ingest(registry, "http://pages.test/agents.json")),
        (SourceError, lambda: ingest(registry, "http://servers.test/mcp")),
        (SourceError, lambda: ingest(registry, "mcp-registry:http://registry.test")),
        (UnusableProxy, lambda: Registry.open("http://registry.test", settings=settings)),
        (UpstreamRefused, lambda: anyio.run(asked_of_a_service, settings)),
        (UnusableProxy, lambda: open_embedder("openai:m", settings, {"OPENAI_API_KEY": "k"})),
        (UnusableProxy, lambda: pull("onnx:sentence-transformers/all-MiniLM-L6-v2", settings)),
    ):
        with pytest.raises(error) as raised:
            act()
        told.append(str(raised.value))
    assert all("the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names" in text for text in told), told
    assert not any("s3cret-word" in text for text in told)
