"""Servers that are called as each caller: whose login goes there, and what becomes of it."""

import json
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import ModuleType, SimpleNamespace

import anyio
import pytest

from tests.calling.opened_here import Here
from tests.identity_provider import Realm, Refused, identity_provider
from tests.own_logins import KEY, OTHER_KEY, enroll, log_in
from tests.protected_server import ProtectedServer, protected_server
from tests.upstream.calling import PATIENCE_S
from waygraph.ingest.execution import pool as pool_module
from waygraph.ingest.execution.call import ToolCall
from waygraph.ingest.execution.executor import Executor, open_executor
from waygraph.ingest.logins import store as logins_module
from waygraph.ingest.logins.store import LoginEntry, LoginFile, login_file
from waygraph.ingest.manifest.records import UserLogin
from waygraph.registry.model.errors import (
    InvalidSetting,
    LoginsUnusable,
    NeedsLogin,
    NotCallable,
    UpstreamRefused,
    UpstreamUnreachable,
)
from waygraph.registry.model.settings import Settings

ANN, BOB = "key:00000000000a", "key:00000000000b"
BY_OAUTH = '[[login]]\nagent = "desk"\nby = "oauth"\n'


@pytest.fixture
def server(here: Here) -> Iterator[ProtectedServer]:
    """One that was ingested with a login of the operator, which nobody else is to use."""
    with identity_provider("office") as [realm], protected_server(realm) as server:
        realm.people["operator"] = {}
        header = {"Authorization": f"Bearer {realm.issue('operator', server.url)}"}
        here.ingest(here.config({"desk": {"type": "http", "url": server.url, "headers": header}}))
        server.headers.clear()
        yield server


def settings_of(here: Here, rules: str = BY_OAUTH, key: str = KEY) -> Settings:
    return replace(here.settings, services_file=here.write("services.toml", rules), login_key=key)


@asynccontextmanager
async def executing(here: Here, settings: Settings | None = None) -> AsyncIterator[Executor]:
    async with open_executor(here.registry, settings or settings_of(here), here.surroundings) as executor:
        with anyio.fail_after(2 * PATIENCE_S):
            yield executor


async def subject(here: Here, executor: Executor, caller: str, token: str = "") -> str:
    """Who is called: a subject of the server's realm."""
    [agent] = here.registry.agents()
    tool = next(tool for tool in here.registry.tools(agent.id) if tool.name == "whoami")
    call = ToolCall(agent=agent, tool=tool, arguments={}, deadline_s=PATIENCE_S, caller=caller, token=token)
    return str((await executor.call(call))["content"][0]["text"])


async def whoami(here: Here, executor: Executor, caller: str) -> str:
    said = await subject(here, executor, caller)
    assert said.endswith("@office")
    return said.removesuffix("@office")


def file_of(here: Here, key: str = KEY) -> LoginFile:
    return login_file(replace(here.settings, login_key=key))


async def test_a_list_that_is_kept_is_its_own_login_s_alone(here: Here, server: ProtectedServer) -> None:
    """Also once it is kept: it ends with the login that it was made by."""
    file = file_of(here)
    log_in(server, file, ANN, "ann")
    log_in(server, file, BOB, "bob")

    def listed_by() -> list[str]:
        shown = [heard["authorization"] for heard in server.headers if heard.get("mcp-method") == "resources/list"]
        return [str(server.realm.tokens[each.removeprefix("Bearer ")].person) for each in shown]

    async with executing(here) as executor:
        [agent] = here.registry.agents()
        tool = here.registry.tools(agent.id)[0]

        async def list_resources(caller: str) -> None:
            asked = ToolCall(agent=agent, tool=tool, arguments={}, deadline_s=PATIENCE_S, caller=caller)
            answer = await executor.call(replace(asked, method="resources/list"))
            assert [each["uri"] for each in answer["resources"]] == ["note://mine"]

        for caller in (ANN, BOB, ANN, BOB):
            await list_resources(caller)
        assert listed_by() == ["ann", "bob"]
        LoginFile(file.path).forget(ANN)
        with pytest.raises(NeedsLogin):
            await list_resources(ANN)
        await list_resources(BOB)


async def test_a_forgotten_login_counts_no_more_and_does_not_come_back(here: Here, server: ProtectedServer) -> None:
    """Forgotten as another process does it: by the file. Also amid a renewal, which writes afterwards."""
    file = file_of(here)
    login = log_in(server, file, ANN, "ann")
    log_in(server, file, BOB, "bob")
    async with executing(here) as executor:
        assert await whoami(here, executor, ANN) == "ann"
        LoginFile(file.path).forget(ANN)
        with pytest.raises(NeedsLogin):
            await whoami(here, executor, ANN)
        assert await whoami(here, executor, BOB) == "bob"
        log_in(server, file, ANN, "ann again")
        assert await whoami(here, executor, ANN) == "ann again"
    with pytest.raises(UpstreamRefused, match="was forgotten"):
        file.keep(login.user, {"tokens": {}})


