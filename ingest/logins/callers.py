"""Agents whose server is called as each caller: by the caller's own OAuth login, an exchanged token, or their own key.

An operator says which agents those are ([[login]] in the services file), and how: one way is a token in the caller's
name, which the OIDC issuer gives in exchange for the caller's own (RFC 8693). Nothing of the operator's own login, and
nothing of another caller's, goes to them: who has none is told where to log in.
"""

import hmac
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol
from urllib.parse import quote, urlencode

import anyio
from anyio import to_thread
from cachetools import FIFOCache
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from waygraph.ingest.logins.store import (
    BEGUN_LOGIN,
    LoginFile,
    LoginRefused,
    digest_of,
    login_file,
    login_text,
    read_token,
    refusal_code,
)
from waygraph.ingest.manifest.environment import Resolver, Scope, Surroundings, UnresolvedReference
from waygraph.ingest.manifest.records import LOGIN_TIMEOUT_S, HttpLaunch, Launch, OAuthClient
from waygraph.ingest.manifest.transport import references_only
from waygraph.registry.http.addresses import is_loopback, split_url
from waygraph.registry.model.errors import InvalidSetting, NeedsLogin, NotAllowed, NotCallable, UpstreamRefused
from waygraph.registry.model.nouns import Agent
from waygraph.registry.model.numbers import read_number
from waygraph.registry.model.settings import Settings

if TYPE_CHECKING:
    from waygraph.ingest.logins.browser import OpenClient

By = Literal["oauth", "exchange", "header"]
KEY, CALLER = "{key}", "{caller}"
"""In the value of a header: what the caller typed, and the caller's id."""
Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]


class LoginRule(BaseModel):
    """That an agent's server is called as each caller, and how. Until `resolve`, secrets are references.

    Nothing of the operator's own login goes there: `headers` are all that is sent beside the caller's.
    """

    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)

    agent: Text
    by: By
    headers: dict[HeaderName, str] = Field(default={}, repr=False)
    name: HeaderName = "Authorization"
    value: str = ""
    client_id: str = ""
    client_secret: str = Field(default="", repr=False)
    issuer: str = ""
    callback_port: int = Field(default=0, ge=0, lt=65_536)
    token_endpoint: str = ""
    audience: str = ""
    resource: str = ""
    scope: str = ""

    @model_validator(mode="after")
    def _sound(self) -> "LoginRule":
        of = {
            "oauth": {"client_id", "client_secret", "issuer", "callback_port"},
            "exchange": {"client_id", "client_secret", "token_endpoint", "audience", "resource", "scope"},
            "header": {"name", "value"},
        }[self.by] | {"agent", "by", "headers"}
        if astray := sorted(self.model_fields_set - of):
            raise ValueError(f"{astray[0]} does not go with by = {self.by!r}, which takes {', '.join(sorted(of))}")
        own = (self.name if self.by == "header" else "Authorization").lower()
        if own in (name.lower() for name in self.headers):
            raise ValueError(f"headers may not have {own}, which is the caller's own")
        parts = split_url(self.token_endpoint)
        host = (parts.hostname if parts else "") or ""
        is_safe = parts is not None and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))
        if self.by == "exchange" and not (host and is_safe and self.client_id):
            raise ValueError(
                "by = 'exchange' needs client_id and token_endpoint: https://…, or http:// on this machine"
            )
        if self.by == "header" and (KEY in self.value) == (CALLER in self.value):
            raise ValueError(f"by = 'header' needs a value with {KEY} (what the caller types) or {CALLER} (their id)")
        return self

    @property
    def client(self) -> OAuthClient | None:
        """That the operator registered at the server's issuer; None: each login registers one."""
        return OAuthClient(self.client_id, self.client_secret, self.callback_port) if self.client_id else None

    @property
    def takes_login(self) -> bool:
        """Whether the caller has to do something, once."""
        return self.by == "oauth" or KEY in self.value

    def resolve(self, surroundings: Surroundings) -> "LoginRule":
        """Raises UnresolvedReference."""
        resolver = Resolver(Scope(surroundings=surroundings))
        headers = {name: resolver.text(value) for name, value in self.headers.items()}
        secret = resolver.text(self.client_secret)
        resolver.finish()
        return self.model_copy(update={"headers": headers, "client_secret": secret})


