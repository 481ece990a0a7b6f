"""Logging in to an MCP server by OAuth, through the SDK's provider: by what is on disk, else by a person in a browser.

What the SDK forgets over a restart is kept too: when the token ends, and who renews it. Without that every new process
would ask the person again. A login is shared by all connections to its server, of all processes: who changes it does so
alone, and begins with what the others have made of it.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import anyio
import httpx2
from anyio import to_thread
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import OAuthContext, TokenStorage
from mcp.client.auth.utils import create_client_registration_request, extract_field_from_www_auth
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from waygraph.ingest.logins import store
from waygraph.ingest.manifest.records import LOGIN_TIMEOUT_S, HttpLaunch, OAuthClient
from waygraph.ingest.manifest.redaction import Discretion
from waygraph.registry.model.errors import StorageFailed, UpstreamRefused, UpstreamUnreachable
from waygraph.registry.model.files import content_if_there, write_lock, write_private
from waygraph.registry.model.numbers import read_number
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
            store.login_text(entry)
            self._write(servers)

    def forget(self) -> bool:
        """Whether anything was held for this server. Raises RegistryLocked, StorageFailed."""
        with write_lock(self.path, _LOCK_TIMEOUT_S):
            servers = self._read()
            if (entry := servers.pop(_key(self.address), None)) is not None:
                self._write(servers)
        return entry is not None

    def alone(self, timeout_s: float) -> AbstractAsyncContextManager[None]:
        return store.take_turn(self.path, _key(self.address), timeout_s)

    def _read(self) -> dict[str, Any]:
        if (content := content_if_there(self.path)) is None:
            return {}
        with suppress(ValueError, KeyError, TypeError):
            if (document := json.loads(content))["version"] == VERSION:
                return dict(document["servers"])
        raise StorageFailed(f"{self.path}: is no file of tokens; remove it to log in anew")

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
_NO_CALLBACK = f"http://127.0.0.1{_CALLBACK}"
_BASIC, _POST, _OFFLINE = "client_secret_basic", "client_secret_post", "offline_access"
_OF_LOGIN = frozenset("response_type client_id redirect_uri state code_challenge code_challenge_method".split())
"""Parameters on which the login's safety rests: no address of an issuer says them in our place."""
_ERROR = re.compile(r'"error"\s*:\s*"([\w.-]{1,60})"', re.ASCII)
_MOST_REQUEST_BYTES = 16 * 1024
_RENEWAL_S = 10.0
"""How long a renewal goes on for a request that was cancelled."""
_SILENT_S = _RENEWAL_S
"""How long its issuer may be silent."""
_TURN_S = 2 * _RENEWAL_S
"""For another connection that is renewing the login; if a person can be asked here, it may be asking them as well."""
_PAGE = "<!doctype html><meta charset=utf-8><title>Waygraph</title><p>{}</p>"


def log_in(launch: HttpLaunch, settings: Settings, discretion: Discretion, open_page: OpenPage | None) -> httpx2.Auth:
    """What puts the token on each request, renews it, and asks for it where there is none; `discretion` learns of it.

    `open_page` None: nobody is there to be asked, and a login that would need one is refused.
    """
    if launch.user:
        entry = store.LoginEntry(store.login_file(settings), launch.user, launch.url)
        return UserProvider(launch.url, TokenStore(entry, discretion), entry)
    place, client = token_file(settings.data_path, launch.url), launch.oauth_client
    if client and place.read().get("client") != client.record:
        place.keep(client=client.record)
    way = LoginWay(open_page, LOGIN_TIMEOUT_S, client) if open_page else None
    return Provider(launch.url, TokenStore(place, discretion), way=way)


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

    def issuer(self) -> tuple[OAuthMetadata | None, float | None]:
        """Who renews the token, and when it ends, in seconds since 1970."""
        content = self.place.read()
        return read_as(OAuthMetadata, content.get("issuer")), read_number(content.get("expires_at"))


@dataclass(frozen=True, slots=True)
class LoginWay:
    """How a person on this machine logs in. `client`: the one that they registered by hand."""

    open_page: OpenPage
    timeout_s: float
    client: OAuthClient | None


class _Context(OAuthContext):
    """The SDK's, that omits what the issuer refused, and shows a secret in a way that the issuer knows."""

    refusals: Mapping[str, Any] = MappingProxyType({})
    """As `ask_less` has it."""

    def should_include_resource_param(self, protocol_version: str | None = None) -> bool:
        return not self.refusals.get("resource") and super().should_include_resource_param(protocol_version)

    def prepare_token_auth(
        self, data: dict[str, str], headers: dict[str, str] | None = None
    ) -> tuple[dict[str, str], dict[str, str]]:
        methods = (self.oauth_metadata and self.oauth_metadata.token_endpoint_auth_methods_supported) or [_BASIC]
        client = self.client_info
        if client and client.token_endpoint_auth_method == _BASIC and _BASIC not in methods and _POST in methods:
            self.client_info = client.model_copy(update={"token_endpoint_auth_method": _POST})
        return super().prepare_token_auth(data, headers)