def unavailable(*_: object) -> None:
    raise Refused("temporarily_unavailable", 503)


async def test_tokens_are_renewed_and_survive_a_restart(
    here: Here, server: ProtectedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the server takes them no more before their time. An issuer that is down ends no login."""
    file = file_of(here)
    login = log_in(server, file, ANN, "ann")

    async def act(executor: Executor) -> None:
        assert await whoami(here, executor, ANN) == "ann"

    async with executing(here) as executor:
        await act(executor)
    file.keep(login.user, {"expires_at": 1.0})
    async with executing(here) as executor, anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(act, executor)
    assert server.realm.count("refreshed") == 1
    server.realm.tokens.clear()
    monkeypatch.setattr(server.realm, "_token", unavailable)
    async with executing(here) as executor:
        with pytest.raises(UpstreamUnreachable, match="does not renew"):
            await whoami(here, executor, ANN)
    monkeypatch.undo()
    async with executing(here) as executor:
        await act(executor)
    assert [found.user for found in file.list()] == [login.user]


async def test_a_login_that_its_issuer_renews_is_kept_whatever_the_server_says(
    here: Here, server: ProtectedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller is sent to log in, which may help; a token that ended on its way ends no login."""
    file = file_of(here)
    login = log_in(server, file, ANN, "ann")

    async def take_nobody(_: str) -> None:
        return None

    async with executing(here) as executor:
        for _ in range(2):
            assert await whoami(here, executor, ANN) == "ann"
            with monkeypatch.context() as bad_hour:
                bad_hour.setattr(server, "verify_token", take_nobody)
                for _ in range(2):
                    with pytest.raises(NeedsLogin):
                        await whoami(here, executor, ANN)
        assert await whoami(here, executor, ANN) == "ann"
    assert [found.user for found in file.list()] == [login.user]
    assert server.realm.count("refreshed") == 4
    assert server.realm.count("reused") == 0


async def test_a_client_that_the_operator_registered_may_get_another_secret(
    here: Here, server: ProtectedServer
) -> None:
    """While the issuer refuses the client no login ends by that."""
    rules = BY_OAUTH + 'client_id = "by hand"\nclient_secret = "${CLIENT_SECRET}"\n'
    former = here.environ["CLIENT_SECRET"] = server.realm.add_client("by hand", "http://127.0.0.1:1/")
    content = enroll(server, "ann")
    renewal = content["tokens"]["refresh_token"]
    server.realm.renewals[renewal] = replace(server.realm.renewals[renewal], client="by hand")
    by_hand = {"client_id": "by hand", "client_secret": former, "token_endpoint_auth_method": "client_secret_basic"}
    file = file_of(here)
    login = file.put(ANN, "desk", server.url, "oauth", {**content, "client": by_hand, "expires_at": 1.0})
    another = server.realm.add_client("by hand", "http://127.0.0.1:1/")
    async with executing(here, settings_of(here, rules)) as executor:
        with pytest.raises(UpstreamRefused, match="refuses the client") as told:
            await whoami(here, executor, ANN)
        assert former not in str(told.value)
    here.environ["CLIENT_SECRET"] = another
    async with executing(here, settings_of(here, rules)) as executor:
        assert await whoami(here, executor, ANN) == "ann"
    assert [found.user for found in file.list()] == [login.user]
    assert server.realm.count("refreshed", "ann") == 1


async def test_a_server_names_no_other_issuer_than_the_operator(here: Here, server: ProtectedServer) -> None:
    """It would get the secret of the operator's client."""

    async def begin(executor: Executor) -> None:
        assert executor.logins is not None
        page = await executor.logins.begin(ANN, here.registry.agents()[0], "http://127.0.0.1:1/", "browser")
        assert page.startswith(f"{server.realm.issuer}/authorize?")

    here.environ["SECRET"] = server.realm.add_client("by hand", "http://127.0.0.1:1/")
    client = 'client_id = "by hand"\nclient_secret = "${SECRET}"\nissuer = '
    async with executing(here, settings_of(here, f'{BY_OAUTH}{client}"{server.realm.issuer}"\n')) as executor:
        await begin(executor)
    async with executing(here, settings_of(here, f'{BY_OAUTH}{client}"https://login.example"\n')) as executor:
        with pytest.raises(UpstreamRefused, match="another one than"):
            await begin(executor)
    assert "token" not in server.realm.asked


def test_what_is_written_tells_nobody_a_secret(here: Here, server: ProtectedServer) -> None:
    file = file_of(here)
    content = enroll(server, "ann")
    login = file.put(ANN, "desk", server.url, "oauth", content)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    written = file.path.read_text()
    told = [content["tokens"]["access_token"], content["tokens"]["refresh_token"], content["client"]["client_id"]]
    assert not any(secret in written for secret in (*told, server.realm.origin))
    assert not any(secret in repr(login) + repr(file) for secret in (*told, KEY))
    assert file.open(login) == content


async def test_an_entry_is_good_for_its_caller_agent_and_address_alone(here: Here, server: ProtectedServer) -> None:
    file = file_of(here)
    log_in(server, file, ANN, "ann")
    log_in(server, file, BOB, "bob")
    whole = json.loads(file.path.read_text())
    for swapped in ("box", "caller"):
        logins = [dict(login) for login in whole["logins"]]
        logins[0][swapped], logins[1][swapped] = logins[1][swapped], logins[0][swapped]
        file.path.write_text(json.dumps({**whole, "logins": logins}))
        async with executing(here) as executor:
            with pytest.raises(LoginsUnusable, match="moved from elsewhere"):
                await whoami(here, executor, ANN)
    assert server.calls == []
    assert file.find(ANN, "desk", "https://elsewhere.example/mcp") is None


async def test_another_issuer_s_caller_of_the_same_id_has_no_login(here: Here, server: ProtectedServer) -> None:
    """Of keys the gateway itself makes the ids: they stay."""
    callers = ("oidc:1", ANN)
    for caller in callers:
        log_in(server, login_file(replace(settings_of(here), oidc_issuer="https://a.example")), caller, "ann")
    async with executing(here, replace(settings_of(here), oidc_issuer="https://b.example")) as executor:
        with pytest.raises(NeedsLogin):
            await whoami(here, executor, callers[0])
        assert await whoami(here, executor, ANN) == "ann"
    assert [login.caller for login in file_of(here).list()] == sorted(callers)


async def test_of_many_callers_few_locks_are_left(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins_module, "TURNS", 3)
    file = file_of(here)
    for number in range(30):
        user = UserLogin(caller=f"key:{number}", agent_id="desk", id="x")
        async with LoginEntry(file, user, "https://a.example/mcp").alone(PATIENCE_S):
            pass
    assert 1 < len([path for path in file.path.parent.iterdir() if path.name.startswith("login-")]) <= 3


def test_many_writers_lose_no_login(here: Here) -> None:
    """Of one process and of several: each has an object of its own."""
    path = here.settings.data_path / "logins.json"

    def write(writer: int) -> None:
        file = LoginFile(path, KEY)
        for number in range(6):
            login = file.put(f"key:{writer}", f"agent{number}", "https://a.example/mcp", "header", {"key": "first"})
            file.keep(login.user, {"key": f"{writer} {number}"})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    file = LoginFile(path, KEY)
    held = {(login.caller, login.agent_id): file.open(login)["key"] for login in file.list()}
    assert held == {(f"key:{w}", f"agent{n}"): f"{w} {n}" for w in range(4) for n in range(6)}


async def test_without_the_right_key_nothing_is_used_and_nothing_lost(here: Here, server: ProtectedServer) -> None:
    file = file_of(here)
    log_in(server, file, ANN, "ann")
    before = file.path.read_bytes()
    for key, reason in ((OTHER_KEY, "another key"), ("", "needs a key"), ("c2hvcnQ=", "32 bytes")):
        async with executing(here, settings_of(here, key=key)) as executor:
            with pytest.raises(LoginsUnusable, match=reason):
                await whoami(here, executor, ANN)
    with pytest.raises(LoginsUnusable, match="another key"):
        file_of(here, OTHER_KEY).keep(file.list()[0].user, {})
    assert file.path.read_bytes() == before
    file.path.write_text("{}")
    with pytest.raises(LoginsUnusable, match="damaged"):
        file.list()


async def test_connections_of_many_users_are_bounded(
    here: Here, server: ProtectedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "MOST_USER_LINES", 3)
    file = file_of(here)
    callers = [f"key:{number:012x}" for number in range(8)]
    for caller in callers:
        log_in(server, file, caller, caller)
    async with executing(here) as executor:
        pool = executor._ways["mcp_server"].pool  # type: ignore[attr-defined]
        for caller in (*callers, *callers):
            assert await whoami(here, executor, caller) == caller
            assert pool.open_of_users <= 4, "one may be on its way out"


async def test_only_servers_at_a_plain_address_have_logins_of_callers(here: Here) -> None:
    """What is a process, or has the operator's key in its address, is not called at all."""
    here.ingest(here.config({"desk": here.entry}))
    starts = here.starts
    async with executing(here) as executor:
        [agent] = here.registry.agents()
        call = ToolCall(
            agent=agent, tool=here.registry.tools("desk")[0], arguments={}, deadline_s=PATIENCE_S, caller=ANN
        )
        with pytest.raises(NotCallable, match="this is a process"):
            await executor.call(call)
    assert here.starts == starts


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ('[[login]]\nagent = "a"\nby = "magic"\n', "login.0.by"),
        ('[[login]]\nagent = "a"\nby = "oauth"\nvalue = "{key}"\n', "value does not go with by = 'oauth'"),
        ('[[login]]\nagent = "a"\nby = "header"\nvalue = "fixed"\n', "needs a value with {key}"),
        ('[[login]]\nagent = "a"\nby = "exchange"\nclient_id = "w"\n', "needs client_id and token_endpoint"),
        (
            '[[login]]\nagent = "a"\nby = "exchange"\nclient_id = "w"\ntoken_endpoint = "http://i.example/token"\n',
            "or http:// on this machine",
        ),
        ('[[login]]\nagent = "a"\nby = "oauth"\nnaem = "x"\n', "Did you mean 'name'"),
        (2 * BY_OAUTH, "two [[login]] are of one agent"),
        (BY_OAUTH + 'headers = { "AUTHORIZATION" = "Bearer x" }\n', "headers may not have"),
    ],
)
async def test_a_wrong_rule_is_refused_at_the_start(here: Here, rules: str, told: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        async with executing(here, settings_of(here, rules)):
            pass
    assert told in str(refused.value)


@dataclass
class Exchange:
    """The gateway's realm, where it exchanges the tokens of its callers for tokens of `server`."""

    realm: Realm
    server: ProtectedServer
    rules: str

    def token(self, person: str, audience: str = "gateway") -> str:
        return self.realm.issue(person, audience)


@pytest.fixture
def exchange(here: Here) -> Iterator[Exchange]:
    with identity_provider("main") as [realm], protected_server(realm) as server:
        realm.people["operator"] = {}
        header = {"Authorization": f"Bearer {realm.issue('operator', server.url)}"}
        here.ingest(here.config({"desk": {"type": "http", "url": server.url, "headers": header}}))
        server.headers.clear()
        here.environ["EXCHANGE_SECRET"] = realm.add_client("gateway client")
        realm.may_exchange.add(("gateway client", "gateway", server.url))
        rules = (
            f'[[login]]\nagent = "desk"\nby = "exchange"\ntoken_endpoint = "{realm.issuer}/token"\n'
            f'client_id = "gateway client"\nclient_secret = "${{EXCHANGE_SECRET}}"\naudience = "{server.url}"\n'
        )
        yield Exchange(realm, server, rules)


async def test_a_callers_token_is_exchanged_and_never_passed_on(here: Here, exchange: Exchange) -> None:
    """Once for each token that is shown, until the token that came of it ends or the server takes it no more."""
    ann, again, bob = exchange.token("ann"), exchange.token("ann"), exchange.token("bob")
    async with executing(here, settings_of(here, exchange.rules, key="")) as executor:
        for _ in range(3):
            assert await subject(here, executor, "oidc:ann", ann) == "ann@main"
            assert await subject(here, executor, "oidc:bob", bob) == "bob@main"
        assert exchange.realm.count("exchanged") == 2
        assert await subject(here, executor, "oidc:ann", again) == "ann@main"
        assert exchange.realm.count("exchanged") == 3
        for text, login in list(exchange.realm.tokens.items()):
            if login.audience == exchange.server.url:
                del exchange.realm.tokens[text]
        with pytest.raises(UpstreamRefused, match="HTTP 401"):
            await subject(here, executor, "oidc:bob", bob)
        assert await subject(here, executor, "oidc:bob", bob) == "bob@main"
        assert exchange.realm.count("exchanged") == 4
    heard = str(exchange.server.headers)
    assert not any(token in heard for token in (ann, again, bob))
    assert {subject for _, subject in exchange.server.calls} == {"ann@main", "bob@main"}


async def test_what_cannot_be_exchanged_is_not_called(here: Here, exchange: Exchange) -> None:
    """An API key goes to no issuer. What the issuer says of a refusal is its code alone."""
    elsewhere, key = exchange.token("ann", "another audience"), "wg_0123456789ab_" + 43 * "k"
    async with executing(here, settings_of(here, exchange.rules, key="")) as executor:
        for caller, token in ((ANN, key), ("", ""), ("oidc:ann", "")):
            with pytest.raises(NotCallable, match="this caller showed none"):
                await subject(here, executor, caller, token)
        assert "token" not in exchange.realm.asked
        with pytest.raises(UpstreamRefused) as refused:
            await subject(here, executor, "oidc:ann", elsewhere)
        assert str(refused.value) == "desk: the token exchange was refused (invalid_target)"
        del here.environ["EXCHANGE_SECRET"]
        with pytest.raises(NotCallable, match="EXCHANGE_SECRET"):
            await subject(here, executor, "oidc:ann", exchange.token("ann"))
    assert exchange.server.calls == []


async def test_a_header_names_the_caller(here: Here, server: ProtectedServer) -> None:
    """Beside what the operator says for all; whatever an issuer calls a person, it is one line of ASCII."""
    token = server.realm.issue("operator", server.url)
    here.environ["ALL"] = token
    rules = (
        '[[login]]\nagent = "desk"\nby = "header"\nname = "X-User"\nvalue = "{caller}"\n'
        'headers = { "Authorization" = "Bearer ${ALL}" }\n'
    )
    async with executing(here, settings_of(here, rules, key="")) as executor:
        for caller in (ANN, "oidc:Zoë\u2028x", "oidc:ann ", ""):
            await whoami(here, executor, caller)
        assert executor.logins is not None
        with pytest.raises(NotCallable, match="as each caller"):
            await executor.logins.operator_launch(here.registry.agents()[0])
    named = [heard["x-user"] for heard in server.headers]
    assert list(dict.fromkeys(named)) == [ANN, "oidc:Zo%C3%AB%E2%80%A8x", "oidc:ann%20", "local"]


def test_the_key_comes_from_the_keyring_where_there_is_one(
    here: Here, server: ProtectedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made the first time; a keyring that is locked is told, and nothing is written."""
    held: dict[tuple[str, str], str] = {}
    fake = ModuleType("keyring")
    errors = SimpleNamespace(KeyringError=KeyError)
    fake.__dict__.update(
        get_password=lambda *of: held.get(of), set_password=lambda a, b, key: held.update({(a, b): key}), errors=errors
    )
    monkeypatch.setitem(sys.modules, "keyring", fake)
    path = here.settings.data_path / "logins.json"
    first, second = LoginFile(path), LoginFile(path)
    login = log_in(server, first, ANN, "ann")
    assert second.open(login)["tokens"]
    assert len(held) == 1
    before = path.read_bytes()
    fake.__dict__["get_password"] = lambda *of: {}[of]
    with pytest.raises(LoginsUnusable, match="the keyring gives no key"):
        LoginFile(path).open(login)
    assert path.read_bytes() == before


async def test_in_the_handshake_era_each_caller_has_a_session_of_their_own(here: Here, server: ProtectedServer) -> None:
    """Interleaved. What the server asks over one's connection: gateway/test_login_pages.py."""
    server.modern = False
    file = file_of(here)
    people = {ANN: "ann", BOB: "bob"}
    for caller, person in people.items():
        log_in(server, file, caller, person)
    async with executing(here) as executor:
        for caller in (ANN, BOB, ANN, BOB):
            assert await whoami(here, executor, caller) == people[caller]
    by_session: dict[str, set[str]] = {}
    for heard in server.headers:
        if session := heard.get("mcp-session-id"):
            token = heard["authorization"].removeprefix("Bearer ")
            by_session.setdefault(session, set()).add(server.realm.tokens[token].person)
    assert sorted(map(sorted, by_session.values())) == [["ann"], ["bob"]]


async def test_without_a_good_token_nothing_is_sent(here: Here, server: ProtectedServer) -> None:
    """A server that lets strangers in would run the tool as nobody."""
    file = file_of(here)
    content = enroll(server, "ann")
    del content["tokens"]["refresh_token"]
    file.put(ANN, "desk", server.url, "oauth", {**content, "expires_at": 1.0})
    renewed = enroll(server, "bob")
    file.put(BOB, "desk", server.url, "oauth", {**renewed, "expires_at": 1.0})
    server.realm.renewals.clear()
    async with executing(here) as executor:
        for caller in (ANN, BOB):
            with pytest.raises(NeedsLogin):
                await whoami(here, executor, caller)
    assert server.headers == []
    assert file.list() == ()