class Call(Protocol):
    """What matters of a call: `name` is the tool's, `token` the bearer token that the caller showed."""

    @property
    def agent(self) -> Agent: ...
    @property
    def name(self) -> str: ...
    @property
    def caller(self) -> str: ...
    @property
    def token(self) -> str: ...


MOST_TOKENS = 4_096
"""Exchanged tokens that are remembered."""
EARLY_S = 30.0
"""So long before its end a token is exchanged anew."""
LONGEST_S = 3_600.0
UNTIMED_S = 60.0
"""How long one counts whose issuer does not say when it ends."""
_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - what a token is called (RFC 8693, 3)

Post = Callable[[str, Mapping[str, str], bytes], Awaitable[tuple[int, bytes]]]
"""Sends content with headers to an address that an operator named; the answer's status and body. Raises UpstreamError.
"""


@dataclass(slots=True)
class _ExchangeToken:
    """A token, until when it is used by the clock that never runs back, and the lock of who asks for another."""

    token: str = field(default="", repr=False)
    ends_s: float = 0.0
    lock: anyio.Lock = field(default_factory=anyio.Lock)


class TokenExchange:
    """For all callers of a gateway. An issuer has `timeout_s` to answer."""

    def __init__(self, post: Post, timeout_s: float) -> None:
        self._post, self._timeout_s = post, timeout_s
        self._tokens: FIFOCache[tuple[str, str, str], _ExchangeToken] = FIFOCache(MOST_TOKENS)

    def end_token(self, call: Call) -> None:
        """The next call asks for another."""
        self._entry(call).ends_s = 0.0

    async def token(self, rule: LoginRule, call: Call) -> str:
        """Raises NotCallable, UpstreamError; neither holds a token."""
        if not call.caller.startswith("oidc:") or not call.token:
            raise NotCallable(
                call.name,
                "it acts as its caller by the caller's token of the OIDC issuer, and this caller showed none (an API "
                "key cannot be exchanged)",
            )
        entry = self._entry(call)
        async with entry.lock:
            if not entry.token or time.monotonic() >= entry.ends_s:
                answer = await self._ask(rule, call.token)
                token, ends = answer.get("access_token"), answer.get("expires_in")
                is_bearer = str(answer.get("token_type", "bearer")).lower() == "bearer"
                if not is_bearer or not isinstance(token, str) or not (token.isascii() and token.isprintable()):
                    raise UpstreamRefused("the token exchange gave no bearer token")
                login_text(token)
                known_s = read_number(ends)
                lasts_s = UNTIMED_S if known_s is None else min(max(0.0, known_s - EARLY_S), LONGEST_S)
                entry.token, entry.ends_s = token, time.monotonic() + lasts_s
            return entry.token

    def _entry(self, call: Call) -> _ExchangeToken:
        """For this caller, agent and token shown."""
        return self._tokens.setdefault((call.caller, call.agent.id, digest_of(call.token)), _ExchangeToken())

    async def _ask(self, rule: LoginRule, subject: str) -> Mapping[str, Any]:
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
        with anyio.move_on_after(self._timeout_s):
            status, body = await self._post(rule.token_endpoint, headers, content)
            status, answer = read_token(status, body)
            if status == 200:
                return answer
            reason = refusal_code(answer.get("error")) or f"HTTP {status}"
            raise UpstreamRefused(f"the token exchange was refused ({reason})")
        raise UpstreamRefused("the token exchange took too long")


