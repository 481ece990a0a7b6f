"""Sessions of the explorer: a cookie stands for a key or a token, and for nothing more."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from tests.identity_provider import Person, Realm, identity_provider
from tests.own_logins import KEY
from tests.service import Served, agent, assert_good, assert_problem, ingest, process, served, until
from waygraph.api.rest import bootstrap
from waygraph.api.rest.browser_sessions import BrowserSession, BrowserSessions, cookie_name
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.model.errors import NotAllowed, NotAuthenticated, TooManyRequests
from waygraph.registry.model.settings import Settings

MARK = "X-CSRF-Token"
PIN = {"pinned": True}
FROM_ELSEWHERE = {"Sec-Fetch-Site": "cross-site"}


@pytest.fixture
def here(guarded: Served) -> Served:
    ingest(guarded.admin(), "s", agent("open", "look"), agent("secret", "peek", visible_to=["crew"]))
    return guarded


def log_in(service: Served, key: str) -> tuple[httpx2.Client, dict[str, str]]:
    """A browser with a session, and the header that the pages send with each request."""
    browser = service.client()
    answer = assert_good(browser.post("/explore/session", json={"secret": key}))
    return browser, {MARK: answer["csrf"]}


def agents_of(browser: httpx2.Client) -> list[str]:
    return [each["id"] for each in assert_good(browser.get("/v1/agents"))["agents"]]


def is_pinned(service: Served) -> bool:
    return service.registry.agent("open").pinned


def test_a_session_may_what_its_key_may(here: Served) -> None:
    browser, mark = log_in(here, here.key("route", "read", groups=("crew",)))
    other, _ = log_in(here, here.key("read"))
    assert agents_of(browser) == ["open", "secret"]
    assert agents_of(other) == ["open"]
    assert_problem(browser.patch("/v1/agents/open", json=PIN, headers=mark), 403, NotAllowed)
    shown = assert_good(browser.get("/explore/session", headers=mark))
    assert (shown["known"], shown["scopes"], shown["sees_all"], shown["csrf"]) == (True, ["route", "read"], False, "")


def test_the_cookie_is_kept_from_scripts_and_from_other_sites(here: Served) -> None:
    told = here.client().post("/explore/session", json={"secret": here.key()}).headers["set-cookie"]
    assert told.startswith(f"waygraph-{here.port}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(told.split("; "))
    assert cookie_name("waygraph", "https://waygraph.example") == "__Host-waygraph"


def test_over_https_the_cookie_is_of_this_host_alone(tmp_path: Path) -> None:
    with served(auth=True, folder=tmp_path, settings=Settings(public_url="https://waygraph.example")) as service:
        told = service.client().post("/explore/session", json={"secret": service.key()}).headers["set-cookie"]
    assert told.startswith("__Host-waygraph=")
    assert "Secure" in told.split("; ")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {MARK: ""},
        {MARK: "0" * 64},
        {"Content-Type": "text/plain"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_page_of_elsewhere_changes_nothing(here: Served, headers: dict[str, str]) -> None:
    """Also where it stands on another port of this host, so that the browser sends the cookie along."""
    browser, mark = log_in(here, here.key(everything=True))
    marked = mark if "Sec-Fetch-Site" in headers else {}
    body = json.dumps(PIN)
    answer = browser.patch(
        "/v1/agents/open", content=body, headers={"Content-Type": "application/json", **marked, **headers}
    )
    assert_problem(answer, 403, NotAllowed)
    assert not is_pinned(here)
    assert_good(browser.patch("/v1/agents/open", json=PIN, headers={**mark, "Sec-Fetch-Site": "same-origin"}))
    assert is_pinned(here)


def test_a_mark_is_of_one_session(here: Served) -> None:
    key = here.key(everything=True)
    (browser, _), (_, mark) = log_in(here, key), log_in(here, key)
    assert_problem(browser.patch("/v1/agents/open", json=PIN, headers=mark), 403, NotAllowed)
    assert assert_good(browser.get("/explore/session", headers=mark))["known"] is False


def test_no_form_logs_anybody_in(here: Served) -> None:
    """Else somebody would find themselves in the session of another one."""
    key = here.key()
    json_type = {"Content-Type": "application/json"}
    for headers in ({"Content-Type": "text/plain"}, json_type | {"Sec-Fetch-Site": "cross-site"}):
        answer = here.client().post("/explore/session", content=json.dumps({"secret": key}), headers=headers)
        assert answer.status_code in (401, 403)
        assert "set-cookie" not in answer.headers


def test_a_key_that_is_revoked_ends_its_sessions(here: Served) -> None:
    assert here.keys
    key, text = here.keys.create("one", ["read"])
    browser, mark = log_in(here, text)
    assert agents_of(browser) == ["open"]
    here.keys.revoke(key.id)
    assert_problem(browser.get("/v1/agents"), 401, NotAuthenticated)
    answer = browser.get("/explore/session", headers=mark)
    assert assert_good(answer)["known"] is False
    assert "Max-Age=0" in answer.headers["set-cookie"]


def test_who_logs_out_is_a_stranger(here: Served) -> None:
    browser, mark = log_in(here, here.key())
    cookies = dict(browser.cookies)
    assert_problem(browser.delete("/explore/session", headers={**mark, **FROM_ELSEWHERE}), 403, NotAllowed)
    assert assert_good(browser.delete("/explore/session", headers=mark))["known"] is False
    assert cookies
    assert not browser.cookies
    assert_problem(browser.get("/v1/agents"), 401, NotAuthenticated)


def test_who_has_lost_the_mark_can_log_in_and_out(here: Served) -> None:
    """Also while the cookie stands for a key that is good no more. A page of elsewhere can do neither."""
    assert here.keys
    key, text = here.keys.create("one", ["read"])
    browser, _ = log_in(here, text)
    here.keys.revoke(key.id)
    other = {"secret": here.key(everything=True)}
    assert_problem(browser.post("/explore/session", json=other, headers=FROM_ELSEWHERE), 403, NotAllowed)
    mark = {MARK: assert_good(browser.post("/explore/session", json=other))["csrf"]}
    assert_good(browser.patch("/v1/agents/open", json=PIN, headers=mark))
    assert assert_good(browser.delete("/explore/session"))["known"] is False
    assert not browser.cookies


def changes(client: httpx2.Client, **headers: str) -> list[int]:
    """The states of changes without a body, and with one that a form could send."""
    asked = [("POST", "/v1/sources/s/sync"), ("DELETE", "/v1/agents/open"), ("POST", "/v1/tools/open/look/call")]
    return [client.request(method, path, headers=headers).status_code for method, path in asked]


def test_no_page_of_elsewhere_changes_anything_where_nobody_is_asked(tmp_path: Path) -> None:
    """A program says nothing of a site, and a page of a welcome origin may."""
    settings = Settings(data_dir=str(tmp_path), cors_origins="https://page.example")
    with served(settings=settings) as service:
        client = service.client()
        ingest(client, "s", agent("open", "look"))
        for site in ("same-site", "cross-site"):
            for origin in ("", "https://evil.example", "null"):
                assert changes(client, **{"Sec-Fetch-Site": site, "Origin": origin}) == [403, 403, 403]
        key = {"name": "one", "scopes": ["read"]}
        assert_problem(client.post("/v1/keys", json=key, headers=FROM_ELSEWHERE), 403, NotAllowed)
        welcome = {"Sec-Fetch-Site": "cross-site", "Origin": "https://page.example"}
        assert 403 not in changes(client, **welcome)
        ingest(client, "s", agent("open", "look"))
        assert 403 not in changes(client, **{"Sec-Fetch-Site": "none"})
        assert 403 not in changes(client)


def cookie_for(settings: Settings, name: str, port: int, secret: str) -> str:
    """A cookie that another service made, under the name that it has at this port."""
    with served(auth=True, folder=Path(settings.data_dir), settings=settings) as other:
        browser = other.client()
        browser.post("/explore/session", json={"secret": secret})
        [value] = dict(browser.cookies).values()
    return f"{name}-{port}={value}"


@pytest.mark.parametrize("login_key", ["", KEY], ids=["random key", "one login key"])
def test_a_cookie_of_another_service_is_nothing_here(tmp_path: Path, login_key: str) -> None:
    """On another port, or another run of this one: also where both have one key of logins and the same API keys."""
    settings = Settings(data_dir=str(tmp_path), login_key=login_key)
    key = KeyFile(tmp_path / "keys.json").create("k", ["read"])[1]
    with served(auth=True, folder=tmp_path, settings=settings) as service:
        cookie = cookie_for(settings, "waygraph", service.port, key)
        answer = service.client().get("/v1/agents", headers={"Cookie": cookie})
        assert_problem(answer, 401, NotAuthenticated)


def test_two_cookies_of_one_name_are_refused(here: Served) -> None:
    """A neighbour below this host may have set one."""
    browser, _ = log_in(here, here.key())
    [(name, value)] = dict(browser.cookies).items()
    answer = here.client().get("/v1/agents", headers={"Cookie": f"{name}={value}; {name}=other"})
    assert_problem(answer, 403, NotAllowed)


def test_a_key_that_is_shown_counts_and_no_cookie(here: Served) -> None:
    browser, _ = log_in(here, here.key("read", groups=("crew",)))
    shown = {"Authorization": f"Bearer {here.key('read')}"}
    assert [each["id"] for each in browser.get("/v1/agents", headers=shown).json()["agents"]] == ["open"]
    assert_good(browser.get("/v1/agents", headers={"X-API-Key": here.key("read")}))


def test_a_cookie_opens_no_door_of_mcp(here: Served) -> None:
    browser, mark = log_in(here, here.key(everything=True))
    assert_problem(browser.post("/mcp", json={}, headers=mark), 401, NotAuthenticated)


def test_a_key_of_a_toolset_has_no_session(here: Served) -> None:
    here.registry.operator.set_toolset("some", agents=["open"])
    answer = here.client().post("/explore/session", json={"secret": here.key("route", "use", toolset="some")})
    assert_problem(answer, 403, NotAllowed)
    assert "set-cookie" not in answer.headers


def test_guesses_are_slowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "FAILURES_BURST", 3)
    settings = Settings(failures_per_minute=1.0)
    with served(auth=True, folder=tmp_path, settings=settings) as service:
        client, key = service.client(), service.key()
        answers = [client.post("/explore/session", json={"secret": f"wg_{number}"}) for number in range(4)]
        assert [each.status_code for each in answers] == [401, 401, 401, 429]
        assert_problem(answers[3], 429, TooManyRequests)
        assert_good(client.post("/explore/session", json={"secret": key}))


def test_what_a_body_may_hold_is_little(here: Served) -> None:
    assert here.client().post("/explore/session", json={"secret": "x" * 20_000}).status_code == 413


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b"nonsense", b'{"secret": null}', '{"secret": "\\ud800 é\\n"}'.encode()]
)
def test_what_is_no_login_is_refused(here: Served, body: bytes) -> None:
    answer = here.client().post("/explore/session", content=body, headers={"Content-Type": "application/json"})
    assert_problem(answer, 401, NotAuthenticated)


def test_logins_are_in_the_audit_and_secrets_in_no_log(here: Served) -> None:
    key = here.key(everything=True)
    browser, mark = log_in(here, key)
    here.client().post("/explore/session", json={"secret": "wg_000000000000_guessed-secret-guessed-secret"})
    browser.delete("/explore/session", headers=mark)
    lines = [line for line in map(json.loads, here.log.splitlines()) if line.get("target") == "explorer"]
    assert [(line["action"], line["outcome"]) for line in lines] == [
        ("login", "ok"),
        ("login", "refused"),
        ("logout", "ok"),
    ]
    for secret in (key, key.rpartition("_")[2], "guessed-secret", mark[MARK], *dict(browser.cookies).values()):
        assert secret not in here.log


def test_without_authentication_everybody_is_known(blank: Served) -> None:
    told = assert_good(blank.client().get("/explore/session"))
    assert (told["known"], told["asks"], told["local"], told["sees_all"]) == (True, False, True, True)
    ingest(blank.client(), "s", agent("a"))
    assert_good(blank.client().patch("/v1/agents/a", json=PIN))


def test_workers_share_their_sessions(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    keys.create("one", ["read"])
    with process(tmp_path / "r.grafeo", tmp_path, "--workers", "2", keys=keys) as running:
        ingest(running.admin(), "s", agent("a"))
        key = running.key("read")
        with running.client() as browser:
            assert_good(browser.post("/explore/session", json={"secret": key}))
            cookies = dict(browser.cookies)
        for _ in range(12):  # each over a connection of its own, which either worker takes
            with httpx2.Client(base_url=running.url, cookies=cookies) as client:
                assert_good(client.get("/v1/agents"))


def test_an_invitation_is_of_one_browser() -> None:
    """It is told each time, and whether it is another browser that shows it again."""
    sessions, shown = BrowserSessions(Settings()), list[bool]()
    text = sessions.invite("secret", shown.append)
    assert (sessions.redeem(text, None), shown) == ("secret", [False])
    assert (sessions.redeem(text, BrowserSession(secret="secret")), shown) == ("secret", [False])  # noqa: S106
    assert (sessions.redeem(text, BrowserSession(secret="other")), shown) == (text, [False, True])  # noqa: S106
    assert (sessions.redeem("another", None), shown) == ("another", [False, True])


def test_an_invitation_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions, shown = BrowserSessions(Settings()), list[bool]()
    text = sessions.invite("secret", shown.append)
    later_s = time.monotonic() + 61
    monkeypatch.setattr("waygraph.api.rest.browser_sessions.time.monotonic", lambda: later_s)
    assert (sessions.redeem(text, None), shown) == (text, [])


@contextmanager
def by_issuer(tmp_path: Path) -> Iterator[tuple[Served, Realm]]:
    with identity_provider("main") as [main], pytest.MonkeyPatch.context() as patch:
        patch.setattr("waygraph.registry.access.oidc.LEEWAY_S", 0)
        settings = Settings(oidc_issuer=main.issuer, oidc_audience="https://registry.example", oidc_client_id="pages")
        with served(auth=True, folder=tmp_path, settings=replace(settings, data_dir=str(tmp_path))) as service:
            main.clients["pages"] = {
                "client_id": "pages",
                "redirect_uris": [f"{service.url}/explore/login/callback"],
                "token_endpoint_auth_method": "none",
            }
            ingest(service.admin(), "s", agent("open", "look"))
            yield service, main


def come_back(service: Served, person: Person) -> httpx2.Response:
    """The redirect by which the issuer sends the browser back."""
    return person.open(f"{service.url}/explore/login", until=f"{service.url}/explore/login/callback")


def test_a_person_logs_in_at_the_operators_issuer(tmp_path: Path) -> None:
    """The session has the scopes of the token, and the mark comes where no server is sent it: behind the #."""
    with by_issuer(tmp_path) as (service, _), Person("ann") as ann, Person("eve") as eve:
        back = come_back(service, ann).headers["location"]
        refused = eve.browser.get(back)
        assert refused.headers["location"].startswith("/explore#refused="), "ann's proof is none for another browser"
        assert "set-cookie" not in refused.headers
        led = ann.browser.get(back)
        assert led.status_code == 303
        home, _, mark = led.headers["location"].partition("#mark=")
        assert home == "/explore"
        shown = ann.browser.get(f"{service.url}/explore/session", headers={MARK: mark}).json()
        assert (shown["known"], "admin" in shown["scopes"]) == (True, True)
        assert ann.browser.get(f"{service.url}/v1/agents").status_code == 200
        assert "#refused=" in ann.browser.get(back).headers["location"], "a way leads back once"


