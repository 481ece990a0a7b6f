"""Sessions of the explorer: a cookie that stands for the key or token which a person showed.

What it stands for is shown anew with every request, so scopes, groups, ends and revocations count as they do for keys.
Browsers send a cookie to every port of a host: a neighbour there may receive it. It is sealed, so the neighbour cannot
read the key; and what changes something needs the mark too, which only pages of this very address keep.
"""

import hmac
import secrets
import time
from base64 import b64encode
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from waygraph.api.rest import problems
from waygraph.api.telemetry.request_log import Application, Receive, Scope, Send
from waygraph.ingest.logins.store import KEY_BYTES, LoginFile
from waygraph.registry.http.addresses import public_address
from waygraph.registry.model.errors import InvalidSetting, LoginsUnusable, NotAllowed
from waygraph.registry.model.settings import Settings

SESSION_S, INVITATION_S = 12 * 3600.0, 60.0
MAX_COOKIE_BYTES = 3_800
"""Browsers keep no cookie of more than 4,096 bytes, its name and attributes included."""
COOKIE = "waygraph"
MARK = "x-csrf-token"
SESSION = "waygraph.browser_session"
"""In the scope of a request whose caller a cookie names."""
OWN_PATHS = ("/v1/", "/explore/")
"""Where a cookie counts: not at the doors of MCP."""
LOGIN_PATH = "/explore/session"
"""There no mark is asked for: who has lost it logs in again, or out. No form sends what it takes."""
_SAFE = ("GET", "HEAD")
_SHARED_KEY = "explorer-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSession:
    """`secret`: a key or a token."""

    secret: str = field(repr=False)
    id: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    ends_at: float = field(default_factory=lambda: time.time() + SESSION_S)

    @property
    def mark(self) -> str:
        """Of the pages that hold this session: no other page knows it."""
        return sha256(f"explorer {self.id}".encode()).hexdigest()

    def is_marked(self, request: Request) -> bool:
        return hmac.compare_digest(request.headers.get(MARK, "").encode(), self.mark.encode())


@dataclass(slots=True, kw_only=True)
class Invitation:
    """`report` is told whether it was used before, by another browser."""

    secret: str = field(repr=False)
    report: Callable[[bool], None]
    ends_at_s: float = field(default_factory=lambda: time.monotonic() + INVITATION_S)
    is_used: bool = False


class BrowserSessions:
    """Seals and opens the cookies of one service. `folder`: what its workers share."""

    def __init__(self, settings: "Settings", folder: Path | None = None) -> None:
        common_key = folder and (folder / _SHARED_KEY).exists() and (folder / _SHARED_KEY).read_text()
        self._file = LoginFile(settings.data_path / "logins.json", settings.login_key or common_key or _new_key())
        self._settings = settings
        self._invitations: dict[str, Invitation] = {}

    def invite(self, secret: str, report: Callable[[bool], None]) -> str:
        """A text that can be shown in place of the secret by one browser, for `INVITATION_S`."""
        self._invitations[text := secrets.token_urlsafe(32)] = Invitation(secret=secret, report=report)
        return text

    def redeem(self, text: str, session: BrowserSession | None) -> str:
        """The secret that an invitation stands for; any other text as it is, and one that has ended.

        `session`: that of the browser which shows it, and may do so again.
        """
        invitation = self._invitations.get(text)
        if invitation is None:
            return text
        is_own = session is not None and hmac.compare_digest(session.secret.encode(), invitation.secret.encode())
        if is_own:
            return invitation.secret
        if invitation.is_used or time.monotonic() <= invitation.ends_at_s:
            is_again, invitation.is_used = invitation.is_used, True
            invitation.report(is_again)
            return text if is_again else invitation.secret
        return text

    def site(self, request: Request) -> str:
        """The address of this service, as this browser knows it. Raises InvalidSetting where that is not told."""
        site = public_address(self._settings.public_url, str(request.base_url))
        if not site:
            raise InvalidSetting("people can log in here when the operator has set WAYGRAPH_PUBLIC_URL")
        return site

    def put(self, response: "Response", request: Request, name: str, content: dict[str, Any], **how: Any) -> None:
        """Sets a cookie, sealed for this service and name. Raises NotAllowed for one that no browser would keep."""
        site = self.site(request)
        cookie = cookie_name(name, site)
        text = self._file.seal_text(content, f"{name} {site}")
        if len(text) > MAX_COOKIE_BYTES:
            raise NotAllowed("this token is too long for a browser to keep: show a key, or one with fewer claims")
        is_safe = site.startswith("https://")
        own_path = {"path": "/"} if is_safe else {}  # as browsers take no other for `__Host-`
        how = {"max_age": int(SESSION_S), "samesite": "strict", "path": "/", **how, **own_path}
        response.set_cookie(cookie, text, secure=is_safe, httponly=True, **how)

    def read(self, request: Request, name: str) -> dict[str, Any]:
        """Empty: there is none, it is by another service or run, or made up. Raises NotAllowed for two of one name."""
        with suppress(InvalidSetting, LoginsUnusable):
            site = self.site(request)
            if text := cookie_of(request, cookie_name(name, site)):
                return self._file.open_text(text, f"{name} {site}")
        return {}

    def drop(self, response: "Response", request: Request, name: str) -> None:
        site = self.site(request)
        response.delete_cookie(cookie_name(name, site), path="/", secure=site.startswith("https://"), httponly=True)

    def find(self, request: Request) -> BrowserSession | None:
        content = self.read(request, COOKIE)
        session = BrowserSession(**content) if content else None
        return session if session and session.ends_at > time.time() else None


