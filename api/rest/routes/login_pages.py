"""`/login/{agent}`: where a caller logs in at an agent's server, with a browser.

Whoever comes first shows which caller they are: a link from somebody else can bind a person's account to nobody but
that person. All that a browser is told to remember lies in one cookie that only this service reads, and every form
carries a mark of that cookie; a login that begins in one browser ends in no other.
"""

import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from hashlib import sha256
from html import escape
from urllib.parse import parse_qsl, quote, urlsplit

from anyio import to_thread
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from waygraph.api.rest.browser_sessions import BrowserSessions
from waygraph.api.rest.issuer_login import begin_at_issuer, come_from_issuer, count_stranger, parameters_of
from waygraph.api.rest.mcp_mount import OfferedGateway
from waygraph.api.rest.problems import problem_of
from waygraph.api.rest.service import Service
from waygraph.ingest.logins.callers import OwnLogins
from waygraph.registry.access.authenticator import RateLimit
from waygraph.registry.access.visibility import LOCAL, Caller
from waygraph.registry.catalog.searchable import open_view
from waygraph.registry.model.errors import NotAllowed, NotAuthenticated, UnknownName, WaygraphError
from waygraph.registry.model.nouns import Agent, Principal

BEGINS_PER_MINUTE, BEGINS_AT_ONCE = 6.0, 10
"""Logins that one caller begins: at each a client may be registered at the server's issuer."""
SESSION_S = 600.0
"""So long a browser is known."""
POLICY = "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; style-src 'unsafe-inline'"
COOKIE = "waygraph-login"
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Waygraph login</title>{head}
<style>body{{font:16px/1.5 sans-serif;max-width:34em;margin:4em auto;padding:0 1em}}</style></head>
<body><h1>{title}</h1>{body}</body></html>"""
_FORM = '<form method="post" action="{action}"><input type="hidden" name="mark" value="{mark}">{fields}</form>'
_BUTTON = '<button name="do" value="{do}">{label}</button>'
_FIELD = '<p><label>{label} <input type="password" name="secret" autocomplete="off" required></label></p>'


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """What the cookie holds. `caller` None: who it is has not been shown. `way`: to the gateway's own issuer."""

    id: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    ends_at: float = field(default_factory=lambda: time.time() + SESSION_S)
    caller: Caller | None = None
    way: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def mark(self) -> str:
        """Of this browser's forms: no other page knows it."""
        return sha256(f"form {self.id}".encode()).hexdigest()

    @classmethod
    def of(cls, content: Mapping[str, object]) -> "Browser":
        """That of a cookie; another one where it has ended, or is none."""
        with suppress(ValidationError):
            browser = _browsers().validate_python(content)
            if browser.ends_at >= time.time():
                return browser
        return cls()


@cache
def _browsers() -> TypeAdapter[Browser]:
    return TypeAdapter(Browser)


def login_routes(service: "Service", gateway: "OfferedGateway") -> list[Route]:
    pages = LoginPages(service, gateway)
    return [
        Route("/login", partial(pages.answer, step=pages.come_back_proven), include_in_schema=False),
        Route("/login/{agent_id}", partial(pages.answer, step=pages.show), include_in_schema=False),
        Route(
            "/login/{agent_id}", partial(pages.answer, step=pages.take_form), methods=["POST"], include_in_schema=False
        ),
        Route("/login/{agent_id}/callback", partial(pages.answer, step=pages.come_back), include_in_schema=False),
    ]


