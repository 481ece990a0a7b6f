"""Who may begin a login, what its cookie is good for, and which answers of an issuer are taken."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.shared.auth import ProtectedResourceMetadata
from pydantic import AnyHttpUrl

from tests.gateway.test_login_pages import World, leave, log_in_by_browser, prove, seal_browser, world
from tests.identity_provider import Person
from waygraph.api.rest.routes.login_pages import Browser
from waygraph.ingest.logins.oauth import refuse_nameless_issuer
from waygraph.registry.access.visibility import SCOPES, Caller
from waygraph.registry.model.errors import UpstreamRefused

pytestmark = pytest.mark.attack
SCOPES_ALONE = sorted({*SCOPES} - {"use"})
"""Of a key that calls no tool."""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch, world(tmp_path_factory.mktemp("doors"), patch) as found:
        yield found


def cookie_of(person: Person) -> Any:
    [cookie] = [each for each in person.browser.cookies.jar if "waygraph-login" in each.name]
    return cookie


@pytest.mark.parametrize("scope", SCOPES_ALONE)
def test_a_key_that_calls_nothing_begins_no_login(here: World, scope: str) -> None:
    """Nor does it forget one, or come back as somebody: its browser stays that of nobody."""
    key, user = here.service.key(scope), here.key()
    with Person("eve") as eve, Person("ann") as ann:
        log_in_by_browser(ann, here.page, user)
        assert prove(eve, here.page, key).status_code == 403
        for do in ("begin", "key", "forget"):
            assert eve.submit(eve.open(here.page), do=do).status_code == 403
        assert eve.open(f"{here.page}/callback?code=a&state=b").status_code == 403
    assert here.acts_as(user) == "ann@office"
    here.file.forget()


@pytest.mark.parametrize("scope", SCOPES_ALONE)
def test_a_cookie_of_such_a_key_is_good_for_nothing(here: World, scope: str) -> None:
    """As one is that was sealed before the key's scopes were looked at."""
    caller = Caller(id=f"key:{here.service.key(scope).split('_')[1]}", scopes=frozenset(), principal=None)
    with Person("eve") as eve:
        eve.browser.cookies.set(f"waygraph-login-{here.service.port}", sealed(here, caller, here.service.url))
        assert "Who are you?" in eve.open(here.page).text


def sealed(here: World, caller: Caller, site: str) -> str:
    return seal_browser(here.file, Browser(caller=caller), site)


def test_a_cookie_is_named_after_its_port_and_kept_to_these_pages(here: World) -> None:
    with Person("ann") as ann:
        prove(ann, here.page, here.key())
        cookie = cookie_of(ann)
        assert (cookie.name, cookie.path) == (f"waygraph-login-{here.service.port}", "/login")
        line = ann.open(here.page).headers["set-cookie"].lower()
        assert {"httponly", "samesite=lax"} <= {part.strip() for part in line.split(";")}
        assert "domain" not in line, "no neighbour below this host gets it"


@pytest.mark.parametrize("site", ["http://127.0.0.1:1", "https://127.0.0.1", "http://localhost:{port}", ""])
def test_a_cookie_of_another_origin_is_none(here: World, site: str) -> None:
    """Such as of another service of the same key, to which a browser sends it as well."""
    caller = Caller(id=f"key:{here.key().split('_')[1]}", scopes=frozenset({"use"}), principal=None)
    with Person("eve") as eve:
        value = sealed(here, caller, site.format(port=here.service.port))
        eve.browser.cookies.set(f"waygraph-login-{here.service.port}", value)
        assert "Who are you?" in eve.open(here.page).text


def test_of_two_cookies_of_one_name_none_is_believed(here: World) -> None:
    with Person("ann") as ann:
        prove(ann, here.page, here.key())
        mine = cookie_of(ann)
        planted = sealed(here, Caller(id="key:other", scopes=frozenset(), principal=None), here.service.url)
        for pair in ([mine.value, planted], [planted, mine.value]):
            both = "; ".join(f"{mine.name}={value}" for value in pair)
            answer = httpx2.get(here.page, headers={"cookie": both})
            assert (answer.status_code, "two cookies" in answer.text) == (403, True)
        same = f"{mine.name}={mine.value}; other=1; {mine.name}={mine.value}"
        assert httpx2.get(here.page, headers={"cookie": same}).status_code == 200


