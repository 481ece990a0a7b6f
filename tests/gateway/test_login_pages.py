"""People log in at servers behind the gateway with a browser, and every call acts as its caller and as nobody else."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.types import ElicitResult
from pydantic import TypeAdapter

from tests.gateway.hosts import Era, Place, error_of, ingest, on_stdio, over_http, told
from tests.identity_provider import Person, Realm, identity_provider, password
from tests.own_logins import KEY, log_in
from tests.protected_server import ProtectedServer, protected_server
from tests.service import Served, assert_good, assert_problem, process, served
from waygraph.api.rest.routes.login_pages import COOKIE, Browser
from waygraph.ingest.logins.store import LoginFile, login_file
from waygraph.registry.access.visibility import LOCAL
from waygraph.registry.model.settings import Settings

BY_OAUTH = '[[login]]\nagent = "desk"\nby = "oauth"\n'


def seal_browser(file: LoginFile, browser: Browser, site: str) -> str:
    """As its cookie holds it."""
    return file.seal_text(TypeAdapter(Browser).dump_python(browser, mode="json"), f"{COOKIE} {site}")


@dataclass
class World:
    """`main` is the gateway's realm, if it has one; the server is one of the realm `office`."""

    service: Served
    settings: Settings
    server: ProtectedServer
    office: Realm
    main: Realm

    @property
    def file(self) -> LoginFile:
        return login_file(self.settings)

    @property
    def page(self) -> str:
        return f"{self.service.url}/login/desk"

    def key(self, *groups: str) -> str:
        return self.service.key("route", "use", groups=groups)

    def whoami(self, key: str) -> httpx2.Response:
        return self.service.client(key).post("/v1/tools/desk/whoami/call", json={})

    def acts_as(self, key: str) -> str:
        answer = self.whoami(key)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["content"][0]["text"])


@contextmanager
def world(folder: Path, monkeypatch: pytest.MonkeyPatch, rules: str = BY_OAUTH, **more: Any) -> Iterator[World]:
    monkeypatch.setenv("WAYGRAPH_DATA_DIR", str(folder / "data"))
    (folder / "services.toml").write_text(rules)
    with identity_provider("office", "main") as [office, main], protected_server(office) as server:
        office.people["operator"] = {}
        operator = {"Authorization": f"Bearer {office.issue('operator', server.url)}"}
        entry = {"type": "http", "url": server.url, "headers": operator}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"desk": entry}}))
        assert ingest(Place(folder), str(folder / "mcp.json")) == 0
        server.headers.clear()
        settings = Settings(data_dir=str(folder / "data"), services_file=str(folder / "services.toml"), login_key=KEY)
        settings = replace(
            settings, **{name: value(main) if callable(value) else value for name, value in more.items()}
        )
        with served(Place(folder).registry, auth=True, folder=folder, settings=settings) as service:
            yield World(service, settings, server, office, main)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with world(tmp_path, monkeypatch) as found:
        yield found


def prove(person: Person, page: str, key: str) -> httpx2.Response:
    """The page that a person sees who has shown who they are."""
    return person.submit(person.open(page), secret=key, do="prove")


def leave(person: Person, shown: httpx2.Response) -> str:
    """Where the page leads whose button for a login was pressed."""
    return target_of(person.submit(shown, do="begin"))


def target_of(answer: httpx2.Response) -> str:
    """Of a page that goes on elsewhere."""
    assert answer.status_code == 200, answer.text
    found = re.search(r'content="0;url=([^"]+)"', answer.text)
    assert found, answer.text
    return unescape(found[1])


def log_in_by_browser(person: Person, page: str, key: str) -> httpx2.Response:
    return person.open(leave(person, prove(person, page, key)))


async def find_whoami(client: Client) -> dict[str, Any]:
    return dict(told(await client.call_tool("find_tools", {"query": "desk__whoami", "limit": 1}))["tools"][0])


