"""One guard for all that is asked: nobody leads us to an address that is nearer than their own."""

import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import httpx2
import pytest

from tests.fake_issuer import fake_issuer, signer
from tests.identity_provider import Person, identity_provider
from tests.protected_server import TOOLS, ProtectedServer
from tests.upstream.launches import SETTINGS, listing_of
from tests.upstream.served import Asgi, running
from tests.web_pages import write_certificate
from waygraph.ingest import ingest
from waygraph.ingest.execution.call import Request, Web
from waygraph.ingest.manifest.records import HttpLaunch
from waygraph.ingest.sources.fetch import FetchFailed, Fetching, fetch
from waygraph.ingest.upstream.open import connect
from waygraph.registry.access.oidc import IssuerDocuments
from waygraph.registry.http.addresses import Reach, reach_of
from waygraph.registry.http.client import http_client
from waygraph.registry.http.guard import Guard, NotPublic
from waygraph.registry.model.errors import IssuerUnavailable, UpstreamError, UpstreamRefused, WaygraphError
from waygraph.registry.registry import Registry

NAMES = {
    "public.test": ["93.184.216.34"],
    "elsewhere.test": ["1.1.1.1"],
    "company.test": ["10.1.2.3"],
    "colleague.test": ["192.168.7.7"],
    "cloud.test": ["169.254.169.254"],
    "both.test": ["93.184.216.34", "10.1.2.3"],
}
METADATA = (
    "169.254.169.254 [fd00:ec2::254] [::ffff:169.254.169.254] [64:ff9b::a9fe:a9fe] [64:ff9b:1:a9fe:a9:fe00::] "
    "[64:ff9b:1::a9fe:a9fe] [2002:a9fe:a9fe::1] [::169.254.169.254] [::ffff:0:169.254.169.254] "
    "[fd12::5efe:a9fe:a9fe] [fe80::1] 168.63.129.16 100.100.100.200 192.0.0.192 169.254.170.2 2852039166 "
    "0xa9.0xfe.0xa9.0xfe cloud.test"
).split()


@dataclass
class Internet:
    """What names stand for, one answer after another if there are more, and what was dialled: it all ends here."""

    names: dict[str, list[list[str]]] = field(default_factory=lambda: {name: [held] for name, held in NAMES.items()})
    dialled: list[str] = field(default_factory=list)

    def resolve(self, host: str) -> list[str]:
        answers = self.names.get(host, [[host]])
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def internet(monkeypatch: pytest.MonkeyPatch) -> Internet:
    world, look_up = Internet(), socket.getaddrinfo
    connect_tcp, create_connection = anyio.connect_tcp, socket.create_connection

    def getaddrinfo(host: Any, port: Any, *more: Any, **how: Any) -> Any:
        return [entry for each in world.resolve(host) for entry in look_up(each, port, *more, **how)]

    async def getaddrinfo_async(host: Any, port: Any, **how: Any) -> Any:
        return getaddrinfo(host, port, type=how["type"])

    async def dial_async(**how: Any) -> Any:
        world.dialled.append(how["remote_host"])
        return await connect_tcp(**{**how, "remote_host": "127.0.0.1"})

    def dial(address: Any, *more: Any, **how: Any) -> Any:
        world.dialled.append(address[0])
        return create_connection(("127.0.0.1", address[1]), *more, **how)

    for name in ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(anyio, "getaddrinfo", getaddrinfo_async)
    monkeypatch.setattr(anyio, "connect_tcp", dial_async)
    monkeypatch.setattr(socket, "create_connection", dial)
    return world


