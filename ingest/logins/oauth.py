"""Logging in to an MCP server by OAuth, through the SDK's provider: by what is on disk, else by a person in a browser.

What the SDK forgets over a restart is kept too: when the token ends, and who renews it. Without that every new process
would ask the person again. A login is shared by all connections to its server, of all processes: who changes it does so
alone, and begins with what the others have made of it.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from anyio import to_thread
from anyio.abc import SocketAttribute, SocketStream
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import TokenStorage
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from waygraph.ingest.logins.store import LoginEntry, LoginRefused, login_file, login_text, refusal_code, take_turn
from waygraph.ingest.manifest.records import HttpLaunch
from waygraph.ingest.manifest.redaction import Discretion
from waygraph.registry.model.errors import StorageFailed, UpstreamRefused, UpstreamUnreachable
from waygraph.registry.model.files import write_lock, write_private
from waygraph.registry.model.numbers import FAR_S, read_digits, read_number
from waygraph.registry.model.settings import Settings

# OAuth tokens on disk, one file that its owner alone may read: never in the graph, never in a log.


VERSION = 1
_LOCK_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class TokenFile:
    """What is held for each server. Threads and processes may share the file.

    A server is known by origin and path: on one host may be many, and a token for one is none for the next.
    """

    path: Path
    address: str = field(repr=False)

    def read(self) -> dict[str, Any]:
        """For this server; empty if nothing is held. Raises StorageFailed for a file that is no such file."""
        entry = self._read().get(_key(self.address), {})
        return dict(entry) if isinstance(entry, Mapping) else {}

    def keep(self, **parts: Any) -> None:
        """In place of what was held under these names. Raises RegistryLocked, StorageFailed, UpstreamRefused."""
        with write_lock(self.path, _LOCK_TIMEOUT_S):
            servers = self._read()
            entry = servers[_key(self.address)] = {**servers.get(_key(self.address), {}), **parts}
            login_text(entry)
            self._write(servers)

    def forget(self) -> bool:
        """Whether anything was held for this server. Raises RegistryLocked, StorageFailed."""
        with write_lock(self.path, _LOCK_TIMEOUT_S):
            servers = self._read()
            if (entry := servers.pop(_key(self.address), None)) is not None:
                self._write(servers)
        return entry is not None

    def alone(self, timeout_s: float) -> AbstractAsyncContextManager[None]:
        return take_turn(self.path, _key(self.address), timeout_s)

    def _read(self) -> dict[str, Any]:
        try:
            if (document := json.loads(self.path.read_bytes()))["version"] == VERSION:
                return dict(document["servers"])
        except FileNotFoundError:
            return {}
        except OSError as exc:
            raise StorageFailed(f"{self.path}: cannot be read: {exc.strerror}") from exc
        except (ValueError, KeyError, TypeError):
            pass
        raise StorageFailed(f"{self.path}: is no file of tokens; remove it to log in anew") from None

    def _write(self, servers: Mapping[str, Any]) -> None:
        write_private(self.path, {"version": VERSION, "servers": servers}, indent=1)


def token_file(folder: Path, address: str) -> TokenFile:
    """The file in the data folder."""
    return TokenFile(folder / "tokens.json", address)


def _key(address: str) -> str:
    """Origin and path; no login, no query."""
    parts = urlsplit(address)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{(parts.hostname or '').lower()}{port}{parts.path}"


OpenPage = Callable[[str], None]
"""Shows a person the address of the page where they log in."""

_CALLBACK = "/callback"
_MOST_REQUEST_BYTES = 16 * 1024
_RENEWAL_S = 10.0
"""How long a renewal goes on for a request that was cancelled."""
_SILENT_S = _RENEWAL_S
"""How long its issuer may be silent."""
_TURN_S = 2 * _RENEWAL_S
"""For another connection that is renewing the login; if a person can be asked here, it may be asking them as well."""
_PAGE = "<!doctype html><meta charset=utf-8><title>Waygraph</title><p>{}</p>"


@asynccontextmanager
async def log_in(
    launch: HttpLaunch, settings: Settings, discretion: Discretion, open_page: OpenPage | None
) -> AsyncGenerator[httpx2.Auth]:
    """What puts the token on each request, renews it, and asks for it where there is none; `discretion` learns of it.

    `open_page` None: nobody is there to be asked, and a login that would need one is refused.
    """
    if launch.user:
        entry = LoginEntry(login_file(settings), launch.user, launch.url)
        yield UserProvider(launch.url, TokenStore(entry, discretion), entry)
        return
    token_store = TokenStore(token_file(settings.data_path, launch.url), discretion)
    if open_page is None:
        yield Provider(launch.url, token_store, f"http://127.0.0.1{_CALLBACK}", None, None)
        return
    async with listen_for_callback(settings.upstream_login_timeout_s, token_store.last_port()) as callback:
        yield Provider(launch.url, token_store, callback.address, open_page, callback)


class Place(Protocol):
    """Where one login is kept: `TokenFile`, or a caller's own."""

    def read(self) -> dict[str, Any]: ...

    def keep(self, **parts: Any) -> None: ...

    def alone(self, timeout_s: float) -> AbstractAsyncContextManager[None]:
        """The turn of one who changes it."""
        ...


