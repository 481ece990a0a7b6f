"""Agents whose server is called as each caller: by the caller's own OAuth login, an exchanged token, or their own key.

An operator says which agents those are ([[login]] in the services file). Nothing of the operator's own login, and
nothing of another caller's, goes to them: who has none is told where to log in.
"""

import hmac
import json
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

import anyio
from anyio import to_thread
from cachetools import FIFOCache

from waygraph.ingest.execution.call import Request, ToolCall, Web
from waygraph.ingest.execution.services import CALLER, KEY, Incomplete, LoginRule, Services
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.fields import fields_of
from waygraph.ingest.manifest.records import HttpLaunch, Launch
from waygraph.ingest.manifest.transport import references_only
from waygraph.ingest.upstream.connection import LoginRefused
from waygraph.ingest.upstream.logins import BEGUN_LOGIN, LoginFile, digest_of, login_file, refusal_code
from waygraph.registry.model.errors import InvalidSetting, NeedsLogin, NotAllowed, NotCallable, UpstreamRefused
from waygraph.registry.model.nouns import Agent
from waygraph.registry.model.numbers import read_number
from waygraph.registry.model.settings import Settings

LOCAL_USER = "local"
"""Who calls where nobody is told apart: a host over standard input, or a service without authentication."""
MOST_KEY_CHARS = 4_096
MOST_TOKENS = 4_096
"""Exchanged tokens that are remembered."""
EARLY_S = 30.0
"""So long before its end a token is exchanged anew."""
LONGEST_S = 3_600.0
UNTIMED_S = 60.0
"""How long one counts whose issuer does not say when it ends."""
_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - what a token is called (RFC 8693, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLogins:
    """Of all callers of a gateway. `launches`: how an agent's server is reached, with the operator's login."""

    services: Services
    settings: Settings
    surroundings: Surroundings = field(repr=False)
    launches: Callable[[Agent], Awaitable[Launch]]
    web: Web
    _tokens: "FIFOCache[tuple[str, str, str], _ExchangeToken]" = field(
        default_factory=lambda: FIFOCache(MOST_TOKENS), repr=False
    )

    @property
    def file(self) -> LoginFile:
        return login_file(self.settings)

    def rule(self, agent_id: str) -> LoginRule | None:
        """None: the agent is called as the operator."""
        return self.services.login_of(agent_id)

    async def operator_launch(self, agent: Agent) -> Launch:
        """The launch with the operator's login. Raises NotCallable where callers have their own."""
        if rule := self.rule(agent.id):
            raise NotCallable(agent.id, f"it is called as each caller (by = {rule.by!r}), and here nobody is one")
        return await self.launches(agent)

    def acting(self, call: ToolCall) -> "ActingCaller | None":
        """Who acts in this call; None: the operator."""
        rule = self.rule(call.agent.id)
        return ActingCaller(self, rule, call) if rule else None

    async def server_of(self, agent: Agent, name: str = "") -> tuple[LoginRule, HttpLaunch]:
        """Its rule, which has to be there, and how its server is reached, without anything of the operator's login.

        Raises NotCallable, of `name`.
        """
        name = name or agent.id
        rule, launch = self.rule(agent.id), await self.launches(agent)
        assert rule is not None  # noqa: S101
        if not isinstance(launch, HttpLaunch):
            raise NotCallable(name, f"[[login]] of {rule.agent!r} is for a server at an address, and this is a process")
        if _holds_secret(launch):
            raise NotCallable(name, "its address holds a secret or a reference, which would be the operator's login")
        try:
            rule = rule.resolve(self.surroundings)
        except Incomplete as exc:
            raise NotCallable(name, f"[[login]] of {rule.agent!r} in {self.services.place}: {exc}") from None
        plain = replace(launch, headers=rule.headers, oauth=False, confidential=frozenset(rule.headers.values()))
        return rule, plain

    async def set_key(self, caller: str, agent: Agent, key: str) -> None:
        """Keeps the key that a caller typed. Raises InvalidSetting for what no header can carry; else as `begin`."""
        text, rule = key.strip(), self.rule(agent.id)
        if rule is None or rule.by != "header" or not rule.takes_login:
            raise NotAllowed(f"nobody has a key of their own at {agent.id!r}")
        if not text or not text.isascii() or not text.isprintable() or len(text) > MOST_KEY_CHARS:
            raise InvalidSetting(f"a key is 1 to {MOST_KEY_CHARS:,} printable ASCII characters")
        _, launch = await self.server_of(agent)
        await to_thread.run_sync(partial(self.file.put, caller, agent.id, launch.url, "header", {"key": text}))

    async def is_logged_in(self, call: ToolCall) -> bool:
        """Whether the call can be made as its caller. Raises as it does, but for a login that is missing."""
        acting = self.acting(call)
        try:
            if acting:
                await acting.launch()
        except NeedsLogin:
            return False
        return True

    # -- by a person in a browser ----------------------------------------------------------------------

    async def begin(self, caller: str, agent: Agent, callback: str, browser: str) -> str:
        """The issuer's page, where the caller's login goes on in this `browser`, which a secret of its own names.

        Raises NotCallable, UpstreamError, LoginsUnusable.
        """
        from waygraph.ingest.upstream.browser_login import begin_login  # imports the SDK

        self.file.check_key()
        rule, launch = await self.server_of(agent)
        client = {**_client_of(rule), "redirect_uris": [callback]} if rule.client_id else None
        start = await begin_login(launch, self.settings, callback, client, rule.issuer)
        content = {**start.content, "browser": browser}
        put = partial(
            self.file.put, caller, agent.id, launch.url, BEGUN_LOGIN, content, login_id=digest_of(start.state)
        )
        await to_thread.run_sync(put)
        return start.page

    async def finish(self, caller: str, agent: Agent, callback: str, browser: str, query: Mapping[str, str]) -> None:
        """With what the browser brought back: `code` or `error`, `state`, `iss`. A login is finished once.

        Raises NotAllowed for what was not begun by this caller in this browser a short time ago; else as `begin`.
        """
        from waygraph.ingest.upstream.browser_login import finish_login

        _, launch = await self.server_of(agent)
        take = partial(self.file.take, caller, agent.id, digest_of(query.get("state", "")))
        login = await to_thread.run_sync(take)
        content = self.file.open(login) if login else {}
        is_late = login is not None and login.age_s() > self.settings.upstream_login_timeout_s
        if login is None or is_late or not hmac.compare_digest(str(content["browser"]), browser):
            raise NotAllowed("this login was not begun in this browser, or too long ago: begin it again")
        if login.address != self.file.place_of(caller, launch.url):
            raise NotAllowed("the agent's server has another address by now: begin the login again")
        if "code" not in query:
            raise UpstreamRefused(f"the login was refused ({refusal_code(query.get('error')) or 'no reason given'})")
        new_content = await finish_login(
            launch, self.settings, callback, content, code=query["code"], iss=query.get("iss")
        )
        await to_thread.run_sync(partial(self.file.put, caller, agent.id, launch.url, "oauth", new_content))

    # -- RFC 8693 ----------------------------------------------------------------------------------

    def token_place(self, call: ToolCall) -> "_ExchangeToken":
        """The place of the token for this caller, agent and token shown."""
        return self._tokens.setdefault((call.caller, call.agent.id, digest_of(call.token)), _ExchangeToken())

    async def exchange(self, rule: LoginRule, call: ToolCall) -> "_ExchangeToken":
        """A token for the server in the caller's name. Raises NotCallable, UpstreamError; neither holds a token."""
        if not call.caller.startswith("oidc:") or not call.token:
            raise NotCallable(
                call.name,
                "it acts as its caller by the caller's token of the OIDC issuer, and this caller showed none (an API "
                "key cannot be exchanged)",
            )
        place = self.token_place(call)
        async with place.lock:
            if not place.is_fresh:
                answer = await self._ask_exchange(rule, call.token)
                token, ends = answer.get("access_token"), answer.get("expires_in")
                is_bearer = str(answer.get("token_type", "")).lower() == "bearer"
                if not is_bearer or not isinstance(token, str) or not (token.isascii() and token.isprintable()):
                    raise UpstreamRefused("the token exchange gave no bearer token")
                known_s = read_number(ends)
                lasts_s = UNTIMED_S if known_s is None else min(max(0.0, known_s - EARLY_S), LONGEST_S)
                place.token, place.ends_s = token, time.monotonic() + lasts_s
        return place

    async def _ask_exchange(self, rule: LoginRule, subject: str) -> Mapping[str, Any]:
        fields = {
            "grant_type": _GRANT,
            "subject_token": subject,
            "subject_token_type": _ACCESS_TOKEN,
            "requested_token_type": _ACCESS_TOKEN,
            "audience": rule.audience,
            "resource": rule.resource,
            "scope": rule.scope,
            "client_id": "" if rule.client_secret else rule.client_id,
        }
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        if rule.client_secret:
            pair = f"{quote(rule.client_id, safe='')}:{quote(rule.client_secret, safe='')}"  # RFC 6749, 2.3.1
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        content = urlencode({name: value for name, value in fields.items() if value}).encode()
        request = Request(
            method="POST", url=rule.token_endpoint, headers=headers, content=content, allow_private=True
        )  # the operator named it
        with anyio.move_on_after(self.settings.upstream_connect_timeout_s):
            answer = await self.web.ask(request)
            try:
                body = fields_of(json.loads(answer.content))
            except (ValueError, RecursionError):
                body = {}
            if answer.status == 200:
                return body
            reason = refusal_code(body.get("error")) or f"HTTP {answer.status}"
            raise UpstreamRefused(f"the token exchange was refused ({reason})")
        raise UpstreamRefused("the token exchange took too long")


@dataclass(slots=True)
class _ExchangeToken:
    """A token, until when it is used by the clock that never runs back, and the lock of who asks for another."""

    token: str = field(default="", repr=False)
    ends_s: float = 0.0
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def is_fresh(self) -> bool:
        return bool(self.token) and time.monotonic() < self.ends_s


@dataclass(frozen=True, slots=True)
class ActingCaller:
    """The caller of one call, at an agent whose server is called as each caller: the pool's `Acting`."""

    logins: OwnLogins
    rule: LoginRule
    call: ToolCall = field(repr=False)

    @property
    def caller(self) -> str:
        return self.call.caller or LOCAL_USER

    @property
    def user(self) -> str:
        if self.rule.by != "exchange":
            return self.caller
        return f"{self.caller} {digest_of(self.call.token)}"

    async def launch(self) -> Launch:
        """As `Acting.launch`; also LoginsUnusable."""
        name = self.call.name
        rule, plain = await self.logins.server_of(self.call.agent, name)
        if rule.by == "exchange":
            place = await self.logins.exchange(rule, self.call)
            return _with_header(plain, "Authorization", f"Bearer {place.token}", place.token)
        if not rule.takes_login:
            return _with_header(plain, rule.name, rule.value.replace(CALLER, quote(self.caller, safe=":@+=./")))
        find = partial(self.logins.file.find, self.caller, self.call.agent.id, plain.url)
        login = await to_thread.run_sync(find)  # of many callers the file is large
        if login is None or login.by != rule.by:
            raise NeedsLogin(name, self.call.agent.id)
        content = self.logins.file.open(login)
        if rule.by == "oauth":
            former = content.get("client") or {}
            client = {**former, **_client_of(rule)} if rule.client_id else former
            if client != former:  # the operator has changed its secret since
                await to_thread.run_sync(partial(self.logins.file.keep, login.user, {"client": client}))
            return replace(plain, oauth=True, user=login.user)
        key = str(content.get("key", ""))
        return _with_header(plain, rule.name, rule.value.replace(KEY, key), key)

    async def check(self, refusal: UpstreamRefused) -> None:
        """After a refusal of the server, by which a key that the caller typed is forgotten.

        Raises NeedsLogin if the caller is no longer logged in, or the server refuses their login: a new one may help.
        """
        if self.rule.by == "exchange":
            self.logins.token_place(self.call).ends_s = 0.0
        elif self.rule.by == "oauth":
            await self.launch()
            if isinstance(refusal, LoginRefused):
                raise NeedsLogin(self.call.name, self.call.agent.id) from refusal
        elif self.rule.takes_login and isinstance(refusal, LoginRefused):
            await to_thread.run_sync(self.logins.file.forget, self.caller, self.call.agent.id)
            raise NeedsLogin(self.call.name, self.call.agent.id) from refusal


def _client_of(rule: LoginRule) -> Mapping[str, Any]:
    """A client that the operator registered at the server's issuer, as RFC 7591 describes one."""
    if not rule.client_secret:
        return {"client_id": rule.client_id, "token_endpoint_auth_method": "none"}
    how = {"token_endpoint_auth_method": "client_secret_basic"}
    return {"client_id": rule.client_id, "client_secret": rule.client_secret, **how}


def _holds_secret(launch: HttpLaunch) -> bool:
    try:
        plain = references_only({"url": launch.url})["url"]
    except (ValueError, RecursionError):
        return True
    return plain != launch.url or any(secret and secret in launch.url for secret in launch.confidential)


def _with_header(launch: HttpLaunch, name: str, value: str, *secrets: str) -> HttpLaunch:
    others = {other: text for other, text in launch.headers.items() if other.lower() != name.lower()}
    return replace(launch, headers={**others, name: value}, confidential=launch.confidential | {*secrets})