async def test_two_people_log_in_and_act_as_themselves(here: World, era: Era) -> None:
    """Who has no login is told the page. Two callers at once, over sessions of their own, and after a restart."""
    keys = {"ann": here.key(), "bob": here.key()}
    heard: list[tuple[str, str]] = []

    async def whoami(client: Client, name: str) -> None:
        result = await client.call_tool("use_tool", {"name": "desk__whoami", "params": {"wait_s": 0.02}})
        heard.append((name, str(result.content[-1].text)))  # type: ignore[union-attr]

    url = f"{here.service.url}/mcp"
    async with over_http(url, era, key=keys["ann"]) as ann, over_http(url, era, key=keys["bob"]) as bob:
        clients = {"ann": ann, "bob": bob}
        for name, client in clients.items():
            assert here.page in (await find_whoami(client))["login"], "told before the call"
            error = error_of(await client.call_tool("use_tool", {"name": "desk__whoami", "params": {}}))
            assert (error["code"], error["page"], error["by"]) == ("needs-login", here.page, "gateway")
            listed = await client.list_resources()
            assert listed.meta
            assert listed.meta["waygraph/unlisted"] == {"log_in_at": {"desk": here.page}}
            with Person(name) as person:
                done = await anyio.to_thread.run_sync(log_in_by_browser, person, error["page"], keys[name])
                assert "You are logged in" in done.text
            assert "login" not in await find_whoami(client)
            await whoami(client, name)
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                for name, client in clients.items():
                    tasks.start_soon(whoami, client, name)
    assert len(heard) == 18
    assert set(heard) == {("ann", "ann@office"), ("bob", "bob@office")}
    assert {subject for _, subject in here.server.calls} == {"ann@office", "bob@office"}
    assert [client["client_name"] for client in here.office.clients.values()] == ["Waygraph", "Waygraph"]


def test_a_host_that_shows_pages_is_led_to_ours_and_the_call_goes_on(here: World, era: Era) -> None:
    key, pages = here.key(), list[str]()

    async def show(_: Any, params: Any) -> ElicitResult:
        assert params.mode == "url"
        pages.append(params.url)
        with Person("ann") as person:
            await anyio.to_thread.run_sync(log_in_by_browser, person, params.url, key)
        return ElicitResult(action="accept")

    async def decline(*_: Any) -> ElicitResult:
        return ElicitResult(action="decline")

    async def call(callback: Any) -> Any:
        async with over_http(f"{here.service.url}/mcp", era, key=key, elicitation_callback=callback) as client:
            return await client.call_tool("use_tool", {"name": "desk__whoami", "params": {}})

    assert error_of(anyio.run(call, decline))["code"] == "needs-login"
    assert anyio.run(call, show).content[-1].text == "ann@office"
    assert pages == [here.page]


