"""Logins at servers and issuers as people report them: each does one thing in its own way."""

import json
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from starlette.responses import JSONResponse, Response

from tests.gateway.hosts import Place, ingest
from tests.gateway.login_hosts import client_document
from tests.identity_provider import Person, Realm, identity_provider
from tests.own_logins import KEY
from tests.protected_server import ProtectedServer, protected_server
from waygraph.api.cli.app import main
from waygraph.api.cli.render import progress

LIFETIME_S = 3600
NAMES = {"clientId": "client_id", "clientSecret": "client_secret", "callbackPort": "callback_port"}
"""In an entry of a server, and in the services file."""


@dataclass
class Desk:
    """Ann at the command line, and a server that needs a login. `client`: one that was registered by hand."""

    server: ProtectedServer
    folder: Path
    capsys: pytest.CaptureFixture[str]
    later: Callable[[], None]
    open: ExitStack
    port: int
    """One that is free."""
    client: dict[str, Any] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)
    """Scopes of requests that the issuer looked at."""

    @property
    def realm(self) -> Realm:
        return self.server.realm

    @property
    def callback(self) -> str:
        return f"http://127.0.0.1:{self.port}/callback"

    def log_in(self, door: str) -> tuple[int, str]:
        """As the operator, or as a caller at a server of which the operator has a token."""
        header = f"Bearer {self.realm.issue('ann', self.server.url, ' '.join(self.server.scopes))}"
        way = {"oauth": self.client or True} if door == "ingest" else {"headers": {"Authorization": header}}
        config = {"mcpServers": {"desk": {"type": "http", "url": self.server.url, **way}}}
        (self.folder / "mcp.json").write_text(json.dumps(config))
        status = ingest(Place(self.folder), str(self.folder / "mcp.json"))
        if door == "ingest":
            return status, self.text()
        lines = [f"{NAMES[name]} = {json.dumps(value)}\n" for name, value in self.client.items()]
        (self.folder / "services.toml").write_text('[[login]]\nagent = "desk"\nby = "oauth"\n' + "".join(lines))
        return self.main("logins", "add", "desk")

    def main(self, *arguments: str) -> tuple[int, str]:
        options = ["--registry", str(self.folder / "r.grafeo"), "--embedder", "none"]
        return main([*options, *arguments]), self.text()

    def text(self) -> str:
        """What was shown since, in which no secret is."""
        shown = "".join(self.capsys.readouterr())
        assert not [secret for secret in self.realm.secrets if secret in shown]
        return shown

    def acts(self) -> None:
        status, shown = self.main("call", "desk__whoami")
        assert (status, "ann@office" in shown) == (0, True), shown

    def asked(self, path: str) -> int:
        return self.realm.asked.count(path)

    def refuse(self, path: str, error: str, *, where: Callable[[Mapping[str, Any]], object]) -> None:
        """Scopes of each request at this path are noted."""

        def refuses(asked_path: str, given: Mapping[str, Any]) -> str:
            if asked_path != path:
                return ""
            self.heard.append(given.get("scope", ""))
            return error if where(given) else ""

        self.realm.refuses = refuses


@pytest.fixture
def desk(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Desk]:
    """`request.param`: the scopes without which the server lets nobody in."""
    moved, now = list[float](), time.time
    monkeypatch.setattr(time, "time", lambda: now() + sum(moved))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    (tmp_path / "services.toml").touch()
    variables = {"DATA_DIR": str(tmp_path), "LOGIN_KEY": KEY, "SERVICES_FILE": str(tmp_path / "services.toml")}
    for name, value in variables.items():
        monkeypatch.setenv(f"WAYGRAPH_{name}", value)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        identity_provider("office") as [office],
        protected_server(office, scopes=getattr(request, "param", [])) as server,
        Person("ann") as ann,
        ExitStack() as stack,
    ):
        browse = lambda page: threading.Thread(target=ann.open, args=(page,), daemon=True).start()  # noqa: E731
        monkeypatch.setattr(progress, "open_page", browse)
        yield Desk(server, tmp_path, capsys, lambda: moved.append(LIFETIME_S + 1), stack, port)


def by_hand(desk: Desk, **client: Any) -> None:
    desk.realm.registers = False
    secret = desk.realm.add_client("waygraph", desk.callback)
    desk.client = {"clientId": "waygraph", "clientSecret": secret, "callbackPort": desk.port, **client}


def by_hand_without_secret(desk: Desk) -> None:
    by_hand(desk)
    desk.realm.clients["waygraph"] = {"client_id": "waygraph", "redirect_uris": [desk.callback]}
    del desk.client["clientSecret"]