class TokenStore(TokenStorage):
    """The SDK's storage over a place."""

    def __init__(self, place: Place, discretion: Discretion) -> None:
        self.place, self._discretion = place, discretion
        self.provider: Provider | None = None

    async def get_tokens(self) -> OAuthToken | None:
        if tokens := read_as(OAuthToken, self.place.read().get("tokens")):
            self._discretion.learn(tokens.access_token, tokens.refresh_token)
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._discretion.learn(tokens.access_token, tokens.refresh_token)
        context = self.provider.context if self.provider else None
        metadata = context.oauth_metadata if context else None
        keep = partial(
            self.place.keep,
            tokens=tokens.model_dump(mode="json", exclude_none=True),
            expires_at=None if tokens.expires_in is None else time.time() + tokens.expires_in,
            issuer=metadata.model_dump(mode="json", exclude_none=True) if metadata else None,
        )
        await to_thread.run_sync(keep)  # another process may hold the file for long

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        if client := read_as(OAuthClientInformationFull, self.place.read().get("client")):
            self._discretion.learn(client.client_secret)
        return client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._discretion.learn(client_info.client_secret)
        client = client_info.model_dump(mode="json", exclude_none=True)
        await to_thread.run_sync(partial(self.place.keep, client=client))

    def last_port(self) -> int:
        """To which the last login came back: some issuers insist on the address that was registered. 0: none."""
        client = read_as(OAuthClientInformationFull, self.place.read().get("client"))
        addresses = (client.redirect_uris if client else None) or []
        return next((uri.port for uri in addresses if uri.port), 0)

    def issuer(self) -> tuple[OAuthMetadata | None, float | None]:
        """Who renews the token, and when it ends, in seconds since 1970."""
        content = self.place.read()
        return read_as(OAuthMetadata, content.get("issuer")), read_number(content.get("expires_at"))


