"""A login by OAuth, end to end: a server that needs a token, an issuer that gives it, a browser that comes back."""

import json
import stat
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import anyio
import pytest
from mcp.client.auth import OAuthClientProvider

from tests.identity_provider import Person, identity_provider
from tests.protected_server import TOOLS, ProtectedServer, protected_server
from tests.upstream.launches import SETTINGS
from waygraph.ingest.logins.oauth import OpenPage, token_file
from waygraph.ingest.manifest.records import HttpLaunch
from waygraph.ingest.upstream.connection import CallConnection
from waygraph.ingest.upstream.open import connect
from waygraph.registry.model.errors import UpstreamRefused
from waygraph.registry.model.settings import Settings

PATIENCE_S = 60.0
LIFETIME_S = 3600
"""Of a token."""


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Each call moves the clock, by which tokens end, beyond the end of all that there are."""
    moved, now = list[float](), time.time
    monkeypatch.setattr(time, "time", lambda: now() + sum(moved))
    return lambda: moved.append(LIFETIME_S + 1)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(SETTINGS, data_dir=str(tmp_path))


@contextmanager
def issuing() -> Iterator[ProtectedServer]:
    with identity_provider("main") as [realm], protected_server(realm) as server:
        yield server


def gifts(server: ProtectedServer) -> int:
    """How often a token was asked for, by a code or for one that has ended."""
    return server.realm.asked.count("token")


def logins(server: ProtectedServer) -> int:
    """How often a person was asked."""
    return server.realm.asked.count("login")


def tools_of(server: ProtectedServer, settings: Settings, open_page: OpenPage | None) -> list[str]:
    async def ask() -> list[str]:
        async with opened(server, settings, open_page) as connection:
            return await tools(connection)

    return anyio.run(ask)


@asynccontextmanager
async def opened(
    server: ProtectedServer, settings: Settings, open_page: OpenPage | None = None
) -> AsyncGenerator[CallConnection]:
    launch = HttpLaunch(url=server.url, oauth=True)
    async with connect(launch, settings, follow=False, open_page=open_page) as connection:
        yield connection


async def tools(connection: CallConnection) -> list[str]:
    return [tool["name"] for tool in (await connection.listing()).tools]


async def closed_amid_a_renewal(server: ProtectedServer, settings: Settings) -> None:
    """The issuer has given the new token, and has not told of it yet."""
    before = gifts(server)

    async def ask() -> None:
        async with opened(server, settings):
            pass

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        with anyio.fail_after(PATIENCE_S):
            while gifts(server) == before:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


def log_in(page: str) -> None:
    """A browser does not keep the one who opens it waiting."""

    def browse() -> None:
        with Person("ann") as ann:
            ann.open(page)

    threading.Thread(target=browse, daemon=True).start()


def test_a_person_logs_in_once(settings: Settings) -> None:
    """The first connection asks; the next one, of another process as it were, has the token from disk."""
    with issuing() as server:
        assert tools_of(server, settings, log_in) == TOOLS
        assert tools_of(server, settings, log_in) == TOOLS
        assert tools_of(server, settings, None) == TOOLS
        assert logins(server) == 1


def test_a_token_that_has_ended_is_renewed_without_a_person(settings: Settings) -> None:
    """Also in another process, which was never told by the server who renews it."""
    with logged_in_once(settings) as server:
        server.realm.tokens.clear()
        assert tools_of(server, settings, None) == TOOLS
        assert logins(server) == 1


def test_the_tokens_are_in_a_file_of_the_owner_alone(settings: Settings) -> None:
    with issuing() as server:
        tools_of(server, settings, log_in)
        path = settings.data_path / "tokens.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert list(json.loads(path.read_text())["servers"]) == [server.url]


def test_a_token_that_the_server_quotes_is_not_told(settings: Settings) -> None:
    with issuing() as server:
        server.quotes_tokens = True
        for open_page in (log_in, None):
            with pytest.raises(UpstreamRefused, match=r"no seat is left for \*\*\*$"):
                tools_of(server, settings, open_page)


def test_where_nobody_can_be_asked_the_server_is_refused(settings: Settings) -> None:
    with issuing() as server, pytest.raises(UpstreamRefused, match="needs a login by OAuth"):
        tools_of(server, settings, None)


def test_what_any_page_sends_to_the_callback_is_not_repeated(settings: Settings) -> None:
    def stray(page: str) -> None:
        back = parse_qs(urlsplit(page).query)["redirect_uri"][0]
        threading.Thread(
            target=lambda: urlopen(f"{back}?error=%1b[2Jall%20is%20well", timeout=10).close(),  # noqa: S310
            daemon=True,
        ).start()

    with issuing() as server, pytest.raises(UpstreamRefused, match=r"the login was refused \(no reason given\)"):
        tools_of(server, settings, stray)


def test_without_oauth_the_refusal_says_what_the_server_offers() -> None:
    async def ask(url: str) -> None:
        async with connect(HttpLaunch(url=url), SETTINGS):
            pass

    with issuing() as server, pytest.raises(UpstreamRefused, match=r"needs a login: .* OAuth.* \(HTTP 401\)"):
        anyio.run(ask, server.url)


def test_two_connections_renew_one_login_in_turn(settings: Settings, later: Callable[[], None]) -> None:
    """Each begins with the token that the other has got, and the issuer never sees an old one again."""

    async def ask(server: ProtectedServer) -> None:
        async with opened(server, settings) as first, opened(server, settings) as second:
            for connection in (first, second, first):
                later()
                assert await tools(connection) == TOOLS

    with issuing() as server:
        tools_of(server, settings, log_in)
        anyio.run(ask, server)
        assert (logins(server), gifts(server)) == (1, 4)


def test_a_token_that_another_process_has_replaced_is_not_held_on_to(settings: Settings) -> None:
    """The server takes the old one no more: the new one is tried, and nobody is asked to log in."""

    async def ask(server: ProtectedServer) -> None:
        async with opened(server, settings) as connection:
            server.realm.tokens.clear()
            await anyio.to_thread.run_sync(renewed_elsewhere, server, settings)
            assert await tools(connection) == TOOLS

    with issuing() as server:
        tools_of(server, settings, log_in)
        anyio.run(ask, server)
        assert (logins(server), gifts(server)) == (1, 2)


@contextmanager
def logged_in_once(settings: Settings) -> Iterator[ProtectedServer]:
    """An issuer whose token is held here, and has ended by the clock."""
    with issuing() as server:
        tools_of(server, settings, log_in)
        token_file(settings.data_path, server.url).keep(expires_at=1.0)
        yield server


def renewed_elsewhere(server: ProtectedServer, settings: Settings) -> None:
    token_file(settings.data_path, server.url).keep(expires_at=1.0)
    assert tools_of(server, settings, None) == TOOLS


def test_a_renewal_is_kept_where_whoever_asked_has_gone(settings: Settings) -> None:
    """The issuer takes the old token no more: without the new one the login were lost."""
    with logged_in_once(settings) as server:
        server.realm.answers_late_s = 0.5
        anyio.run(closed_amid_a_renewal, server, settings)
        assert tools_of(server, settings, None) == TOOLS
        assert (logins(server), gifts(server)) == (1, 2)


def test_a_person_is_asked_once_for_two_connections(settings: Settings) -> None:
    async def ask(server: ProtectedServer) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(one, server)

    async def one(server: ProtectedServer) -> None:
        async with opened(server, settings, log_in) as connection:
            assert await tools(connection) == TOOLS

    with issuing() as server:
        anyio.run(ask, server)
        assert logins(server) == 1


@pytest.mark.parametrize(
    "name",
    ["_auth_flow", "_initialize", "_handle_refresh_response", "_perform_authorization_code_grant", "_refresh_token"],
)
def test_mcp_has_the_private_methods_of_the_login(name: str) -> None:
    assert callable(getattr(OAuthClientProvider, name, None)), f"`mcp` has no `OAuthClientProvider.{name}` any more"