@pytest.mark.parametrize("name", ["code", "state", "iss"])
def test_an_answer_that_says_a_thing_twice_is_refused(here: World, name: str) -> None:
    with Person("ann") as ann:
        page = leave(ann, prove(ann, here.page, here.key()))
        back = ann.open(page, until=here.page).headers["location"]
        before = here.office.asked.count("token")
        assert ann.open(f"{back}&{name}=another").status_code == 403
        assert ann.open(re.sub(rf"([?&]){name}=", rf"\g<1>{name}=another&{name}=", back)).status_code == 403
        assert here.office.asked.count("token") == before
    here.file.forget()


@pytest.mark.parametrize("iss", ["https://other.example", "", None])
def test_the_gateways_own_issuer_says_who_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, iss: str | None
) -> None:
    """It promises `iss` in its metadata: a code without it, or with another one, is redeemed nowhere."""
    issuer: dict[str, Any] = {
        "oidc_issuer": lambda main: main.issuer,
        "oidc_audience": "https://gateway.example/mcp",
        "oidc_client_id": "pages",
    }
    with world(tmp_path, monkeypatch, **issuer) as here, Person("ann") as ann:
        way_home = f"{here.service.url}/login"
        client = {"client_id": "pages", "redirect_uris": [way_home], "token_endpoint_auth_method": "none"}
        here.main.clients["pages"] = client

        def come_back(**changed: str | None) -> int:
            led = ann.submit(ann.open(here.page), do="issuer")
            page = unescape(re.findall(r'content="0;url=([^"]+)"', led.text)[0])
            back = httpx2.URL(ann.open(page, until=way_home).headers["location"])
            told = {name: value for name, value in {**back.params, **changed}.items() if value is not None}
            return ann.open(str(back.copy_with(params=told))).status_code

        assert come_back(iss=iss) == 403
        assert here.main.asked.count("token") == 0
        if iss is None:  # of an issuer that does not say so nothing is expected
            here.main.said["authorization_response_iss_parameter_supported"] = ""
            assert come_back(iss=None) == 200


ISSUERS = [
    ["https://a.example"],
    ["https://a.example", "https://a.example"],
    ["https://a.example", "https://b.example"],
]


@pytest.mark.parametrize("named", ISSUERS)
@pytest.mark.parametrize("iss", ["https://a.example", None])
def test_of_several_issuers_a_code_says_whose_it_is(named: list[str], iss: str | None) -> None:
    resource = ProtectedResourceMetadata(
        resource=AnyHttpUrl("https://s.example"), authorization_servers=[AnyHttpUrl(each) for each in named]
    )
    if iss is None and len({*named}) > 1:
        with pytest.raises(UpstreamRefused, match="several issuers"):
            refuse_nameless_issuer(iss, resource)
    else:
        refuse_nameless_issuer(iss, resource)
        refuse_nameless_issuer(iss, None)


@pytest.mark.parametrize(
    "ends", [10**400, -(10**400), True, "soon", [60], None, 1e300, "9" * 5_000], ids=lambda value: str(value)[:12]
)
def test_a_token_without_a_sound_end_is_used_until_it_is_refused(here: World, ends: object) -> None:
    """What its issuer says costs neither the login, nor any other one."""
    key = here.key()
    here.office.told_of_tokens["expires_in"] = ends
    try:
        with Person("ann") as ann:
            assert "You are logged in" in log_in_by_browser(ann, here.page, key).text
        assert here.acts_as(key) == "ann@office"
        [login] = here.file.list()
        assert here.file.open(login)["expires_at"] is None
    finally:
        here.office.told_of_tokens.clear()
        here.file.forget()
