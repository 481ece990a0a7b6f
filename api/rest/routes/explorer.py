"""The explorer: pages for people at `/explore`, and who looks at them."""

import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.routing import Route

from waygraph.api import web
from waygraph.api.rest.browser_sessions import (
    COOKIE,
    LOGIN_PATH,
    SESSION,
    BrowserSession,
    BrowserSessions,
    refuse_foreign,
    show_credential,
)
from waygraph.api.rest.issuer_login import begin_at_issuer, come_from_issuer
from waygraph.api.rest.problems import as_json
from waygraph.api.rest.service import CALLER_KEY, STRANGER, Service
from waygraph.registry.access.visibility import LOCAL, SCOPES, Caller
from waygraph.registry.model.errors import NotAllowed, NotAuthenticated, WaygraphError
from waygraph.registry.storage import export

HOME = "/explore"
CALLBACK = f"{HOME}/login/callback"
TARGET = "explorer"
"""Of logins, in the audit."""
WAY, WAY_S = "waygraph-way", 600
"""The cookie of a browser that is at the issuer."""
FILES = StaticFiles(directory=Path(web.__file__).parent)
EXPORT_FILES = {"drawing.js": StaticFiles(directory=Path(export.__file__).parent)}
"""Also of the exported map, beside which they stand."""
HEADERS = {
    "Cache-Control": "private, no-cache",
    # Only files of this service. Nothing of what the pages show can run, load or be sent elsewhere.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
}


def explorer_routes(service: Service, *, has_gateway: bool) -> list[Route]:
    sessions = BrowserPages(service, has_gateway=has_gateway)
    return [
        Route("/", open_home),
        Route(LOGIN_PATH, sessions.answer, methods=["GET", "POST", "DELETE"]),
        Route(f"{HOME}/login", sessions.go_to_issuer),
        Route(CALLBACK, sessions.come_from_issuer),
        Route(f"{HOME}/files/{{file:path}}", read_file),
        Route(HOME, read_file),
        Route(f"{HOME}/{{path:path}}", read_file),
    ]


class BrowserPages:
    """Who looks at the pages: how they log in and out."""

    def __init__(self, service: Service, *, has_gateway: bool) -> None:
        self._service, self._has_gateway = service, has_gateway

    @property
    def _sessions(self) -> BrowserSessions:
        return self._service.sessions

    async def answer(self, request: Request) -> Response:
        """`GET`: who looks; `POST {"secret": …}`: they show a key or a token; `DELETE`: they log out."""
        steps = {"POST": self._log_in, "DELETE": self._log_out}
        return await steps.get(request.method, self._show)(request)

    async def _show(self, request: Request) -> Response:
        """A session that has ended, or is not this page's, is that of a stranger."""
        session: BrowserSession | None = request.scope.get(SESSION)
        if session and not session.is_marked(request):
            return self._as_json(STRANGER)
        try:
            return self._as_json(await self._service.caller_or_stranger(request))
        except (NotAuthenticated, NotAllowed):
            if not session:
                raise
            response = self._as_json(STRANGER)
            self._sessions.drop(response, request, COOKIE)
            return response

    async def _log_in(self, request: Request) -> Response:
        refuse_foreign(request)
        secret = ""
        if request.headers.get("content-type", "").partition(";")[0].strip() == "application/json":  # as no form sends
            with suppress(ValueError, TypeError, KeyError):
                secret = str(json.loads(await request.body())["secret"]).strip()
        return await self._let_in(request, self._sessions.redeem(secret, request.scope.get(SESSION)))

    async def _let_in(self, request: Request, secret: str, response: Response | None = None) -> Response:
        """Raises NotAuthenticated, NotAllowed for a key of a toolset, TooManyRequests."""
        headers = [each for each in request.scope["headers"] if each[0] not in (b"authorization", b"x-api-key")]
        scope = {**request.scope, "headers": headers, CALLER_KEY: None}
        show_credential(scope, secret)
        session = BrowserSession(secret=secret)
        try:
            caller = await self._service.caller(Request(scope))
        except WaygraphError as error:
            self._service.audit.record(STRANGER, "login", TARGET, "refused", error=type(error).__name__)
            raise
        with self._service.audit.attempt(caller, "login", TARGET):
            if response is None:
                response = self._as_json(caller, csrf=session.mark)
            else:  # a fragment is sent to no server
                response.headers["Location"] += f"#mark={session.mark}"
            self._sessions.put(response, request, COOKIE, asdict(session))
        return response

    async def _log_out(self, request: Request) -> Response:
        """The cookie goes. The key stays good: who is to use it no more revokes it."""
        with self._service.audit.attempt(await self._service.caller_or_stranger(request), "logout", TARGET):
            response = self._as_json(STRANGER)
            self._sessions.drop(response, request, COOKIE)
        return response

    def _as_json(self, caller: Caller, *, csrf: str = "") -> Response:
        asks = self._service.authenticator is not None
        return as_json(
            {
                "known": bool(caller.scopes) or not asks,
                "asks": asks,
                "local": caller is LOCAL,
                "name": caller.name or caller.id,
                "scopes": [scope for scope in SCOPES if scope in caller.scopes],
                "sees_all": caller.sees_everything,
                "csrf": csrf,
                "issuer": bool(self._service.settings.oidc_client_id and asks),
                "calls": self._service.settings.explorer_calls and self._has_gateway,
            }
        )

    # -- by the operator's issuer --------------------------------------------------------------------

    async def go_to_issuer(self, request: Request) -> Response:
        if not self._service.settings.oidc_client_id:
            return await read_file(request)
        try:
            callback = f"{self._sessions.site(request)}{CALLBACK}"
            page, way = await begin_at_issuer(self._service, request, callback, SCOPES)
        except WaygraphError as error:
            return tell_refusal(error)
        response = RedirectResponse(page, 303)
        # The way back begins at another site, from where a browser brings no cookie that is strict.
        self._sessions.put(response, request, WAY, way, max_age=WAY_S, samesite="lax")
        return response

    async def come_from_issuer(self, request: Request) -> Response:
        try:
            callback = f"{self._sessions.site(request)}{CALLBACK}"
            way = self._sessions.read(request, WAY)
            token = await come_from_issuer(self._service, request, callback, way)
            response = await self._let_in(request, token, RedirectResponse(HOME, 303))
        except WaygraphError as error:
            return tell_refusal(error)
        self._sessions.drop(response, request, WAY)
        return response


def tell_refusal(error: WaygraphError) -> Response:
    """A person waits for a page: it shows why they are not let in, to a tab that had left for the issuer."""
    return RedirectResponse(f"{HOME}#refused={quote(str(error), safe='')}", 303)


async def open_home(request: Request) -> Response:
    """Leads a browser to the pages; others find nothing here."""
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(404)
    return RedirectResponse(HOME, 307)


async def read_file(request: Request) -> Response:
    """Or the one document of every page, whose modules read the address. A browser that has it asks with its ETag and
    gets 304.
    """
    path = request.path_params.get("file", "index.html")
    if path.endswith((".py", ".pyc")):
        raise HTTPException(404)
    response = await EXPORT_FILES.get(path, FILES).get_response(path, request.scope)
    response.headers.update(HEADERS)
    return response
