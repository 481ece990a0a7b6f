"""Two people at one gateway, a real process: their hosts log them in, and neither ever acts as the other.

Behind the gateway are MCP servers that take the tokens of realms of their own alone.
"""

import base64
import json
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from html import unescape
from pathlib import Path
from typing import Any

import anyio
import httpx2
import jwt
import pytest
from mcp import Client
from mcp.types import TextResourceContents

from tests.gateway.hosts import ERAS, Era, Place, error_of, ingest
from tests.gateway.login_hosts import LoginHost, client_document
from tests.identity_provider import Person, Realm, identity_provider, password
from tests.protected_server import ProtectedServer, protected_server
from tests.service import Running, listen, process
from tests.upstream.launches import SETTINGS
from waygraph.ingest.manifest.records import HttpLaunch
from waygraph.ingest.upstream.open import connect

LOGIN_KEY = base64.b64encode(b"k" * 32).decode()
SERVICES = """
[[login]]
agent = "one"
by = "oauth"

[[login]]
agent = "two"
by = "exchange"
token_endpoint = "{issuer}/token"
client_id = "gateway"
client_secret = "${{EXCHANGE_SECRET}}"
resource = "{resource}"
"""


@dataclass
class World:
    """`main` is the gateway's realm. `shared`: a server where the operator has logged in for all; `one`: where each
    person does, by OAuth; `two`: to which the gateway comes with an exchanged token.
    """

    folder: Path
    port: int
    main: Realm
    servers: dict[str, ProtectedServer]
    secret: str
    """Of the gateway as a client that exchanges tokens."""
    document: str
    """By which a host names itself."""
    realms: list[Realm]
    people: dict[str, Person]
    logs: list[str] = field(default_factory=list)
    """What each process said."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def environ(self) -> Mapping[str, str]:
        return {
            "WAYGRAPH_DATA_DIR": str(self.folder / "data"),
            "WAYGRAPH_AUDIT_FILE": str(self.folder / "audit.jsonl"),
            "WAYGRAPH_LOG_LEVEL": "debug",
            "WAYGRAPH_OIDC_ISSUER": self.main.issuer,
            "WAYGRAPH_OIDC_AUDIENCE": self.url,
            "WAYGRAPH_SERVICES_FILE": str(self.folder / "services.toml"),
            "WAYGRAPH_LOGIN_KEY": LOGIN_KEY,
            "EXCHANGE_SECRET": self.secret,
            "WAYGRAPH_OIDC_CLIENT_ID": "pages",
            "WAYGRAPH_OIDC_CLIENT_SECRET": self.main.clients["pages"]["client_secret"],
        }

    @contextmanager
    def gateway(self, *options: str) -> Iterator[Running]:
        """The service as a process, always at the same address."""
        place = self.folder / "r.grafeo"
        with process(place, self.folder, "--port", str(self.port), *options, environ=self.environ()) as running:
            try:
                yield running
            finally:
                self.logs.append(running.told)

    def host(self, name: str) -> LoginHost:
        """Of ann registers; of bob names itself by a document."""
        return LoginHost(self.url, self.people[name], self.document if name == "bob" else None)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with ExitStack() as stack:
        document, trusts = stack.enter_context(client_document(tmp_path))
        main, office, ours = realms = stack.enter_context(identity_provider("main", "office", "ours"))
        main.documents = trusts
        for realm in realms:
            realm.people["operator"] = {}
        known_at = {"shared": office, "one": ours, "two": main}
        servers = {name: stack.enter_context(protected_server(realm)) for name, realm in known_at.items()}
        people = {name: stack.enter_context(Person(name)) for name in ("ann", "bob", "operator")}
        with listen() as listener:
            port = listener.getsockname()[1]
        main.add_client("pages", f"http://127.0.0.1:{port}/login")
        secret = main.add_client("gateway")
        made = World(tmp_path, port, main, servers, secret=secret, document=document, realms=realms, people=people)
        main.may_exchange.add(("gateway", made.url, servers["two"].url))
        (tmp_path / "services.toml").write_text(SERVICES.format(issuer=main.issuer, resource=servers["two"].url))
        for name, value in made.environ().items():
            monkeypatch.setenv(name, value)
        for server in servers.values():
            operator_login(made, server)
        entries = {name: {"type": "http", "url": server.url, "oauth": True} for name, server in servers.items()}
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
        assert ingest(Place(tmp_path), str(tmp_path / "mcp.json")) == 0
        for server in servers.values():
            server.headers.clear()
        yield made


def operator_login(world: World, server: ProtectedServer) -> None:
    """As `waygraph ingest --oauth` does it in a terminal."""

    def browse(page: str) -> None:
        threading.Thread(target=world.people["operator"].open, args=(page,), daemon=True).start()

    async def ask() -> None:
        settings = replace(SETTINGS, data_dir=str(world.folder / "data"))
        launch = HttpLaunch(url=server.url, oauth=True)
        async with connect(launch, settings, follow=False, open_page=browse) as connection:
            await connection.listing()

    anyio.run(ask)


async def use(client: Client, tool: str, **params: Any) -> str:
    result = await client.call_tool("use_tool", {"name": tool, "params": params})
    assert not result.is_error, result.content
    assert result.content[-1].type == "text"
    return result.content[-1].text


KNOWN_AT = {"one": "ours", "two": "main"}
"""Servers where each person is known, and the realms."""


async def one_round(client: Client, server: str, name: str, number: int) -> None:
    """All that a person hears there is theirs alone."""
    assert await use(client, f"{server}__whoami", wait_s=0.01 * (number % 3)) == f"{name}@{KNOWN_AT[server]}"
    assert await use(client, f"{server}__remember", text=f"note {number} of {name}") == "kept"
    assert await use(client, f"{server}__recall") == f"note {number} of {name}"
    [content] = (await client.read_resource(f"waygraph://agents/{server}/note://mine")).contents
    assert isinstance(content, TextResourceContents)
    assert content.text == f"note {number} of {name}"


async def rounds(hosts: Iterable[LoginHost], era: Era, times: int = 4) -> None:
    """All at once: every person at every server, over one session each."""

    async def person(host: LoginHost) -> None:
        async with host.connected(era) as client, anyio.create_task_group() as tasks:
            for server in KNOWN_AT:
                tasks.start_soon(at_server, client, server, host.person.name)

    async def at_server(client: Client, server: str, name: str) -> None:
        for number in range(times):
            await one_round(client, server, name, number)

    async with anyio.create_task_group() as tasks:
        for host in hosts:
            tasks.start_soon(person, host)


async def page_to_log_in(host: LoginHost) -> str:
    """That the gateway names when nobody can be led there."""
    async with host.connected() as client:
        error = error_of(await client.call_tool("use_tool", {"name": "one__whoami", "params": {}}))
    assert error["code"] == "needs-login"
    return str(error["page"])


def log_in(person: Person, page: str) -> None:
    """The person shows at the gateway's issuer who they are, and then at the server's."""
    shown = person.open(led_to(person.submit(person.open(page), do="issuer")))
    assert f"oidc:{person.name}@main" in shown.text
    done = person.open(led_to(person.submit(shown, do="begin")))
    assert "You are logged in" in done.text


def led_to(shown: httpx2.Response) -> str:
    found = re.search('content="0;url=([^"]+)"', shown.text)
    assert found, shown.text
    return unescape(found[1])


@pytest.mark.parametrize("workers", ["1", "2"])
def test_each_acts_as_oneself(world: World, workers: str) -> None:
    """By a login of one's own and by token exchange; after a restart; and when one of two logins has ended."""
    ours = world.servers["one"].realm
    ann, bob = hosts = world.host("ann"), world.host("bob")
    with world.gateway("--workers", workers):
        for host in hosts:
            log_in(host.person, anyio.run(page_to_log_in, host))
        for era in ERAS:
            anyio.run(rounds, hosts, era)
    with world.gateway("--workers", workers):
        anyio.run(rounds, hosts, "auto")
        assert (ours.count("issued", "ann"), ours.count("issued", "bob")) == (1, 1)
        ours.end_logins("bob")
        page = anyio.run(page_to_log_in, bob)
        anyio.run(rounds, [ann], "auto")
        log_in(bob.person, page)
        assert "logged out" in ann.person.submit(ann.person.open(page), do="forget").text
        anyio.run(rounds, [bob], "auto")
        assert anyio.run(page_to_log_in, ann) == page
    assert_no_token_passed_on(world, *hosts)
    assert_no_secret_left(world)