def by_hand_and_post(desk: Desk) -> None:
    by_hand(desk)
    desk.realm.said["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    desk.refuse("token", "invalid_client", where=lambda given: "client_secret" not in given)


def by_document(desk: Desk) -> None:
    address, desk.realm.documents = desk.open.enter_context(client_document(desk.folder, desk.callback))
    desk.realm.registers = False
    desk.client = {"clientId": address, "callbackPort": desk.port}


def refuses_offline_access(desk: Desk) -> None:
    desk.realm.said["scopes_supported"] = ["read", "offline_access"]
    desk.refuse("authorize", "invalid_scope", where=lambda given: "offline_access" in given.get("scope", ""))


def refuses_each_scope(desk: Desk) -> None:
    has_no_metadata(desk)
    desk.realm.said["scopes_supported"] = ["openid", "admin", "offline_access"]
    desk.refuse("authorize", "invalid_scope", where=lambda given: given.get("scope"))


def registers_with_scope(desk: Desk) -> None:
    desk.realm.said["scopes_supported"] = ["read"]
    desk.refuse("register", "invalid_client_metadata", where=lambda given: not given.get("scope"))


def registers_without_openid(desk: Desk) -> None:
    has_no_metadata(desk)
    desk.realm.said["scopes_supported"] = ["openid", "read"]
    desk.refuse("register", "invalid_client_metadata", where=lambda given: "openid" in given.get("scope", ""))


def has_a_query(desk: Desk) -> None:
    fixed = f"resource={quote(desk.server.url, safe='')}&tenant=7&state=fixed"
    desk.realm.said["authorization_endpoint"] = f"{desk.realm.issuer}/authorize?{fixed}"
    desk.refuse("authorize", "invalid_request", where=lambda given: given.get("tenant") != "7")


def refuses_resource(desk: Desk, path: str) -> None:
    desk.realm.default_audience = desk.server.url
    desk.refuse(path, "invalid_target", where=lambda given: "resource" in given)


def answers(desk: Desk, form: Callable[[dict[str, Any]], Response]) -> None:
    desk.realm.token_answer = form


def ends_in(lifetime: object) -> Callable[[Desk], None]:
    def form(told: dict[str, Any]) -> Response:
        rest = {name: value for name, value in told.items() if name != "expires_in"}
        return JSONResponse(rest if lifetime is ... else {**rest, "expires_in": lifetime})

    return partial(answers, form=form)


def answers_an_error_with_200(desk: Desk) -> None:
    answers(desk, lambda _: Response("error=bad_verification_code", media_type="text/plain"))


def renews_with_a_token_alone(desk: Desk) -> None:
    """The token for renewals stays good."""
    first: list[str] = []

    def form(told: dict[str, Any]) -> Response:
        if not first:
            first.append(told["refresh_token"])
            return JSONResponse(told)
        desk.realm.renewals[first[0]] = desk.realm.renewals.pop(told["refresh_token"])
        return JSONResponse({"access_token": told["access_token"], "token_type": "bearer", "expires_in": LIFETIME_S})

    answers(desk, form)


def has_no_metadata(desk: Desk) -> None:
    desk.server.publishes = False
    desk.realm.said["issuer"] = desk.server.url.removesuffix("/mcp")
    desk.realm.default_audience = desk.server.url


def has_a_taken_port(desk: Desk) -> None:
    by_hand(desk)
    desk.open.enter_context(socket.create_server(("127.0.0.1", desk.port)))


FORM = "application/x-www-form-urlencoded"
READ = pytest.mark.parametrize("desk", [["read"]], indirect=True)
LOGS_IN = {
    "1 by hand": by_hand,
    "1 by hand, without a secret": by_hand_without_secret,
    "1 by hand, with the secret in the form": by_hand_and_post,
    "2 by a document": by_document,
    "3 each scope of the issuer is refused": refuses_each_scope,
    "4 registration needs a scope": registers_with_scope,
    "4 registration refuses openid": registers_without_openid,
    "5 authorization_endpoint has a query": has_a_query,
    "6 resource is refused by the page": partial(refuses_resource, path="authorize"),
    "6 resource is refused for the token": partial(refuses_resource, path="token"),
    **{f"7 expires_in {value!r}": ends_in(value) for value in (0, ..., "3600", "3600abc", "0", None, -5)},
    "8 HTTP 201": partial(answers, form=lambda told: JSONResponse(told, 201)),
    "8 a form": partial(answers, form=lambda told: Response(urlencode(told), media_type=FORM)),
    "9 a token alone": renews_with_a_token_alone,
    "10 no metadata of the resource": has_no_metadata,
}
FAILS = {
    "1 no registration": (lambda desk: setattr(desk.realm, "registers", False), r"registers none: .* by hand"),
    "1 registration is refused": (
        lambda desk: desk.refuse("register", "access_denied", where=lambda _: True),
        r"refuses to register one \(HTTP 400\): .*/callback, and write .*client_?[iI]d",
    ),
    "2 documents alone": (
        lambda desk: desk.realm.said.update(registration_endpoint=None, client_id_metadata_document_supported=True),
        r"https address of a document",
    ),
    "8 an error with HTTP 200": (answers_an_error_with_200, r"login failed|no token for this login"),
    "11 the port of a client by hand": (has_a_taken_port, r"port \d+ of 127\.0\.0\.1, which is not free"),
}
DOORS = pytest.mark.parametrize("door", ["ingest", "logins add"])


@DOORS
@pytest.mark.parametrize("odd", LOGS_IN.values(), ids=LOGS_IN)
def test_a_person_logs_in_once(desk: Desk, odd: Callable[[Desk], None], door: str) -> None:
    """And is asked no more when the token has ended, nor by an issuer that says that it has."""
    odd(desk)
    status, shown = desk.log_in(door)
    assert status == 0, shown
    desk.acts()
    pages, tokens = desk.asked("authorize"), desk.asked("token")
    desk.acts()
    assert (desk.asked("authorize"), desk.asked("token")) == (pages, tokens)
    for _ in range(2):
        desk.later()
        desk.acts()
    assert desk.asked("authorize") == pages
    assert desk.asked("token") == tokens + 2


@DOORS
@pytest.mark.parametrize(("odd", "reason"), FAILS.values(), ids=FAILS)
def test_a_login_that_cannot_be_made_says_what_to_do(
    desk: Desk, odd: Callable[[Desk], None], reason: str, door: str
) -> None:
    odd(desk)
    status, shown = desk.log_in(door)
    assert status == 1, shown
    assert re.search(reason, " ".join(shown.split())), shown
    assert desk.asked("token") <= 1


@READ
@DOORS
def test_a_scope_that_is_refused_is_not_asked_for_again(desk: Desk, door: str) -> None:
    """Of the issuer's own accord it was asked for; the server names another one."""
    refuses_offline_access(desk)
    assert desk.log_in(door)[0] == 0
    desk.acts()
    assert desk.heard == ["read offline_access", "read", "read"], "refused; before ann has a session, and after it"
    desk.realm.end_logins()
    if door == "ingest":
        assert desk.log_in(door)[0] == 0
        assert desk.heard[3:] == ["read"]


@READ
def test_what_the_server_demands_and_its_issuer_refuses_is_said(desk: Desk) -> None:
    desk.refuse("authorize", "invalid_scope", where=lambda given: given.get("scope"))
    status, shown = desk.log_in("ingest")
    assert status == 1
    assert "demands scopes that its issuer refuses (invalid_scope)" in " ".join(shown.split())
    assert desk.heard.count("read") == 1


def test_a_client_is_registered_anew_where_it_is_of_no_use(desk: Desk) -> None:
    """Its port is taken, its secret has ended, or its issuer has forgotten it."""
    genuine = desk.realm.register

    def register(asked: Mapping[str, Any]) -> Response:
        client = json.loads(bytes(genuine(asked).body))
        return JSONResponse({**client, "client_secret_expires_at": int(time.time()) + 2 * LIFETIME_S}, 201)

    assert desk.log_in("ingest")[0] == 0
    tokens = json.loads((desk.folder / "tokens.json").read_text())["servers"][desk.server.url]
    port = int(tokens["client"]["redirect_uris"][0].split(":")[2].split("/")[0])
    desk.realm.end_logins()
    desk.realm.register = register  # type: ignore[method-assign]
    with socket.create_server(("127.0.0.1", port)):
        assert desk.log_in("ingest")[0] == 0
    assert desk.asked("register") == 2
    desk.realm.end_logins()
    assert desk.log_in("ingest")[0] == 0
    assert desk.asked("register") == 2
    for _ in range(3):
        desk.later()
    desk.realm.end_logins()
    assert desk.log_in("ingest")[0] == 0
    assert desk.asked("register") == 3
    desk.realm.clients.clear()
    desk.realm.tokens.clear()
    assert desk.log_in("ingest")[0] == 0
    assert desk.asked("register") == 4
    desk.acts()
