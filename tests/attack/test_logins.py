"""Attacks on callers' own logins: by other callers, by servers and their issuers, and by chance."""

import base64
import gzip
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response

from tests.gateway.hosts import Place, ingest
from tests.gateway.test_login_pages import BY_OAUTH, World, leave, log_in_by_browser, prove, world
from tests.identity_provider import Person, identity_provider
from tests.own_logins import KEY
from tests.protected_server import protected_server
from tests.service import agent, assert_problem, process, until
from tests.service import ingest as ingest_manifest
from waygraph.ingest.logins.oauth import token_file
from waygraph.registry.model.errors import UpstreamRefused

pytestmark = pytest.mark.attack
ACCEPT = {"accept": "application/json, text/event-stream"}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    with world(tmp_path, monkeypatch) as found:
        yield found


def way_back(person: Person, here: World, key: str) -> str:
    """The address of the callback with the code, which the browser has not opened."""
    answer = person.open(leave(person, prove(person, here.page, key)), until=here.page)
    assert answer.next_request is not None
    return str(answer.next_request.url)


@pytest.mark.parametrize("iss", ["http://127.0.0.1:9/realms/other", "", None])
def test_a_code_of_another_issuer_is_redeemed_nowhere(here: World, iss: str | None) -> None:
    """RFC 9207: who mixes two servers' issuers up gets neither's code."""
    with Person("ann") as ann:
        back = httpx2.URL(way_back(ann, here, here.key()))
        params = {**back.params, "iss": iss}
        said = {name: value for name, value in params.items() if value is not None}
        assert ann.open(str(back.copy_with(params=said))).status_code >= 400
    assert here.office.asked.count("token") == 0
    assert here.file.list() == ()


def test_of_many_who_come_back_at_once_one_is_let_in(here: World) -> None:
    key = here.key()
    with Person("ann") as ann, ThreadPoolExecutor(8) as pool:
        back = way_back(ann, here, key)
        cookies = {cookie.name: cookie.value or "" for cookie in ann.browser.cookies.jar}
        statuses = list(pool.map(lambda _: httpx2.get(back, cookies=cookies, timeout=60).status_code, range(8)))
    assert sorted(statuses) == [200, *[403] * 7]
    assert here.office.asked.count("token") == 1
    assert here.acts_as(key) == "ann@office"


def test_another_account_takes_the_place_of_the_first(here: World) -> None:
    """Of one caller at the same server: nothing goes over the connection of the first any more."""
    key = here.key()
    with Person("ann") as ann, Person("bob") as bob, ThreadPoolExecutor(8) as pool:
        log_in_by_browser(ann, here.page, key)
        assert set(pool.map(lambda _: here.acts_as(key), range(16))) == {"ann@office"}
        log_in_by_browser(bob, here.page, key)
        assert set(pool.map(lambda _: here.acts_as(key), range(16))) == {"bob@office"}
        assert "logged out" in bob.submit(bob.open(here.page), do="forget").text
        assert set(pool.map(lambda _: here.whoami(key).status_code, range(16))) == {403}