class Provider(OAuthClientProvider):
    """The SDK's, that also knows what was known before a restart, and what other connections have got since."""

    def __init__(
        self,
        address: str,
        token_store: TokenStore,
        callback: str,
        open_page: OpenPage | None,
        listener: "Callback | None",
    ) -> None:
        self._token_store, self._callback, self._open_page = token_store, callback, open_page
        self._listener = listener
        self._taken_up: dict[str, Any] = {}
        self.refusal_status = 0
        """The status of the answer for which a login is asked for."""
        self.was_renewed = False
        """Whether that answer refused a token which is newer than the request."""
        token_store.provider = self
        super().__init__(
            address,
            OAuthClientMetadata(client_name="Waygraph", redirect_uris=[AnyUrl(callback)]),
            token_store,
            self._redirect,
            self._result,
        )

    async def _initialize(self) -> None:
        await super()._initialize()
        self.context.oauth_metadata, self.context.token_expiry_time = self._token_store.issuer()
        client = self.context.client_info
        addresses = map(str, client.redirect_uris or ()) if client else ()
        if self._listener and self._callback not in addresses and not self.context.can_refresh_token():
            self.context.client_info = None  # registered for another address: the issuer would refuse this one

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The SDK's, but the request itself goes while nothing is locked: however long it takes, no other waits for it.

        The SDK's own is run for a renewal or a login only, and is left where it would send the request. One that was
        refused goes once more with a token that another connection has got since, before a login is asked for.
        """
        if not self._initialized:
            await self._take_up(anew=True)
        refusal: httpx2.Response | None = None
        is_repeat = has_login = False
        while True:
            if refusal is not None or not self.context.is_token_valid():
                header = request.headers.get("Authorization")
                async with self._alone() as scope, aclosing(super()._auth_flow(request)) as flow:
                    await self._take_up(anew=refusal is None and self.context.current_tokens is None)
                    if refusal is not None and refusal.status_code == 401 and not is_repeat:
                        self._end_token(header)
                    outgoing = await anext(flow)
                    while outgoing is not request:  # a renewal
                        outgoing = await flow.asend((yield outgoing))
                    self._initialized = True  # after one that failed the SDK would read the old token, and try it again
                    if refusal is not None and (is_repeat or request.headers.get("Authorization") == header):
                        scope.shield = False  # a person takes their time, and may leave
                        has_login, self.refusal_status, self.was_renewed = True, refusal.status_code, is_repeat
                        outgoing = await flow.asend(refusal)
                        while outgoing is not request:
                            outgoing = await flow.asend((yield outgoing))
            if self.context.is_token_valid():
                self._add_auth_header(request)
            else:
                await self._go_without_token()
            is_repeat = refusal is not None
            refusal = yield request
            if has_login or not _asks_for_login(refusal):
                return

    async def _go_without_token(self) -> None:
        """Before a request that shows none: the server says where to log in."""

    def _end_token(self, header: str | None) -> None:
        """Whatever its time: if this is the one that was refused, and can be renewed, that is tried first."""
        tokens = self.context.current_tokens
        if tokens and header == f"Bearer {tokens.access_token}" and self.context.can_refresh_token():
            self.context.token_expiry_time = 1.0

    async def _take_up(self, *, anew: bool) -> None:
        """What others have written since. If nobody has, what could not be written here, as on a full disk, stays."""
        content = self._token_store.place.read()
        if anew or content != self._taken_up:
            self._taken_up = content
            await self._initialize()

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[anyio.CancelScope]:
        """For a change of the login, which a cancelled request does not break off before it is written.

        An issuer that gives a new token for an old one takes the old one no more, and may end the login if it comes
        again. After `_RENEWAL_S` the scope's shield falls. Raises UpstreamUnreachable if others take too long.
        """
        async with self._token_store.place.alone(_TURN_S + (self._listener.timeout_s if self._listener else 0.0)):
            with anyio.CancelScope(shield=True) as scope:
                end = asyncio.get_running_loop().call_later(_RENEWAL_S, setattr, scope, "shield", False)
                try:
                    yield scope
                finally:
                    end.cancel()

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(await _with_sound_time(response))

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        return await super()._handle_refresh_response(await _with_sound_time(response))

    async def _refresh_token(self) -> httpx2.Request:
        request = await super()._refresh_token()
        request.extensions["timeout"] = httpx2.Timeout(_SILENT_S).as_dict()
        return request

    async def _redirect(self, page: str) -> None:
        if self._open_page is None:
            raise UpstreamRefused("needs a login by OAuth, and nobody is there to be asked: ingest it once by hand")
        self._open_page(page)

    async def _result(self) -> AuthorizationCodeResult:
        if self._listener is None:
            raise UpstreamRefused("needs a login by OAuth, and nobody is there to be asked: ingest it once by hand")
        answer = await self._listener.result()
        refuse_nameless_issuer(answer.iss, self.context.protected_resource_metadata)
        return answer


class UserProvider(Provider):
    """For the login of a caller, who logs in on a page of ours and never here: a login that has ended is forgotten."""

    def __init__(self, address: str, token_store: TokenStore, entry: LoginEntry) -> None:
        super().__init__(address, token_store, f"http://127.0.0.1{_CALLBACK}", None, None)
        self._entry = entry

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        """Only what the issuer itself refuses has ended; not so where it is the operator's client that it refuses."""
        if response.status_code >= 500 or response.status_code in (408, 429):
            raise UpstreamUnreachable(f"the issuer does not renew the caller's login now (HTTP {response.status_code})")
        client = self.context.client_info
        if b'"invalid_client"' in await response.aread() and client and client.issuer is None:
            raise UpstreamRefused("the issuer refuses the client of [[login]]: look at its client_id and client_secret")
        return await super()._handle_refresh_response(response)

    async def _redirect(self, page: str) -> None:  # noqa: ARG002 - the caller's own page is told instead
        if self.was_renewed and self.refusal_status != 403:  # by its issuer the login lives
            raise LoginRefused("the server refuses the caller's login, which its issuer has just renewed")
        if self.refusal_status != 403:
            await self._go_without_token()
        raise UpstreamRefused("the caller's login does not allow this; forget it, and log in anew with more rights")

    async def _go_without_token(self) -> None:
        """Nobody acts as a caller who is not logged in: the server might let in whoever shows nothing."""
        await to_thread.run_sync(self._entry.forget)
        raise UpstreamRefused("the caller's login has ended")