class Provider(OAuthClientProvider):
    """The SDK's, that also knows what was known before a restart, and what other connections have got since.

    `way` None: nobody is there to be asked.
    """

    context: _Context
    register_by_hand = 'write "oauth": {"clientId": "…"} into the entry of the server'
    """What a person does with the id of a client."""

    def __init__(
        self, address: str, token_store: TokenStore, callback: str = _NO_CALLBACK, way: LoginWay | None = None
    ) -> None:
        self._token_store, self._way = token_store, way
        self._callback: Callback | None = None
        self._failure: Exception | None = None
        """Of the login: one connection asks a person once, however many of its requests need one."""
        self._taken_up: dict[str, Any] = {}
        self.refusal_status = 0
        """The status of the answer for which a login is asked for."""
        self.was_renewed = False
        """Whether that answer refused a token which is newer than the request."""
        token_store.provider = self
        metadata = OAuthClientMetadata(client_name="Waygraph", redirect_uris=[AnyUrl(callback)])
        super().__init__(address, metadata, token_store, self._lead, self._result)
        self.context = _Context(**vars(self.context))

    async def _initialize(self) -> None:
        await super()._initialize()
        self.context.oauth_metadata, self.context.token_expiry_time = self._token_store.issuer()
        self.context.refusals = self._token_store.place.read().get("refusals") or {}

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
                async with self._alone() as scope, aclosing(self._mended_flow(request)) as flow:
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
                        async with self._listen():
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

    async def _mended_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The SDK's flow. A registration and a request of a token go once more, with less, where that may help."""
        async with aclosing(super()._auth_flow(request)) as flow:
            outgoing = await anext(flow)
            while True:
                kind = outgoing.headers.get("content-type", "") if outgoing.method == "POST" else ""
                if outgoing is request or not kind:
                    answer = yield outgoing
                elif kind == "application/json":
                    answer = yield self._registration()
                    if answer.status_code == 400 and self._change_scope():
                        answer = yield self._registration()
                    if answer.status_code not in (200, 201):
                        await answer.aread()
                        raise self._no_client(f"refuses to register one (HTTP {answer.status_code})")
                else:
                    answer = await read_token_answer((yield outgoing))
                    if again := await self.without_resource(outgoing, answer):
                        answer = await read_token_answer((yield again))
                    client = self.context.client_info
                    if client and client.issuer and error_in(answer.text) == "invalid_client":
                        self.context.client_info = None  # the issuer has forgotten it: the next login registers anew
                outgoing = await flow.asend(answer)

    def _registration(self) -> httpx2.Request:
        """Raises UpstreamRefused if the issuer registers nobody."""
        context = self.context
        if context.oauth_metadata and context.oauth_metadata.registration_endpoint is None:
            raise self._no_client("registers none")
        self._narrow_scope()
        origin = context.get_authorization_base_url(context.server_url)
        return create_client_registration_request(context.oauth_metadata, context.client_metadata, origin)

    def _change_scope(self) -> bool:
        """For a second try to register: without scopes, or with those of the issuer if there were none."""
        metadata, former = self.context.oauth_metadata, self.context.client_metadata.scope
        scopes = [] if former else (metadata and metadata.scopes_supported) or []
        self.context.client_metadata.scope = " ".join(scopes) or None
        return self.context.client_metadata.scope != former

    def _no_client(self, reason: str) -> UpstreamRefused:
        metadata, context = self.context.oauth_metadata, self.context
        issuer = f" {metadata.issuer.host}" if metadata else ""
        documents = metadata and metadata.client_id_metadata_document_supported
        ids = "its id, or the https address of a document that describes it" if documents else "its id"
        return UpstreamRefused(
            f"needs a client, and the issuer{issuer} {reason}: register one there by hand, which returns to "
            f"{', '.join(map(str, context.client_metadata.redirect_uris or ()))}, and {self.register_by_hand} ({ids})"
        )

    def _narrow_scope(self) -> None:
        """Raises UpstreamRefused if the server demands what its issuer refused before."""
        scopes = (self.context.client_metadata.scope or "").split()
        others = [scope for scope in scopes if scope not in self.context.refusals.get("scopes", ())]
        if scopes and not others and self.refusal_status == 403:
            raise UpstreamRefused("the server demands scopes that its issuer refuses (invalid_scope): ask its operator")
        self.context.client_metadata.scope = " ".join(others) or None

    async def without_resource(self, request: httpx2.Request, answer: httpx2.Response) -> httpx2.Request | None:
        """The request of a token without `resource`, if the issuer refuses that; None: there is no other try."""
        if self.context.refusals.get("resource") or error_in(answer.text) != "invalid_target":
            return None
        await self._keep_refusals({**self.context.refusals, "resource": True})
        data = dict(parse_qsl(request.content.decode(), keep_blank_values=True))
        data.pop("resource", None)
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        return httpx2.Request("POST", request.url, data=data, headers=headers, extensions=request.extensions)

    async def _keep_refusals(self, refusals: Mapping[str, Any]) -> None:
        self.context.refusals = refusals
        await to_thread.run_sync(partial(self._token_store.place.keep, refusals=refusals))

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        """Asks for less where the issuer refuses a scope or the resource. Each is refused once, so that it ends."""
        while True:
            self._narrow_scope()
            try:
                return await super()._perform_authorization_code_grant()
            except AuthorizationRefused as refusal:
                scope = self.context.client_metadata.scope
                if (less := ask_less(self.context.refusals, scope, refusal.code)) is None:
                    raise
                await self._keep_refusals(less)

    @asynccontextmanager
    async def _listen(self) -> AsyncGenerator[None]:
        """For the browser of the person who logs in. Some issuers insist on the address that was registered, so that a
        client of another one, or whose secret has ended, is registered anew; so is one whose login failed.
        """
        if self._way is None:
            yield
            return
        if self._failure:
            raise self._failure
        by_hand, client = self._way.client, self.context.client_info
        addresses = (client.redirect_uris if client else None) or []
        port = by_hand.callback_port if by_hand else next((uri.port for uri in addresses if uri.port), 0)
        async with listen_for_callback(self._way.timeout_s, port, is_fixed=bool(by_hand and port)) as self._callback:
            address = AnyUrl(self._callback.address)
            self.context.client_metadata.redirect_uris = [address]
            secret_end_s = client.client_secret_expires_at if client else None
            if not by_hand and (address not in addresses or (secret_end_s and secret_end_s <= time.time())):
                self.context.client_info = None
            try:
                yield
            except Exception as exc:
                self._failure = exc
                if not by_hand:
                    self.context.client_info = None
                    await to_thread.run_sync(partial(self._token_store.place.keep, client=None))
                raise

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
        async with self._token_store.place.alone(_TURN_S + (self._way.timeout_s if self._way else 0.0)):
            with anyio.CancelScope(shield=True) as scope:
                end = asyncio.get_running_loop().call_later(_RENEWAL_S, setattr, scope, "shield", False)
                try:
                    yield scope
                finally:
                    end.cancel()

    async def _refresh_token(self) -> httpx2.Request:
        request = await super()._refresh_token()
        request.extensions["timeout"] = httpx2.Timeout(_SILENT_S).as_dict()
        return request

    async def _lead(self, page: str) -> None:
        """Parameters that the address of the issuer's page has already stay, and none comes twice (RFC 6749, 3.1)."""
        metadata = self.context.oauth_metadata
        endpoint, mark, query = str(metadata.authorization_endpoint if metadata else "").partition("?")
        if mark:
            own = dict(parse_qsl(page.removeprefix(f"{endpoint}?{query}?")))
            others = {name: value for name, value in parse_qsl(query) if name not in _OF_LOGIN}
            page = f"{endpoint}?{urlencode(own | others)}"
        await self._redirect(page)

    async def _redirect(self, page: str) -> None:
        if self._way is None:
            raise UpstreamRefused("needs a login by OAuth, and nobody is there to be asked: ingest it once by hand")
        self._way.open_page(page)

    async def _result(self) -> AuthorizationCodeResult:
        assert self._callback is not None  # noqa: S101 - a page was opened
        answer = await self._callback.query()
        if "code" not in answer:
            raise AuthorizationRefused(answer)
        refuse_nameless_issuer(answer.get("iss"), self.context.protected_resource_metadata)
        return AuthorizationCodeResult(code=answer["code"], state=answer.get("state"), iss=answer.get("iss"))