async def test_hosts_renew_their_tokens_while_they_are_connected(world: World) -> None:
    """What was exchanged for the old one is not used for the new one, and still it is the same person."""
    world.main.lifetime_s = 1  # for hosts, who renew in good time: each token is good for longer
    for claims in world.main.people.values():
        claims["exp"] = int(time.time()) + 3600
    hosts = world.host("ann"), world.host("bob")

    async def person(host: LoginHost) -> None:
        name = host.person.name
        async with host.connected() as client:
            with anyio.fail_after(60):
                while world.main.count("refreshed", name) < 2:
                    assert await use(client, "two__whoami", wait_s=0.2) == f"{name}@main"

    with world.gateway():
        async with anyio.create_task_group() as tasks:
            for host in hosts:
                tasks.start_soon(person, host)
    assert world.main.count("reused") == 0
    assert world.main.count("exchanged") >= 4
    assert_no_token_passed_on(world, *hosts)


def assert_no_token_passed_on(world: World, *hosts: LoginHost) -> None:
    """What servers heard were tokens of their own realm, for them, and of whom they should be."""
    for name, server in world.servers.items():
        for heard in server.authorizations:
            told = jwt.decode(heard.removeprefix("Bearer "), options={"verify_signature": False})
            assert (told["iss"], told["aud"]) == (server.realm.issuer, server.url)
            assert (told["sub"] == server.realm.subject("operator")) == (name == "shared")
        assert not any(host.token in str(server.headers) for host in hosts)


def assert_no_secret_left(world: World) -> None:
    """In no log and no file, as raw bytes, but in the operator's own file of tokens."""
    secrets = (
        [secret for realm in world.realms for secret in realm.secrets]
        + [password(name) for name in world.people]
        + [LOGIN_KEY]
    )
    kept = {path.name: path.read_bytes() for path in world.folder.rglob("*") if path.is_file()}
    kept["logs"] = "".join(world.logs).encode()
    found = {where for where, content in kept.items() if any(secret.encode() in content for secret in secrets)}
    assert found == {"tokens.json"}
    assert "audit.jsonl" in kept