def test_a_session_of_ann_does_nothing_for_bob(here: World) -> None:
    """Who has learned the id of a session at /mcp is still whom they show that they are."""
    ann_key, bob_key = here.key(), here.key()
    with Person("ann") as ann:
        log_in_by_browser(ann, here.page, ann_key)
    opened = here.service.client(ann_key, **ACCEPT).post("/mcp", json=HELLO)
    session = {**ACCEPT, "mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
    params = {"name": "use_tool", "arguments": {"name": "desk__whoami", "params": {}}}
    said = [
        here.service.client(key, **session).post("/mcp", json={**CALL, "params": params}).text
        for key in (ann_key, bob_key, ann_key)
    ]
    assert ["ann@office" in text for text in said] == [True, False, True]


def test_a_login_does_not_follow_an_agent_to_another_address(here: World, tmp_path: Path) -> None:
    key = here.key()
    with Person("ann") as ann, protected_server(here.office) as other:
        log_in_by_browser(ann, here.page, key)
        assert here.acts_as(key) == "ann@office"
        document = json.loads((tmp_path / "mcp.json").read_text())
        entry = document["mcpServers"]["desk"]
        entry |= {"url": other.url, "headers": {"Authorization": f"Bearer {here.office.issue('operator', other.url)}"}}
        (tmp_path / "mcp.json").write_text(json.dumps(document))
        assert ingest(Place(tmp_path), str(tmp_path / "mcp.json")) == 0
        other.headers.clear()
        until(lambda: here.whoami(key).status_code == 403, "the agent's new address counts")
        assert_problem(here.whoami(key), 403, "needs-login")
        assert other.headers == []
        log_in_by_browser(ann, here.page, key)
        assert here.acts_as(key) == "ann@office"
        assert other.calls == [("whoami", "ann@office")]


@pytest.mark.parametrize("token", ["a\r\nx-admin: 1", "\u00fcber", "", "a b", "t" * 3_000_000], ids=len)
def test_no_token_of_an_issuer_becomes_anything_else(here: World, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here.office, "access_token", lambda *_, **__: token)
    key = here.key()
    with Person("ann") as ann:
        log_in_by_browser(ann, here.page, key)
    answer = here.whoami(key)
    assert 400 <= answer.status_code < 600
    assert not any("x-admin" in heard for heard in here.server.headers)
    assert here.server.calls == []
    assert not token.strip() or len(token) < 4 or token not in answer.text + here.service.log


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("authorization_endpoint", "javascript:alert(1)"),
        ("authorization_endpoint", 'http://127.0.0.1:9/"><script>alert(1)</script>'),
        ("registration_endpoint", "http://169.254.169.254/register"),
        ("token_endpoint", "http://169.254.169.254/token"),
        ("token_endpoint", "file:///etc/passwd"),
        ("issuer", "http://127.0.0.1:9/realms/other"),
    ],
)
def test_an_issuer_leads_a_person_or_the_gateway_nowhere_else(here: World, endpoint: str, address: str) -> None:
    genuine = str(here.office.metadata()["authorization_endpoint"])
    here.office.said[endpoint] = address
    with Person("ann") as ann:
        answer = ann.submit(prove(ann, here.page, here.key()), do="begin")
        assert "<script" not in answer.text
        assert "javascript:" not in answer.text
        led = re.search('content="0;url=([^"]+)"', answer.text)
        if led and unescape(led[1]).startswith(genuine):
            assert ann.open(unescape(led[1])).status_code >= 400
    assert here.file.list() == ()


@pytest.mark.parametrize("path", [".well-known/openid-configuration", "token"])
@pytest.mark.parametrize("compressed", [False, True])
def test_an_issuer_s_answer_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, *, compressed: bool
) -> None:
    """The SDK reads it whole: no more than any other message of a server, and nothing compressed."""
    with world(tmp_path, monkeypatch, upstream_max_message_bytes=200_000) as here, Person("ann") as ann:
        genuine, padding = here.office.answer, b" " * 1_000_000

        def answer_at_length(request: Request, given: Any) -> Response:
            answer = genuine(request, given)
            if request.path_params["path"] != path:
                return answer
            content = bytes(answer.body) + padding
            headers = {"content-encoding": "gzip"} if compressed else {}
            return Response(gzip.compress(content) if compressed else content, headers=headers)

        monkeypatch.setattr(here.office, "answer", answer_at_length)
        answer = ann.submit(prove(ann, here.page, here.key()), do="begin")
        if led := re.search('content="0;url=([^"]+)"', answer.text):
            answer = ann.open(unescape(led[1]))
        assert answer.status_code == 502, answer.text
        assert here.file.list() == ()