def test_a_session_ends_with_its_token(tmp_path: Path) -> None:
    with by_issuer(tmp_path) as (service, main), Person("ann") as ann:
        main.lifetime_s = 3
        ann.browser.get(come_back(service, ann).headers["location"])
        until(lambda: ann.browser.get(f"{service.url}/v1/agents").status_code == 401, "the token has ended")


def test_what_a_session_asks_is_not_counted_and_secrets_of_others_are_not_kept(tmp_path: Path) -> None:
    """Off loopback browsers do not say of which site a page is where the service has no https."""
    settings = Settings(data_dir=str(tmp_path / "data"), usage_requests=True)
    secret = "password=abcdefgh"  # noqa: S105
    with served(tmp_path / "r.grafeo", auth=True, folder=tmp_path, settings=settings) as service:
        ingest(service.admin(), "s", agent("open", "look"))
        browser, mark = log_in(service, service.key(everything=True))
        asked = {"text": f"zorbulate {secret}", "filters": {"tags": ["none"]}}
        assert_good(browser.post("/v1/tools/search", json=asked, headers=mark))
        assert service.service.usage
        service.service.usage.write()
        assert service.registry.operator.usage_days(of="request") == []
        assert_good(service.admin().post("/v1/tools/search", json=asked))
        service.service.usage.write()
        [kept] = service.registry.operator.search_gaps().requests
    assert kept.text == "zorbulate password=***"
    assert all(b"abcdefgh" not in path.read_bytes() for path in (tmp_path / "data").glob("usage.sqlite*"))
