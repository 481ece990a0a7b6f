"""Agents whose server is called as each caller: by the caller's own OAuth login, an exchanged token, or their own key.

An operator says which agents those are ([[login]] in the services file). Nothing of the operator's own login, and
nothing of another caller's, goes to them: who has none is told where to log in.
"""

import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from anyio import to_thread

from waygraph.ingest.logins.login_rules import CALLER, KEY, Call, LoginRule, TokenExchange
from waygraph.ingest.logins.store import BEGUN_LOGIN, LoginFile, LoginRefused, digest_of, login_file
from waygraph.ingest.manifest.environment import Surroundings, UnresolvedReference
from waygraph.ingest.manifest.records import HttpLaunch, Launch
from waygraph.ingest.manifest.transport import references_only
from waygraph.registry.model.errors import InvalidSetting, NeedsLogin, NotAllowed, NotCallable, UpstreamRefused
from waygraph.registry.model.nouns import Agent
from waygraph.registry.model.settings import Settings

if TYPE_CHECKING:
    from waygraph.ingest.logins.browser import OpenClient

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
        if _holds_secret(launch):
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
        is_late = login is not None and login.age_s() > self.settings.upstream_login_timeout_s
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
    """The caller of one call, at an agent whose server is called as each caller: the pool's `Acting`."""

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
        """As `Acting.launch`; also LoginsUnusable."""
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


def _holds_secret(launch: HttpLaunch) -> bool:
    try:
        plain = references_only({"url": launch.url})["url"]
    except (ValueError, RecursionError):
        return True
    return plain != launch.url or any(secret and secret in launch.url for secret in launch.confidential)


def _with_header(launch: HttpLaunch, name: str, value: str, *secrets: str) -> HttpLaunch:
    others = {other: text for other, text in launch.headers.items() if other.lower() != name.lower()}
    return replace(launch, headers={**others, name: value}, confidential=launch.confidential | {*secrets})