@pytest.mark.parametrize("host", METADATA)
def test_no_person_has_a_metadata_address_asked(host: str, internet: Internet) -> None:
    """As a source, a registry, a server, and a service that may be private: refused before anything is sent."""

    async def call() -> None:
        await Web(SETTINGS).ask(Request(method="GET", url=f"http://{host}/", allow_private=True))

    told = []
    with Registry.open(":memory:", settings=replace(SETTINGS, embedder="none")) as registry:
        for act in (
            lambda: fetch(f"http://{host}/latest", Fetching(settings=SETTINGS)),
            lambda: ingest(registry, f"http://{host}/latest"),
            lambda: ingest(registry, f"mcp-registry:http://{host}"),
            lambda: listing_of(HttpLaunch(url=f"http://{host}/mcp")),
            lambda: listing_of(HttpLaunch(url=f"http://{host}/mcp", public=True)),
            lambda: anyio.run(call),
        ):
            with pytest.raises(WaygraphError) as caught:
                act()
            told.append(str(caught.value))
    assert all("may not be asked from here" in each for each in told), told
    assert all("link-local or metadata address" in each for each in told), told
    assert internet.dialled == []


def test_through_a_proxy_a_written_metadata_address_is_refused_too(
    internet: Internet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    for host in ("169.254.169.254", "2852039166", "[::ffff:169.254.169.254]"):
        with pytest.raises(FetchFailed, match="metadata"):
            fetch(f"http://{host}/latest", Fetching(settings=SETTINGS))
        with pytest.raises(UpstreamRefused, match="metadata"):
            listing_of(HttpLaunch(url=f"http://{host}/mcp"))
    assert internet.dialled == []


type LogIn = Callable[[str, str, str], list[str]]
FIELDS = ("resource_metadata", "authorization_servers", "registration_endpoint", "token_endpoint")


def led(inner: Asgi, origin: str, there: str) -> Asgi:
    """The server, whose challenge names its metadata at another origin."""

    async def leading(scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [(n, v.replace(origin.encode(), there.encode())) for n, v in message["headers"]]
            await send(message)

        if scope["type"] == "http":  # the server minds the names by which it is called
            scope["headers"] = [(n, b"127.0.0.1:1" if n == b"host" else v) for n, v in scope["headers"]]
        await inner(scope, receive, sent)

    return leading


@pytest.fixture
def log_in(internet: Internet, tmp_path: Path) -> Iterator[LogIn]:
    """The tools of a server at a host, one field of which names another host."""

    def log_in(server: str, name: str, target: str) -> list[str]:
        if name in ("registration_endpoint", "token_endpoint"):
            realm.said[name] = str(realm.metadata()[name]).replace("127.0.0.1", target)
        realm.origin = realm.origin.replace("127.0.0.1", target if name == "authorization_servers" else server)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            origin = f"http://{server}:{port}"
            there = f"http://{target}:{port}" if name == "resource_metadata" else origin
            app = ProtectedServer(realm, f"{origin}/mcp").app()
            with running(led(app, origin, there), listener=listener):
                return anyio.run(ask, f"{origin}/mcp")

    async def ask(url: str) -> list[str]:
        settings = replace(SETTINGS, data_dir=str(tmp_path))
        launch = HttpLaunch(url=url, oauth=True)
        async with connect(launch, settings, follow=False, open_page=browse) as connection:
            return [tool["name"] for tool in (await connection.listing()).tools]

    def browse(page: str) -> None:
        Thread(target=ann.open, args=(page,), daemon=True).start()

    with identity_provider("main") as [realm], Person("ann") as ann:
        yield log_in


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize(
    ("server", "target"),
    [
        ("public.test", "company.test"),
        ("public.test", "127.0.0.1"),
        ("public.test", "cloud.test"),
        ("public.test", "both.test"),
        ("company.test", "127.0.0.1"),
        ("company.test", "169.254.169.254"),
        ("company.test", "[fd00:ec2::254]"),
        ("127.0.0.1", "cloud.test"),
    ],
)
def test_a_server_leads_its_login_no_nearer(
    name: str, server: str, target: str, log_in: LogIn, internet: Internet
) -> None:
    """Whichever of its documents names the place: a person named the server, and not what it leads to."""
    with pytest.raises(UpstreamError, match="a host to which it leads may not be asked from here"):
        log_in(server, name, target)
    browser = {"127.0.0.1", server}  # looks names up by itself, and comes back
    assert {*internet.dialled} - browser <= {*internet.resolve(server)}


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize(
    ("server", "target"),
    [("company.test", "company.test"), ("company.test", "colleague.test"), ("public.test", "elsewhere.test")],
)
def test_a_login_may_be_as_far_as_its_server(
    name: str, server: str, target: str, log_in: LogIn, internet: Internet
) -> None:
    """On its own host, in its own kind of network, or on the open internet."""
    assert log_in(server, name, target) == TOOLS
    assert {*internet.resolve(target)} <= set(internet.dialled)


@pytest.mark.parametrize(
    ("host", "target"),
    [
        ("public.test", "company.test"),
        ("public.test", "127.0.0.1"),
        ("public.test", "cloud.test"),
        ("company.test", "cloud.test"),
        ("company.test", "colleague.test"),
        ("public.test", "elsewhere.test"),
    ],
)
def test_an_issuer_of_tokens_leads_its_keys_no_nearer(
    host: str, target: str, internet: Internet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = target not in ("colleague.test", "elsewhere.test")
    certificate = write_certificate(tmp_path / "c.pem", host, target)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with fake_issuer(signer(), tls=context) as fake:
        port = fake.url.rpartition(":")[2]
        fake.url = f"https://{host}:{port}"
        fake.discovery["jwks_uri"] = f"https://{target}:{port}/keys"
        documents = IssuerDocuments(fake.url, "", timeout_s=60.0, max_bytes=10_000)
        if refused:
            with pytest.raises(IssuerUnavailable, match="may not be asked from here"):
                documents.keys()
            assert (fake.fetches, internet.dialled) == (0, internet.resolve(host))
        else:
            assert documents.keys()["keys"]


def test_a_name_that_comes_nearer_is_asked_no_more(internet: Internet) -> None:
    """Between check and dial, and from one request to the next: what was judged is dialled, and nothing nearer."""
    internet.names["public.test"] = [["93.184.216.34"], ["10.1.2.3"]]
    with http_client(httpx2.Client, guard=Guard(httpx2.URL("http://public.test:1/"))) as client:
        with pytest.raises(httpx2.ConnectError):
            client.get("http://public.test:1/a")
        with pytest.raises(NotPublic, match="private or reserved"):
            client.get("http://public.test:1/b")
    assert internet.dialled == ["93.184.216.34"]


@pytest.mark.parametrize(
    ("origin", "asked", "dialled"),
    [
        ("public.test", "company.test", []),
        ("public.test", "both.test", []),
        ("company.test", "colleague.test", ["192.168.7.7"]),
        ("nowhere.test", "company.test", []),
        ("printer.test", "printer.test", ["10.9.9.9"]),
    ],
)
def test_what_the_origin_leads_to_may_be_asked_first(
    origin: str, asked: str, dialled: list[str], internet: Internet
) -> None:
    """As a renewal of a token does: the origin is looked up for it, and counts as far away where it has no address."""
    internet.names |= {"nowhere.test": [[]], "printer.test": [["fe80::1", "10.9.9.9"]]}
    guard = Guard(httpx2.URL(f"http://{origin}:1/"), beyond=Reach.MACHINE)
    with http_client(httpx2.Client, guard=guard) as client, pytest.raises((NotPublic, httpx2.ConnectError)):
        client.get(f"http://{asked}:1/a")
    assert internet.dialled == dialled


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("93.184.216.34", Reach.INTERNET),
        ("10.0.0.1", Reach.NETWORK),
        ("100.64.0.1", Reach.NETWORK),
        ("127.0.0.1", Reach.MACHINE),
        ("0.0.0.0", Reach.MACHINE),  # noqa: S104
        ("::1", Reach.MACHINE),
        ("::ffff:127.0.0.1", Reach.MACHINE),
        ("64:ff9b::7f00:1", Reach.MACHINE),
        ("64:ff9b::5db8:d822", Reach.INTERNET),
        ("fd00::1", Reach.NETWORK),
        ("fd00:ec2::254", Reach.METADATA),
        ("no-address", Reach.METADATA),
    ],
)
def test_how_far_an_address_is(address: str, reach: Reach) -> None:
    assert reach_of(address) is reach