class Callback:
    """Where the browser comes back to, on a port of the loopback address."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self.address, self.timeout_s = address, timeout_s
        self._came = anyio.Event()
        self._query: dict[str, list[str]] = {}

    async def result(self) -> AuthorizationCodeResult:
        """Raises UpstreamError."""
        with anyio.move_on_after(self.timeout_s):
            await self._came.wait()
        if not self._came.is_set():
            raise UpstreamUnreachable(
                f"nobody logged in within {self.timeout_s:g} s (WAYGRAPH_UPSTREAM_LOGIN_TIMEOUT_S)"
            )
        query = {name: values[0] for name, values in self._query.items()}
        self._came, self._query = anyio.Event(), {}
        if "code" not in query:
            raise UpstreamRefused(f"the login was refused ({refusal_code(query.get('error')) or 'no reason given'})")
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))

    async def answer(self, stream: SocketStream) -> None:
        """One request of a browser."""
        async with stream:
            with anyio.move_on_after(10):
                target = await _target(stream)
                path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
                is_callback = path == _CALLBACK and bool({"code", "error"} & query.keys())
                is_callback = is_callback and all(len(values) == 1 for values in query.values())  # RFC 6749, 3.1
                text = "You are logged in, and can close this page." if "code" in query else "The login was refused."
                status, page = ("200 OK", text) if is_callback else ("404 Not Found", "There is nothing here.")
                body = _PAGE.format(escape(page)).encode()
                head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
                await stream.send(f"{head}Connection: close\r\n\r\n".encode() + body)
                if is_callback and not self._came.is_set():
                    self._query = query
                    self._came.set()


@asynccontextmanager
async def listen_for_callback(timeout_s: float, port: int = 0) -> AsyncGenerator[Callback]:
    """Listens on the port, or on another where that is taken."""
    try:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    except OSError:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    own_port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - a socket's, no database's
    callback = Callback(f"http://127.0.0.1:{own_port}{_CALLBACK}", timeout_s)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, callback.answer)
        yield callback
        tasks.cancel_scope.cancel()


async def _target(stream: SocketStream) -> str:
    """Of a request: `/callback?code=…`. The rest of it is read and not looked at."""
    read = b""
    while b"\r\n\r\n" not in read and len(read) < _MOST_REQUEST_BYTES:
        try:
            read += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            break
    words = read.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    return words[1] if len(words) == 3 and words[0] == "GET" else "/"


def refuse_nameless_issuer(iss: str | None, resource: ProtectedResourceMetadata | None) -> None:
    """RFC 9207, 2.4: of a server with several issuers a code has to say whose it is, else they can be mixed up. What an
    `iss` has to be the SDK checks, and that it is there where the issuer promises it. Raises UpstreamRefused.
    """
    if iss is None and resource is not None and len(set(resource.authorization_servers)) > 1:
        raise UpstreamRefused(
            "the server has several issuers, and the login came back without `iss`, by which they are told apart"
        )


async def _with_sound_time(response: httpx2.Response) -> httpx2.Response:
    """An issuer's answer with a token, without a time to its end that is none: the SDK would calculate with it."""
    try:
        document = json.loads(await response.aread())
    except (ValueError, RecursionError):
        return response
    lifetime = document.get("expires_in") if isinstance(document, dict) else None
    lasts_s = read_digits(lifetime) if isinstance(lifetime, str) else read_number(lifetime, -FAR_S, FAR_S)
    if lifetime is None or (lasts_s is not None and isinstance(lifetime, int)):
        return response
    fitting = document | {"expires_in": None if lasts_s is None else int(lasts_s)}
    return httpx2.Response(response.status_code, json=fitting, request=response.request)


def _asks_for_login(response: httpx2.Response) -> bool:
    """At all, or for more than the token allows."""
    short = response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope"
    return response.status_code == 401 or short


def read_as[T: BaseModel](kind: type[T], value: object) -> T | None:
    """What was kept in a form that is no longer known counts as not kept."""
    try:
        return kind.model_validate(value) if value is not None else None
    except ValidationError:
        return None