def test_a_token_as_large_as_a_file_is_not_kept(here: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By 900 kB of one each request to the server would grow. Of a caller's login, and of the operator's."""
    genuine = here.office.answer

    def answer_at_length(request: Request, given: Any) -> Response:
        answer = genuine(request, given)
        if request.path_params["path"] != "token":
            return answer
        return Response(json.dumps({**json.loads(bytes(answer.body)), "access_token": "a" * 900_000}))

    monkeypatch.setattr(here.office, "answer", answer_at_length)
    with Person("ann") as ann:
        answer = ann.open(leave(ann, prove(ann, here.page, here.key())))
        assert answer.status_code == 502, answer.text
    assert here.file.list() == ()
    place = token_file(tmp_path, "https://example.com/mcp")
    place.keep(tokens={"access_token": "a" * 9_000})
    with pytest.raises(UpstreamRefused, match=r"a login of 900,\d+ bytes"):
        place.keep(tokens={"access_token": "a" * 900_000})
    assert place.read() == {"tokens": {"access_token": "a" * 9_000}}


def test_strangers_have_the_gateways_issuer_asked_with_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(
        tmp_path, monkeypatch, oidc_issuer=lambda main: main.issuer, oidc_audience="gateway", oidc_client_id="gateway"
    ) as here:
        with Person("eve") as eve:
            shown = eve.open(here.page)
            statuses = [eve.submit(shown, do="issuer", until="http").status_code for _ in range(30)]
            back = f"{here.service.url}/login?state=x&code=x"
            assert eve.browser.get(back).status_code == 403
        assert statuses[-1] == 429
        assert here.main.asked.count(".well-known/openid-configuration") < 25


def test_keys_cannot_be_guessed_without_end(here: World) -> None:
    with Person("eve") as eve:
        shown = eve.open(here.page)
        statuses = [eve.submit(shown, do="prove", secret=f"wg_{number}_x").status_code for number in range(200)]
        assert set(statuses) == {403, 429} or set(statuses) == {401, 429}
        assert statuses[-1] == 429
    with Person("ann") as ann:
        assert log_in_by_browser(ann, here.page, here.key()).status_code == 200


def test_what_the_gateway_encrypted_for_something_else_is_no_cookie(here: World) -> None:
    key = here.key()
    with Person("ann") as ann, Person("eve") as eve:
        log_in_by_browser(ann, here.page, key)
        [cookie] = [cookie for cookie in ann.browser.cookies.jar if "waygraph-login" in cookie.name]
        [login] = json.loads(here.file.path.read_text())["logins"]
        sealed = base64.urlsafe_b64decode(cookie.value or "")
        changed = base64.urlsafe_b64encode(sealed[:-1] + bytes([sealed[-1] ^ 1])).decode()
        for value in (login["box"], changed, (cookie.value or "")[:-8], "x" * 100, ""):
            eve.browser.cookies.set(cookie.name, value, domain="127.0.0.1", path=cookie.path)
            assert "Who are you?" in eve.open(here.page).text


def test_no_login_begins_at_an_agent_that_is_hidden(here: World) -> None:
    here.service.registry.operator.set("desk", visible_to=["staff"])
    with Person("ann") as ann:
        hidden = prove(ann, here.page, here.key())
        marks = re.findall(r'name="mark" value="(\w+)"', ann.open(f"{here.service.url}/login/none").text + hidden.text)
        for do in ("begin", "key", "forget"):
            told = {
                ann.browser.post(f"{here.service.url}/login/{name}", data={"do": do, "mark": mark}).status_code
                for name in ("desk", "none")
                for mark in (*marks, "0")
            }
            assert told <= {403, 404}
    assert here.office.asked == []


def test_a_key_of_a_toolset_learns_of_no_other_agent(here: World) -> None:
    """Neither that it is there, nor where its server is; at those of its own its holder logs in."""
    ingest_manifest(here.service.admin(), "more", agent("box", "add"))
    here.service.registry.operator.set_toolset("boxes", agents=["box"])
    here.service.registry.operator.set_toolset("desks", tools=["desk/whoami"])
    inside, outside = (here.service.key("route", "use", toolset=name) for name in ("desks", "boxes"))
    with Person("eve") as eve:
        told = [prove(eve, f"{here.service.url}/login/{name}", outside) for name in ("desk", "none")]
        assert [answer.status_code for answer in told] == [404, 404]
        assert told[0].text.replace("desk", "none") == told[1].text
    assert here.office.asked == []
    with Person("ann") as ann:
        assert log_in_by_browser(ann, here.page, inside).status_code == 200
    assert [login.agent_id for login in here.file.list()] == ["desk"]


def test_a_login_that_was_forgotten_while_it_is_renewed_does_not_come_back(here: World) -> None:
    key = here.key()
    with Person("ann") as ann:
        log_in_by_browser(ann, here.page, key)
    gifts = here.office.asked.count("token")
    here.office.tokens.clear()
    here.office.answers_late_s = 1.0
    asked = threading.Thread(target=here.whoami, args=(key,))
    asked.start()
    until(lambda: here.office.asked.count("token") > gifts, "the login is being renewed")
    here.file.forget()
    asked.join()
    assert here.file.list() == ()
    assert_problem(here.whoami(key), 403, "needs-login")


def test_who_shows_two_things_is_one_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of one and a token of another: never the one's rights with the other's token."""
    audience = "https://gateway.example/mcp"
    with identity_provider("main") as [main]:
        rule = f'client_id = "gateway"\nclient_secret = "{main.add_client("gateway")}"\nresource = "urn:desk"\n'
        rules = f'[[login]]\nagent = "desk"\nby = "exchange"\ntoken_endpoint = "{main.issuer}/token"\n{rule}'
        with world(tmp_path, monkeypatch, rules, oidc_issuer=main.issuer, oidc_audience=audience) as here:
            main.may_exchange.add(("gateway", audience, "urn:desk"))
            here.server.realm, here.server.url = main, "urn:desk"
            token = main.issue("ann", audience, "waygraph:use waygraph:route")
            path = "/v1/tools/desk/whoami/call"
            key = here.service.key("use", "route")
            assert here.service.client(token).post(path, json={}).status_code != 403
            gifts = main.count("exchanged")
            assert gifts == 1
            for both in ({"key": token, "x-api-key": key}, {"key": key, "x-api-key": token}):
                assert here.service.client(**both).post(path, json={}).status_code >= 400
            assert main.count("exchanged") == gifts


def test_two_workers_renew_one_login_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The issuer ends a login whose old token comes a second time, and never has to."""
    with world(tmp_path, monkeypatch, BY_OAUTH) as here:
        here.office.lifetime_s = 1
        environ = {"WAYGRAPH_SERVICES_FILE": here.settings.services_file, "WAYGRAPH_LOGIN_KEY": KEY}
        keys, people = [here.key(), here.key()], [Person("ann"), Person("bob")]
        with process(
            tmp_path / "r.grafeo", tmp_path, "--workers", "2", keys=here.service.keys, environ=environ
        ) as running:
            for key, person in zip(keys, people, strict=True):
                with person:
                    assert log_in_by_browser(person, f"{running.url}/login/desk", key).status_code == 200

            def whoami(number: int) -> tuple[str, str]:
                """A token of one second may end on its way to the server: then the caller calls again."""
                client = running.client(keys[number % 2], connection="close")
                call = partial(client.post, "/v1/tools/desk/whoami/call", json={"arguments": {"wait_s": 0.3}})
                answer = call()
                for _ in range(9):
                    if answer.status_code != 403:
                        break
                    answer = call()
                assert "content" in answer.json(), answer.text
                return people[number % 2].name, answer.json()["content"][0]["text"]

            with ThreadPoolExecutor(8) as pool:
                said = set(pool.map(whoami, range(96)))
        assert said == {("ann", "ann@office"), ("bob", "bob@office")}
        assert here.office.count("reused") == 0
        assert here.office.count("refreshed", "ann") > 1


@pytest.mark.parametrize("held", ["tokens", "renewals"])
def test_a_server_that_tells_what_it_was_sent_is_struck(here: World, held: str) -> None:
    """In a tool's result as in an error: neither host nor model sees a token of its person."""
    key = here.key()
    with Person("ann") as ann:
        log_in_by_browser(ann, here.page, key)
    assert here.acts_as(key) == "ann@office"
    secret = next(text for text, login in getattr(here.office, held).items() if login.person == "ann")
    here.server.notes["ann@office"] = f"you sent {secret}"
    answer = here.service.client(key).post("/v1/tools/desk/recall/call", json={})
    assert answer.status_code == 200
    assert "you sent ***" in answer.text
    assert secret not in answer.text + here.service.log


def test_an_operator_s_login_is_not_told_to_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by a header of the configuration; what stands in no login stays as the server says it."""
    with world(tmp_path, monkeypatch, "") as here:
        key = here.key()
        assert here.acts_as(key) == "operator@office"
        secret = here.server.authorizations[-1].removeprefix("Bearer ")
        here.server.notes["operator@office"] = f"you sent Bearer {secret}, application/json"
        answer = here.service.client(key).post("/v1/tools/desk/recall/call", json={})
        assert answer.json()["content"][0]["text"] == "you sent ***, application/json"
        assert secret not in answer.text