LOCAL_USER = "local"
"""Who calls where nobody is told apart: a host over standard input, or a service without authentication."""
MOST_KEY_CHARS = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLogins:
    """Of all callers of a gateway. `place`: the file with the rules. `launches`: how an agent's server is reached, with
    the operator's login.
    """

    rules: Sequence[LoginRule]
    place: str
    settings: Settings
    surroundings: Surroundings = field(repr=False)
    launches: Callable[[Agent], Awaitable[Launch]]
    exchange: TokenExchange
    open_client: "OpenClient"

    @property
    def file(self) -> LoginFile:
        return login_file(self.settings)

    def rule(self, agent_id: str) -> LoginRule | None:
        """None: the agent is called as the operator."""
        return next((rule for rule in self.rules if rule.agent == agent_id), None)

    def lacks_login(self, caller: str, agent_id: str) -> bool:
        """Whether the caller has to log in at the agent, where a login is kept for each. Raises as the file does."""
        rule = self.rule(agent_id)
        return rule is not None and rule.takes_login and not self.file.has(caller or LOCAL_USER, agent_id, rule.by)

    async def operator_launch(self, agent: Agent) -> Launch:
        """The launch with the operator's login. Raises NotCallable where callers have their own."""
        if rule := self.rule(agent.id):
            raise NotCallable(agent.id, f"it is called as each caller (by = {rule.by!r}), and here nobody is one")
        return await self.launches(agent)

    def acting(self, call: Call) -> "ActingCaller | None":
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
        try:
            plain = references_only({"url": launch.url})["url"]
        except (ValueError, RecursionError):
            plain = ""
        if plain != launch.url or any(secret and secret in launch.url for secret in launch.confidential):
            raise NotCallable(name, "its address holds a secret or a reference, which would be the operator's login")
        try:
            rule = rule.resolve(self.surroundings)
        except UnresolvedReference as exc:
            raise NotCallable(name, f"[[login]] of {rule.agent!r} in {self.place}: {exc}") from None
        return rule, replace(launch, headers=rule.headers, oauth=False, confidential=frozenset(rule.headers.values()))

    async def set_key(self, caller: str, agent: Agent, key: str) -> None:
        """Keeps the key that a caller typed. Raises InvalidSetting for what no header can carry; else as `begin`."""
        text, rule = key.strip(), self.rule(agent.id)
        if rule is None or rule.by != "header" or not rule.takes_login:
            raise NotAllowed(f"nobody has a key of their own at {agent.id!r}")
        if not text or not text.isascii() or not text.isprintable() or len(text) > MOST_KEY_CHARS:
            raise InvalidSetting(f"a key is 1 to {MOST_KEY_CHARS:,} printable ASCII characters")
        _, launch = await self.server_of(agent)
        await to_thread.run_sync(partial(self.file.put, caller, agent.id, launch.url, "header", {"key": text}))

    async def is_logged_in(self, call: Call) -> bool:
        """Whether the call can be made as its caller. Raises as it does, but for a login that is missing."""
        acting = self.acting(call)
        try:
            if acting:
                await acting.launch()
        except NeedsLogin:
            return False
        return True

    # -- by a person in a browser ----------------------------------------------------------------------

    async def begin(
        self, caller: str, agent: Agent, callback: str, browser: str, refusals: Mapping[str, Any] | None = None
    ) -> str:
        """The issuer's page, where the caller's login goes on in this `browser`, which a secret of its own names.

        `refusals`: what the issuer refused just now, and is not asked for again.

        Raises NotCallable, UpstreamError, LoginsUnusable.
        """
        from waygraph.ingest.logins.browser import begin_login  # imports the SDK

        self.file.check_key()
        rule, launch = await self.server_of(agent)
        client = rule.client.record if rule.client else None
        start = await begin_login(
            self.open_client,
            launch,
            self.settings,
            callback,
            refusals=refusals or {},
            client=client,
            issuer=rule.issuer,
        )
        content = {**start.content, "browser": browser}
        put = partial(
            self.file.put, caller, agent.id, launch.url, BEGUN_LOGIN, content, login_id=digest_of(start.state)
        )
        await to_thread.run_sync(put)
        return start.page

    async def finish(self, caller: str, agent: Agent, callback: str, browser: str, query: Mapping[str, str]) -> str:
        """With what the browser brought back: `code` or `error`, `state`, `iss`. A login is finished once.

        Returns the page of the issuer where the login begins anew, with less, if the issuer refused a scope or the
        resource; empty where it is finished.

        Raises NotAllowed for what was not begun by this caller in this browser a short time ago; else as `begin`.
        """
        from waygraph.ingest.logins.browser import finish_login
        from waygraph.ingest.logins.oauth import AuthorizationRefused, ask_less

        _, launch = await self.server_of(agent)
        login = await to_thread.run_sync(partial(self.file.take, caller, agent.id, digest_of(query.get("state", ""))))
        content = self.file.open(login) if login else {}
        is_late = login is not None and login.age_s() > LOGIN_TIMEOUT_S
        if login is None or is_late or not hmac.compare_digest(str(content["browser"]), browser):
            raise NotAllowed("this login was not begun in this browser, or too long ago: begin it again")
        if login.address != self.file.place_of(caller, launch.url):
            raise NotAllowed("the agent's server has another address by now: begin the login again")
        if "code" not in query:
            refusal = AuthorizationRefused(query)
            less = ask_less(content.get("refusals") or {}, content.get("scope"), refusal.code)
            if less is None:
                raise refusal
            return await self.begin(caller, agent, callback, browser, less)
        new_content = await finish_login(
            self.open_client, launch, self.settings, callback, content, code=query["code"], iss=query.get("iss")
        )
        await to_thread.run_sync(partial(self.file.put, caller, agent.id, launch.url, "oauth", new_content))
        return ""