class LoginPages:
    """Every answer is a page; errors too."""

    def __init__(self, service: "Service", gateway: "OfferedGateway") -> None:
        self._service, self._gateway = service, gateway
        self._begins = RateLimit(BEGINS_PER_MINUTE, BEGINS_AT_ONCE)

    async def answer(self, request: Request, step: Callable[["_Visit"], Awaitable[Response]]) -> Response:
        try:
            return await step(await self._visit(request))
        except WaygraphError as error:
            details = problem_of(error)
            # A browser cannot answer a challenge of ours.
            status = 403 if details["status"] == 401 else details["status"]
            return _page("This did not work", f"<p>{escape(details['detail'])}</p>", status)

    async def _visit(self, request: Request) -> "_Visit":
        service = self._service
        site = service.sessions.site(request)
        logins = (await self._gateway.await_gateway()).logins
        logins.file.check_key()
        browser = Browser.of(service.sessions.read(request, COOKIE))
        if service.authenticator is None:
            browser = replace(browser, caller=LOCAL)
        elif browser.caller is not None and not self._counts_still(browser.caller):
            browser = Browser()
        return _Visit(request, logins, browser, service.sessions, site, str(request.path_params.get("agent_id", "")))

    def _counts_still(self, caller: Caller) -> bool:
        """A key may have been revoked since, and a service without authentication may ask for it by now."""
        assert self._service.authenticator is not None  # noqa: S101 - without one everybody is known
        keys = self._service.authenticator.keys
        if caller.id.startswith("oidc:"):
            return bool(self._service.settings.oidc_issuer)
        caller_keys = [key for key in keys.list() if f"key:{key.id}" == caller.id]
        return any(keys.state(key) == "active" and "use" in key.scopes for key in caller_keys)

    async def _with_groups_in_use(self, caller: Caller) -> Caller:
        """Of the caller's groups those that an agent names: the others change nothing, and a cookie holds 4 KiB."""
        if caller.principal is None:
            return caller
        agents = await self._service.lanes.ask(self._service.registry.agents)
        groups = {group for agent in agents for group in agent.visible_to}
        return replace(caller, principal=Principal(groups=tuple(groups.intersection(caller.principal.groups))))

    # -- the page ------------------------------------------------------------------------------------

    async def show(self, visit: "_Visit") -> Response:
        if visit.browser.caller is None:
            return visit.keep(_page("Who are you?", self._proof_form(visit)))
        agent = await self._agent(visit)
        return visit.keep(_page(f"Log in at {agent.name[:100]}", await self._consent_form(visit, agent)))

    def _proof_form(self, visit: "_Visit") -> str:
        """It says nothing of the agent: who asks has not shown that they may know of it."""
        by_issuer = "<p>Log in where you log in for this gateway.</p>" + _BUTTON.format(do="issuer", label="Go there")
        by_key = _FIELD.format(label="Your API key or token of this gateway:") + _BUTTON.format(
            do="prove", label="Continue"
        )
        forms = [by_issuer] if self._service.settings.oidc_client_id else []
        return "".join(visit.form(fields) for fields in (*forms, by_key))

    async def _consent_form(self, visit: "_Visit", agent: Agent) -> str:
        caller, rule = visit.caller, visit.logins.rule(agent.id)
        who = f"{escape(caller.name)} ({escape(caller.id)})" if caller.name else escape(caller.id)
        assert rule is not None  # noqa: S101 - `_agent` looked
        if not rule.takes_login:
            return f"<p>You are {who}. This agent's server is called as you, and there is nothing to do.</p>"
        _, launch = await visit.logins.server_of(agent)
        parts = urlsplit(launch.url)
        is_in = visit.logins.file.find(caller.id, agent.id, launch.url) is not None
        text = (
            f"<p>You are {who}. Tools of the agent <b>{escape(agent.id)}</b> will act with your account at "
            f"<b>{escape(parts.netloc.rpartition('@')[2])}</b>, in calls that you make through this gateway and in no "
            "others.</p>"
        )
        text += "<p>You are logged in there now.</p>" if is_in else ""
        if rule.by == "oauth":
            fields = _BUTTON.format(do="begin", label="Log in with another account" if is_in else "Log in there")
        else:
            fields = _FIELD.format(label="Your key there:") + _BUTTON.format(do="key", label="Keep it")
        end = visit.form(_BUTTON.format(do="forget", label="Log out")) if is_in else ""
        return text + visit.form(fields) + end

    async def _agent(self, visit: "_Visit") -> Agent:
        """That the caller may see, and is called as each caller. Raises UnknownName for any other."""
        registry, caller = self._service.registry, visit.caller

        def look_up() -> Agent:
            view = open_view(registry, "", caller.principal, only=caller.toolset)
            return view.registry.agent(visit.agent_id, principal=caller.principal)

        agent = await self._service.lanes.ask(look_up)
        if visit.logins.rule(agent.id) is None:
            raise UnknownName("agent with logins of callers", visit.agent_id, ())
        return agent

    # -- its forms -----------------------------------------------------------------------------------

    async def take_form(self, visit: "_Visit") -> Response:
        request, browser = visit.request, visit.browser
        fields = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
        from_elsewhere = request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
        if from_elsewhere or not hmac.compare_digest(fields.get("mark", "").encode(), browser.mark.encode()):
            raise NotAllowed("this form is not of this browser, or too old: open the page again")
        do, secret = fields.get("do", ""), fields.get("secret", "")
        if do == "prove":
            return await self._prove(visit, secret)
        if do == "issuer":
            return await self._go_to_issuer(visit)
        caller = visit.caller
        self._service.count(caller)
        agent = await self._agent(visit)
        if do == "begin":
            self._begins.take(caller.id)
            page = await visit.logins.begin(caller.id, agent, visit.callback, browser.id)
            return visit.keep(leave_page(page))
        with self._service.audit.attempt(caller, "logout" if do == "forget" else "login", agent.id):
            if do == "forget":
                await to_thread.run_sync(visit.logins.file.forget, caller.id, agent.id)
                return visit.keep(_page("You are logged out", "<p>Calls act with your account no more.</p>"))
            if do == "key":
                await visit.logins.set_key(caller.id, agent, secret)
                return visit.keep(_page("You are logged in", _LOGIN_DONE))
        raise NotAllowed("this form asks for nothing that there is")

    async def _prove(self, visit: "_Visit", secret: str) -> Response:
        """By an API key, or a bearer token. Raises NotAuthenticated."""
        authenticator, service = self._service.authenticator, self._service
        assert authenticator is not None  # noqa: S101 - without one everybody is known
        try:
            caller = await service.lanes.wait(lambda: authenticator.caller(f"Bearer {secret.strip()}", None))
        except NotAuthenticated:
            count_stranger(service, visit.request)
            raise
        return await self._let_in(visit, caller, visit.agent_id)

    async def _let_in(self, visit: "_Visit", caller: Caller, agent_id: str) -> Response:
        """Raises NotAllowed for one who may call nothing, so that a login would serve nobody."""
        caller.require("use")
        return visit.go_on_as(await self._with_groups_in_use(caller), agent_id)

    async def _go_to_issuer(self, visit: "_Visit") -> Response:
        page, way = await begin_at_issuer(self._service, visit.request, f"{visit.site}/login", ("use",))
        browser = replace(visit.browser, way={**way, "agent": visit.agent_id})
        return replace(visit, browser=browser).keep(leave_page(page))

    async def come_back_proven(self, visit: "_Visit") -> Response:
        """From the gateway's own issuer."""
        way, authenticator = visit.browser.way, self._service.authenticator
        token = await come_from_issuer(self._service, visit.request, f"{visit.site}/login", way)
        assert authenticator is not None  # noqa: S101
        caller = await self._service.lanes.wait(lambda: authenticator.caller(f"Bearer {token}", None))
        return await self._let_in(visit, caller, way["agent"])

    async def come_back(self, visit: "_Visit") -> Response:
        """From the issuer of the agent's server."""
        if visit.browser.caller is None:
            raise NotAllowed("this login was not begun in this browser, or too long ago: begin it again")
        caller, agent = visit.caller, await self._agent(visit)
        with self._service.audit.attempt(caller, "login", agent.id):
            query = parameters_of(visit.request)
            page = await visit.logins.finish(caller.id, agent, visit.callback, visit.browser.id, query)
        return visit.keep(leave_page(page) if page else _page("You are logged in", _LOGIN_DONE))


