"""A login by OAuth, end to end: a server that needs a token, an issuer that gives it, a browser that comes back."""

import json
import stat
import threading
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import anyio
import pytest

from tests.upstream.issuer import Issuer, issuing
from tests.upstream.launches import SETTINGS
from waygraph.ingest.upstream.launch import HttpLaunch
from waygraph.ingest.upstream.oauth import OpenPage
from waygraph.ingest.upstream.opening import connect
from waygraph.ingest.upstream.tokens import token_file
from waygraph.registry.errors import UpstreamRefused, UpstreamUnreachable
from waygraph.registry.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(SETTINGS, data_dir=str(tmp_path))


def tools_of(issuer: Issuer, settings: Settings, open_page: OpenPage | None) -> list[str]:
    async def ask() -> list[str]:
        launch = HttpLaunch(url=issuer.served.url, oauth=True)
        async with connect(launch, settings, follow=False, open_page=open_page) as connection:
            return [tool["name"] for tool in (await connection.listing()).tools]

    return anyio.run(ask)


def in_a_thread(issuer: Issuer) -> OpenPage:
    """A browser does not keep the one who opens it waiting."""
    return lambda page: threading.Thread(target=issuer.browser, args=(page,), daemon=True).start()


def test_a_person_logs_in_once(settings: Settings) -> None:
    """The first connection asks; the next one, of another process as it were, has the token from disk."""
    with issuing() as issuer:
        assert tools_of(issuer, settings, in_a_thread(issuer)) == ["alpha"]
        assert tools_of(issuer, settings, in_a_thread(issuer)) == ["alpha"]
        assert tools_of(issuer, settings, None) == ["alpha"]
        assert len(issuer.pages) == 1


def test_a_token_that_has_ended_is_renewed_without_a_person(settings: Settings) -> None:
    """Also in another process, which was never told by the server who renews it."""
    with issuing() as issuer:
        tools_of(issuer, settings, in_a_thread(issuer))
        token_file(settings.data_path, issuer.served.url).keep(expires_at=1.0)
        issuer.tokens.clear()
        assert tools_of(issuer, settings, None) == ["alpha"]
        assert len(issuer.pages) == 1


def test_the_tokens_are_in_a_file_of_the_owner_alone(settings: Settings) -> None:
    with issuing() as issuer:
        tools_of(issuer, settings, in_a_thread(issuer))
        path = settings.data_path / "tokens.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert list(json.loads(path.read_text())["servers"]) == [issuer.served.url]


def test_a_token_that_the_server_quotes_is_not_told(settings: Settings) -> None:
    """Neither the one that was just given, nor one from disk."""
    with issuing() as issuer:
        issuer.repeats_tokens = True
        for open_page in (in_a_thread(issuer), None):
            with pytest.raises(UpstreamRefused, match=r"no seat is left for \*\*\*$"):
                tools_of(issuer, settings, open_page)


def test_where_nobody_can_be_asked_the_server_is_refused(settings: Settings) -> None:
    with issuing() as issuer, pytest.raises(UpstreamRefused, match="needs a login by OAuth"):
        tools_of(issuer, settings, None)


def test_a_login_that_is_refused_says_so(settings: Settings) -> None:
    with issuing() as issuer:
        issuer.refuses_login = True
        with pytest.raises(UpstreamRefused, match=r"the login was refused \(access_denied\)"):
            tools_of(issuer, settings, in_a_thread(issuer))


def test_what_any_page_sends_to_the_callback_is_not_repeated(settings: Settings) -> None:
    """No text for a terminal, or for whoever reads a status."""

    def stray(page: str) -> None:
        back = parse_qs(urlsplit(page).query)["redirect_uri"][0]
        threading.Thread(
            target=lambda: urlopen(f"{back}?error=%1b[2Jall%20is%20well", timeout=10).close(),  # noqa: S310
            daemon=True,
        ).start()

    with issuing() as issuer, pytest.raises(UpstreamRefused, match=r"the login was refused \(no reason given\)"):
        tools_of(issuer, settings, stray)


def test_nobody_who_logs_in_is_not_waited_for_forever(settings: Settings) -> None:
    with issuing() as issuer, pytest.raises(UpstreamUnreachable, match=r"nobody logged in within 0\.2 s"):
        tools_of(issuer, replace(settings, upstream_login_timeout_s=0.2), lambda _: None)


def test_without_oauth_the_refusal_says_what_the_server_offers() -> None:
    async def ask(url: str) -> None:
        async with connect(HttpLaunch(url=url), SETTINGS):
            pass

    with issuing() as issuer, pytest.raises(UpstreamRefused, match=r"needs a login: .* OAuth.* \(HTTP 401\)"):
        anyio.run(ask, issuer.served.url)