@dataclass(frozen=True, slots=True)
class ActingCaller:
    """The caller of one call, at an agent whose server is called as each caller: nobody else's calls go over the same
    connection.
    """

    logins: OwnLogins
    rule: LoginRule
    call: Call = field(repr=False)

    @property
    def caller(self) -> str:
        return self.call.caller or LOCAL_USER

    @property
    def user(self) -> str:
        return self.caller if self.rule.by != "exchange" else f"{self.caller} {digest_of(self.call.token)}"

    async def launch(self) -> Launch:
        """With the caller's login in place of the operator's.

        Raises NeedsLogin, NotCallable, UpstreamError, LoginsUnusable.
        """
        name = self.call.name
        rule, plain = await self.logins.server_of(self.call.agent, name)
        if rule.by == "exchange":
            token = await self.logins.exchange.token(rule, self.call)
            return _with_header(plain, "Authorization", f"Bearer {token}", token)
        if not rule.takes_login:
            return _with_header(plain, rule.name, rule.value.replace(CALLER, quote(self.caller, safe=":@+=./")))
        find = partial(self.logins.file.find, self.caller, self.call.agent.id, plain.url)
        login = await to_thread.run_sync(find)  # of many callers the file is large
        if login is None or login.by != rule.by:
            raise NeedsLogin(name, self.call.agent.id)
        content = self.logins.file.open(login)
        if rule.by == "oauth":
            former = content.get("client") or {}
            client = rule.client.record if rule.client else former
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
            self.logins.exchange.end_token(self.call)
        elif self.rule.by == "oauth":
            await self.launch()
            if isinstance(refusal, LoginRefused):
                raise NeedsLogin(self.call.name, self.call.agent.id) from refusal
        elif self.rule.takes_login and isinstance(refusal, LoginRefused):
            await to_thread.run_sync(self.logins.file.forget, self.caller, self.call.agent.id)
            raise NeedsLogin(self.call.name, self.call.agent.id) from refusal


def _with_header(launch: HttpLaunch, name: str, value: str, *secrets: str) -> HttpLaunch:
    others = {other: text for other, text in launch.headers.items() if other.lower() != name.lower()}
    return replace(launch, headers={**others, name: value}, confidential=launch.confidential | {*secrets})