class UserProvider(Provider):
    """For the login of a caller, who logs in on a page of ours and never here: a login that has ended is forgotten."""

    def __init__(self, address: str, token_store: TokenStore, entry: store.LoginEntry) -> None:
        super().__init__(address, token_store)
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
            raise store.LoginRefused("the server refuses the caller's login, which its issuer has just renewed")
        if self.refusal_status != 403:
            await self._go_without_token()
        raise UpstreamRefused("the caller's login does not allow this; forget it, and log in anew with more rights")

    async def _go_without_token(self) -> None:
        """Nobody acts as a caller who is not logged in: the server might let in whoever shows nothing."""
        await to_thread.run_sync(self._entry.forget)
        raise UpstreamRefused("the caller's login has ended")


class Callback:
    """Where the browser comes back to, on a port of the loopback address."""

    def __init__(self, timeout_s: float) -> None:
        self.address, self._timeout_s = "", timeout_s
        self._answers: asyncio.Queue[dict[str, str]] = asyncio.Queue(1)

    async def query(self) -> dict[str, str]:
        """The parameters of the next answer, with a code or an error. Raises UpstreamUnreachable."""
        with anyio.move_on_after(self._timeout_s):
            return await self._answers.get()
        raise UpstreamUnreachable(f"nobody came back from the login to {self.address} within {self._timeout_s:g} s")

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request of a browser, which may also say nothing, too much, or go away."""
        with suppress(TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError), closing(writer):
            async with asyncio.timeout(_SILENT_S):
                words = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0].decode("latin-1").split(" ")
                target = urlsplit(words[1] if len(words) == 3 and words[0] == "GET" else "/")
                query = parse_qs(target.query)
                is_callback = target.path == _CALLBACK and bool({"code", "error"} & query.keys())
                is_callback = is_callback and all(len(values) == 1 for values in query.values())  # RFC 6749, 3.1
                text = "You are logged in, and can close this page." if "code" in query else "The login was refused."
                status, page = ("200 OK", text) if is_callback else ("404 Not Found", "There is nothing here.")
                body = _PAGE.format(escape(page)).encode()
                head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
                writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
                await writer.drain()
                if is_callback and not self._answers.full():
                    self._answers.put_nowait({name: values[0] for name, values in query.items()})


@asynccontextmanager
async def listen_for_callback(timeout_s: float, port: int = 0, *, is_fixed: bool = False) -> AsyncGenerator[Callback]:
    """Listens on the port, or on another where that is taken, unless it `is_fixed`. Raises UpstreamRefused."""
    callback = Callback(timeout_s)
    listen = partial(asyncio.start_server, callback.answer, "127.0.0.1", limit=_MOST_REQUEST_BYTES)
    try:
        server = await listen(port)
    except OSError as exc:
        if is_fixed:
            raise UpstreamRefused(
                f"the login has to come back to port {port} of 127.0.0.1, which is not free ({exc.strerror}): end the "
                "program that listens there, or register the client with another port"
            ) from exc
        server = await listen(0)
    callback.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{_CALLBACK}"
    try:
        yield callback
    finally:
        server.close()


def refuse_nameless_issuer(iss: str | None, resource: ProtectedResourceMetadata | None) -> None:
    """RFC 9207, 2.4: of a server with several issuers a code has to say whose it is, else they can be mixed up. What an
    `iss` has to be the SDK checks, and that it is there where the issuer promises it. Raises UpstreamRefused.
    """
    if iss is None and resource is not None and len(set(resource.authorization_servers)) > 1:
        raise UpstreamRefused(
            "the server has several issuers, and the login came back without `iss`, by which they are told apart"
        )


class AuthorizationRefused(UpstreamRefused):
    """The issuer sent the browser back with an error. `code`: as RFC 6749, 4.1.2.1 has it; empty for another text."""

    def __init__(self, answer: Mapping[str, str]) -> None:
        self.code = store.refusal_code(answer.get("error"))
        super().__init__(f"the login was refused ({self.code or 'no reason given'})")


def ask_less(refusals: Mapping[str, Any], scope: str | None, code: str) -> dict[str, Any] | None:
    """What an issuer refused, after one more refusal, and is not asked for again: `scopes`, and whether `resource`.

    None: nothing is left to omit.
    """
    scopes = (scope or "").split()
    if code == "invalid_scope" and scopes:
        optional = [_OFFLINE] if _OFFLINE in scopes else scopes
        return {**refusals, "scopes": [*refusals.get("scopes", ()), *optional]}
    if code == "invalid_target" and not refusals.get("resource"):
        return {**refusals, "resource": True}
    return None


async def read_token_answer(response: httpx2.Response) -> httpx2.Response:
    """Return an issuer's answer as the SDK reads it (`read_token`); one without a token or an error as it came."""
    status, fields = store.read_token(response.status_code, await response.aread())
    return httpx2.Response(status, json=fields, request=response.request) if fields else response


def error_in(text: str) -> str:
    """The code that an issuer's answer says, as RFC 6749, 5.2 has it; empty for none."""
    code = _ERROR.search(text)
    return code[1] if code else ""


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