class SessionApplication:
    """The application, in which a session's cookie stands for what its person showed."""

    def __init__(self, application: "Application", sessions: BrowserSessions) -> None:
        self._application, self._sessions = application, sessions

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] == "http" and scope["path"].startswith(OWN_PATHS):
            try:
                self._take_cookie(Request(scope))
            except NotAllowed as error:
                await problems.refusal(error, {"Connection": "close"})(scope, receive, send)
                return
        await self._application(scope, receive, send)

    def _take_cookie(self, request: Request) -> None:
        """Raises NotAllowed for a change that no page of this service asks for."""
        if {"authorization", "x-api-key"} & set(request.headers.keys()):
            return
        session = self._sessions.find(request)
        if session is None:
            return
        if request.method not in _SAFE:
            refuse_foreign(request)
            if request.scope["path"] != LOGIN_PATH and not session.is_marked(request):
                raise NotAllowed(
                    f"a change in a session needs its {MARK.title()}: log in again, and ask from the pages"
                )
        request.scope[SESSION] = session
        show_credential(request.scope, session.secret)


def is_of_page(request: Request) -> bool:
    """Whether a page of the explorer sent it, as far as browsers say: over plain http from elsewhere they do not."""
    return SESSION in request.scope or request.headers.get("sec-fetch-site") == "same-origin"


def refuse_foreign(request: Request, welcome: Collection[str] = ()) -> None:
    """Raises NotAllowed for what a page of elsewhere sent, if the browser says so. `welcome`: origins that may."""
    site, origin = request.headers.get("sec-fetch-site", "none"), request.headers.get("origin")
    if site not in ("same-origin", "none") and not {origin, "*"} & {*welcome}:
        raise NotAllowed("a page of another address asked for this")


def show_credential(scope: "Scope", secret: str) -> None:
    """The request shows this key or token from now on."""
    scope["headers"] = [*scope["headers"], (b"authorization", f"Bearer {secret}".encode("latin-1", "replace"))]


def cookie_name(name: str, site: str) -> str:
    """Browsers send a cookie to every port of a host: the name keeps services apart that stand at several."""
    return f"__Host-{name}" if site.startswith("https://") else f"{name}-{urlsplit(site).port or 80}"


def cookie_of(request: Request, name: str) -> str:
    """Raises NotAllowed for two of one name: a neighbour of this host, or below it, may have set one of them."""
    pairs = (part.strip().partition("=") for part in request.headers.get("cookie", "").split(";"))
    values = {value.strip('"') for key, _, value in pairs if key == name}
    if len(values) > 1:
        raise NotAllowed("this browser has two cookies for logins here: remove the cookies of this site, and try again")
    return values.pop() if values else ""


def share_key(folder: Path) -> None:
    """For all workers that use the folder, before they start."""
    (folder / _SHARED_KEY).write_text(_new_key())


def _new_key() -> str:
    return b64encode(secrets.token_bytes(KEY_BYTES)).decode()