def test_a_page_goes_on_to_the_issuer_without_what_it_refuses(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: what is refused again ends the login."""
    key = here.key()
    monkeypatch.setattr(here.office, "default_audience", here.server.url)
    for refuses, status in ((lambda given: "resource" in given, 200), (lambda _: True, 502)):
        monkeypatch.setattr(here.office, "refuses", partial(refuse_target, refuses))
        with Person("ann") as ann:
            led = log_in_by_browser(ann, here.page, key)
            answer = ann.open(target_of(led))
            assert answer.status_code == status, answer.text
        assert here.acts_as(key) == "ann@office"


def refuse_target(refuses: Callable[[Any], bool], path: str, given: Any) -> str:
    return "invalid_target" if path == "authorize" and refuses(given) else ""


def test_an_agent_may_be_named_as_the_endpoint_is(here: World) -> None:
    shown = here.service.client().get("/login/mcp")
    assert (shown.status_code, shown.headers["content-type"]) == (200, "text/html; charset=utf-8")


async def test_a_call_waits_for_a_login_at_the_server_s_address_of_now(here: World) -> None:
    """One that was made for another address is none."""
    key = here.key()
    here.file.put(f"key:{key.split('_')[1]}", "desk", "https://former.example/mcp", "oauth", {})
    accepted = anyio.Event()

    async def accept(*_: Any) -> ElicitResult:
        accepted.set()
        return ElicitResult(action="accept")

    async def log_ann_in() -> None:
        await accepted.wait()
        with Person("ann") as ann:
            await anyio.to_thread.run_sync(log_in_by_browser, ann, here.page, key)

    async with (
        over_http(f"{here.service.url}/mcp", key=key, elicitation_callback=accept) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(log_ann_in)
        answer: Any = await client.call_tool("use_tool", {"name": "desk__whoami", "params": {}})
        assert answer.content[-1].text == "ann@office"


async def test_what_a_server_asks_reaches_the_host_of_its_user_alone(here: World, era: Era) -> None:
    """Both questions are open at once."""
    here.server.modern = False
    keys = {person: here.key() for person in ("ann", "bob")}
    heard: list[tuple[str, str]] = []
    for person, key in keys.items():
        log_in(here.server, here.file, f"key:{key.split('_')[1]}", person)
    both_asked = anyio.Event()

    async def call(person: str) -> None:
        async def answer(_: Any, params: Any) -> ElicitResult:
            heard.append((person, re.findall(r"\w+@office", params.message)[0]))
            if len(heard) == 2:
                both_asked.set()
            await both_asked.wait()
            return ElicitResult(action="accept", content={"colour": person})

        url = f"{here.service.url}/mcp"
        async with over_http(url, era, key=keys[person], elicitation_callback=answer) as client:
            said: Any = await client.call_tool("use_tool", {"name": "desk__ask", "params": {}})
        assert said.content[-1].text == f"{person}@office: {person}"

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for person in keys:
                tasks.start_soon(call, person)
    assert sorted(heard) == [("ann", "ann@office"), ("bob", "bob@office")]


def test_over_rest_the_page_is_told(here: World) -> None:
    told = assert_problem(here.whoami(here.key()), 403, "needs-login")
    assert told["facts"]["page"] == here.page
    assert here.server.calls == []


def test_a_login_ends_where_it_began(here: World) -> None:
    """Neither another caller's browser, nor a browser of nobody, nor the same one twice brings a login to its end."""
    ann_key, bob_key = here.key(), here.key()
    with Person("ann") as ann, Person("bob") as bob, Person("ann") as stranger:
        page = leave(ann, prove(ann, here.page, ann_key))
        prove(bob, here.page, bob_key)
        back = bob.open(page, until=here.page).headers["location"]  # bob's account, sent back with ann's state
        assert "code=" in back
        for browser in (bob, stranger):
            refused = browser.open(back)
            assert (refused.status_code, "not begun in this browser" in refused.text) == (403, True)
        other = Person("ann")
        with other:  # ann herself, but elsewhere
            prove(other, here.page, ann_key)
            assert other.open(back).status_code == 403
        assert here.file.list() == ()
        assert log_in_by_browser(ann, here.page, ann_key).status_code == 200
        done = ann.open(leave(ann, ann.open(here.page)), until=here.page).headers["location"]
        assert ann.open(done).status_code == 200
        assert ann.open(done).status_code == 403
    assert here.acts_as(ann_key) == "ann@office"
    assert_problem(here.whoami(bob_key), 403, "needs-login")


def test_who_has_not_shown_who_they_are_learns_and_does_nothing(here: World) -> None:
    """The page is the same for any id; a form counts with its mark and its cookie only."""
    key = here.key()
    with Person("ann") as ann, Person("eve") as eve:
        marks = re.compile(r'value="[0-9a-f]{64}"')
        told = {
            marks.sub("", eve.open(f"{here.service.url}/login/{name}").text).replace(name, "")
            for name in ("desk", "none")
        }
        assert len(told) == 1
        for do in ("begin", "key", "forget"):
            assert eve.submit(eve.open(here.page), do=do).status_code == 403
        assert eve.submit(eve.open(here.page), do="prove", secret=here.file.path.name).status_code == 403
        shown = prove(ann, here.page, key)
        mark = re.search(r'name="mark" value="(\w+)"', shown.text)
        assert mark
        theirs = {"mark": mark[1], "do": "begin"}
        assert eve.browser.post(here.page, data=theirs).status_code == 403, "a mark of another browser"
        assert ann.browser.post(here.page, data={"do": "begin"}).status_code == 403
        across = {"sec-fetch-site": "cross-site"}
        assert ann.browser.post(here.page, data=theirs, headers=across).status_code == 403
        for answer in (shown, eve.open(here.page)):
            policy = answer.headers["content-security-policy"]
            assert "frame-ancestors 'none'" in policy
            assert "script-src" not in policy
            assert answer.headers["cache-control"] == "no-store"
        cookie = shown.request.headers.get("cookie", "") or str(eve.open(here.page).headers["set-cookie"])
        assert key not in cookie
        set_cookie = eve.open(here.page).headers["set-cookie"].lower()
        assert "httponly" in set_cookie
        assert "samesite=lax" in set_cookie
    assert here.file.list() == ()
    assert here.office.asked == []


def test_what_a_caller_may_not_see_is_unknown(here: World) -> None:
    here.service.registry.operator.set("desk", visible_to=["staff"])
    with Person("ann") as ann:
        hidden = prove(ann, here.page, here.key())
        absent = ann.open(f"{here.service.url}/login/none")
        assert (hidden.status_code, absent.status_code) == (404, 404)
        assert hidden.text.replace("desk", "") == absent.text.replace("none", "")
    with Person("ann") as ann:
        assert log_in_by_browser(ann, here.page, here.key("staff")).status_code == 200


def test_a_revoked_key_logs_nobody_in(here: World) -> None:
    assert here.service.keys is not None
    key = here.key()
    with Person("ann") as ann:
        page = leave(ann, prove(ann, here.page, key))
        back = ann.open(page, until=here.page).headers["location"]
        here.service.keys.revoke(key)
        assert ann.open(back).status_code == 403
    assert here.file.list() == ()


def test_who_was_let_in_without_authentication_shows_who_they_are(here: World) -> None:
    """The cookie of a service that asked nobody, before it was started anew with keys."""
    former = seal_browser(here.file, Browser(caller=LOCAL), here.service.url)
    with Person("eve") as eve:
        eve.browser.cookies.set(f"waygraph-login-{here.service.port}", former)
        shown = eve.open(here.page)
        assert "Who are you?" in shown.text
        assert eve.submit(shown, do="begin").status_code == 403


def test_a_caller_of_many_groups_has_a_cookie_that_browsers_keep(here: World) -> None:
    here.service.registry.operator.set("desk", visible_to=["staff"])
    groups = [f"a group of many letters and of number {number}" for number in range(400)]
    with Person("ann") as ann:
        assert log_in_by_browser(ann, here.page, here.key("staff", *groups)).status_code == 200
        assert all(len(cookie.value or "") < 4_000 for cookie in ann.browser.cookies.jar)


def test_people_show_who_they_are_at_the_gateways_issuer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audience = "https://gateway.example/mcp"
    issuer: dict[str, Any] = {
        "oidc_issuer": lambda main: main.issuer,
        "oidc_audience": audience,
        "oidc_client_id": "pages",
    }
    with world(tmp_path, monkeypatch, **issuer) as here, Person("ann") as ann, Person("eve") as eve:
        here.main.clients["pages"] = {
            "client_id": "pages",
            "redirect_uris": [f"{here.service.url}/login"],
            "token_endpoint_auth_method": "none",
        }
        token = here.main.issue("ann", audience, "waygraph:route waygraph:use")
        assert_problem(here.whoami(token), 403, "needs-login")
        led = ann.submit(ann.open(here.page), do="issuer")
        page = unescape(re.findall(r'content="0;url=([^"]+)"', led.text)[0])
        back = ann.open(page, until=f"{here.service.url}/login").headers["location"]
        assert eve.open(back).status_code == 403, "ann's proof is none for another browser"
        shown = ann.open(back)
        assert "oidc:ann@main" in shown.text
        assert "You are logged in" in ann.open(leave(ann, shown)).text
        assert here.acts_as(token) == "ann@office"
        assert not any("@main" in subject for _, subject in here.server.calls)


def test_keys_that_callers_type_go_with_their_own_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = '[[login]]\nagent = "desk"\nby = "header"\nvalue = "Bearer {key}"\nheaders = { "X-Team" = "blue" }\n'
    with world(tmp_path, monkeypatch, rules) as here, Person("ann") as ann:
        key, typed = here.key(), here.office.issue("ann", here.server.url)
        assert ann.submit(prove(ann, here.page, key), do="key", secret=f"{typed}\n{typed}").status_code == 422
        assert "You are logged in" in ann.submit(ann.open(here.page), do="key", secret=typed).text
        assert here.acts_as(key) == "ann@office"
        assert here.server.headers[-1]["x-team"] == "blue"
        assert_problem(here.whoami(here.key()), 403, "needs-login")
        assert typed not in here.file.path.read_text() + here.service.log
        assert "logged out" in ann.submit(ann.open(here.page), do="forget").text
        assert_problem(here.whoami(key), 403, "needs-login")
        wrong = typed[:-1]
        assert "You are logged in" in ann.submit(ann.open(here.page), do="key", secret=wrong).text
        for _ in range(2):
            assert_problem(here.whoami(key), 403, "needs-login")
        assert here.file.list() == ()


def test_callers_list_and_forget_their_own_logins_alone(here: World) -> None:
    """What a caller may no longer see is not listed either."""
    keys = {name: here.key() for name in ("ann", "bob")}
    clients = {name: here.service.client(key) for name, key in keys.items()}
    for name, key in keys.items():
        with Person(name) as person:
            log_in_by_browser(person, here.page, key)
    for client in clients.values():
        [login] = assert_good(client.get("/v1/logins"))["logins"]
        assert (login["agent_id"], login["by"], set(login)) == ("desk", "oauth", {"agent_id", "by", "at"})
    assert assert_good(clients["ann"].delete("/v1/logins/none"))["forgotten"] is False
    assert assert_good(clients["ann"].delete("/v1/logins/desk")) == {"agent_id": "desk", "forgotten": True}
    assert assert_good(clients["ann"].get("/v1/logins")) == {"logins": []}
    assert_problem(here.whoami(keys["ann"]), 403, "needs-login")
    assert here.acts_as(keys["bob"]) == "bob@office"
    here.service.registry.operator.set("desk", hidden=True)
    assert assert_good(clients["bob"].get("/v1/logins")) == {"logins": []}


def test_logins_that_one_caller_begins_are_limited(here: World) -> None:
    """Each may register a client at the server's issuer. Nobody else waits for it."""
    with Person("ann") as ann, Person("bob") as bob:
        shown = prove(ann, here.page, here.key())
        answers = [ann.submit(shown, do="begin").status_code for _ in range(12)]
        assert answers[:10] == 10 * [200]
        assert answers[-1] == 429
        assert log_in_by_browser(bob, here.page, here.key()).status_code == 200


@pytest.mark.full
async def test_over_standard_input_all_calls_are_by_the_user_of_this_machine(here: World, tmp_path: Path) -> None:
    """Who is told the command by which they log in, as there is no page."""
    environ = {
        "WAYGRAPH_DATA_DIR": here.settings.data_dir,
        "WAYGRAPH_SERVICES_FILE": here.settings.services_file,
        "WAYGRAPH_LOGIN_KEY": KEY,
    }
    log_in(here.server, here.file, "key:of-somebody", "bob")
    async with Client(on_stdio(Place(tmp_path), **environ)) as client:
        call = {"name": "desk__whoami", "params": {}}
        error = error_of(await client.call_tool("use_tool", call))
        assert (error["code"], error["page"]) == ("needs-login", "")
        assert "waygraph logins add desk" in error["message"]
        log_in(here.server, here.file, "local", "ann")
        told = (await client.call_tool("use_tool", call)).content[-1]
        assert told.type == "text"
        assert told.text == "ann@office"


@pytest.mark.full
def test_any_worker_takes_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two, whichever is asked. After a restart the login is still there, and in one worker forgotten it is gone."""
    with world(tmp_path, monkeypatch) as here:
        environ = {
            "WAYGRAPH_SERVICES_FILE": here.settings.services_file,
            "WAYGRAPH_LOGIN_KEY": KEY,
            "WAYGRAPH_LOG_LEVEL": "debug",
        }
        key, place = here.key(), here.service.keys
        for restarted in (False, True):
            with process(tmp_path / "r.grafeo", tmp_path, "--workers", "2", keys=place, environ=environ) as running:
                page = f"{running.url}/login/desk"
                if not restarted:
                    with Person("ann") as ann:  # without kept connections each request may come to another worker
                        ann.browser.headers["connection"] = "close"
                        assert log_in_by_browser(ann, page, key).status_code == 200
                said = {
                    running.client(key, connection="close").post("/v1/tools/desk/whoami/call", json={}).text
                    for _ in range(12)
                }
                assert len(said) == 1
                assert "ann@office" in said.pop()
                if restarted:
                    here.file.forget()
                    for _ in range(12):
                        client = running.client(key, connection="close")
                        assert_problem(client.post("/v1/tools/desk/whoami/call", json={}), 403, "needs-login")


def test_without_a_key_for_logins_the_page_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch, login_key="") as here, Person("ann") as ann:
        answer = ann.open(here.page)
        assert (answer.status_code, "WAYGRAPH_LOGIN_KEY" in answer.text) == (503, True)
        told = assert_problem(here.whoami(here.key()), 403, "needs-login")
        assert told["facts"]["page"] == here.page
        [warned] = [line for line in map(json.loads, here.service.log.splitlines()) if line["level"] == "warning"]
        assert "desk" in warned["event"]


def test_no_secret_is_left_in_logs_or_files(here: World, tmp_path: Path) -> None:
    key = here.key()
    with Person("ann") as ann:
        log_in_by_browser(ann, here.page, key)
        assert here.acts_as(key) == "ann@office"
        here.office.end_logins()
        assert_problem(here.whoami(key), 403, "needs-login")
    left = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    left["log"] = here.service.log.encode()
    secrets = [*here.office.secrets, password("ann"), key, KEY]
    found = {name for name, content in left.items() if any(secret.encode() in content for secret in secrets)}
    assert found == {"mcp.json"}, "where the operator wrote a token of theirs"
    actions = [line["action"] for line in map(json.loads, here.service.log.splitlines()) if line.get("action")]
    assert "login" in actions
    assert not [line for line in map(json.loads, here.service.log.splitlines()) if line["level"] == "error"]


def test_a_service_elsewhere_needs_to_know_its_address(here: World) -> None:
    """What a request says of where it was sent is believed on this machine alone."""
    strange = here.service.client(here.key(), host="gateway.example")
    told = assert_problem(strange.post("/v1/tools/desk/whoami/call", json={}), 403, "needs-login")
    assert told["facts"]["page"] == ""
    assert "WAYGRAPH_PUBLIC_URL" in told["detail"]
    assert strange.get("/login/desk").status_code == 422