_LOGIN_DONE = "<p>Tools of this agent act with your account in calls that you make. You can close this page.</p>"


@dataclass(frozen=True, slots=True)
class _Visit:
    """One request of a browser. `site`: the address of this service, as people know it."""

    request: Request
    logins: "OwnLogins"
    browser: Browser
    sessions: "BrowserSessions"
    site: str
    agent_id: str

    @property
    def caller(self) -> Caller:
        """Raises NotAuthenticated."""
        if self.browser.caller is None:
            raise NotAuthenticated("it is not known who you are, or no longer: open the page again")
        return self.browser.caller

    @property
    def callback(self) -> str:
        """Of this agent alone: an issuer that sends a code to another agent's address gets nothing for it."""
        return f"{self.site}/login/{quote(self.agent_id)}/callback"

    def form(self, fields: str) -> str:
        return _FORM.format(action=f"{self.site}/login/{quote(self.agent_id)}", mark=self.browser.mark, fields=fields)

    def go_on_as(self, caller: Caller, agent_id: str) -> Response:
        """Back to the agent's page, under another id than before it was known who it is."""
        visit = replace(self, browser=Browser(caller=replace(caller, scopes=frozenset())))
        return visit.keep(RedirectResponse(f"{self.site}/login/{quote(agent_id)}", 303))

    def keep(self, response: Response) -> Response:
        content = _browsers().dump_python(self.browser, mode="json")
        how = {"max_age": int(SESSION_S), "samesite": "lax", "path": "/login"}
        self.sessions.put(response, self.request, COOKIE, content, **how)
        return response


def leave_page(address: str) -> Response:
    """A page that goes on to an address elsewhere: a form may lead nowhere but to this service."""
    link, host = escape(address), escape(urlsplit(address).netloc)
    head = f'<meta http-equiv="refresh" content="0;url={link}">'
    return _page("You are being led to the login page", f'<p>Go on to <a href="{link}">{host}</a>.</p>', head=head)


def _page(title: str, body: str, status: int = 200, *, head: str = "") -> Response:
    content = _PAGE.format(head=head, title=escape(title), body=body)
    return HTMLResponse(content, status, {"Content-Security-Policy": POLICY})
