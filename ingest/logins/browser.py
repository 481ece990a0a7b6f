"""A caller's login by OAuth in two halves: to the issuer's page, and back from it, in whichever process that may be.

What the second half needs of the first (the code verifier, the client, the issuer's documents) is handed out, and is
kept encrypted in between.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.utils import issuers_match, validate_authorization_response_iss
from mcp.shared.auth import AuthorizationCodeResult, OAuthMetadata, ProtectedResourceMetadata
from mcp.types import LATEST_PROTOCOL_VERSION

from waygraph.ingest.logins.oauth import Provider, TokenStore, read_as, read_token_answer, refuse_nameless_issuer
from waygraph.ingest.manifest.records import HttpLaunch
from waygraph.ingest.manifest.redaction import Discretion, discretion
from waygraph.registry.model.errors import UpstreamError, UpstreamRefused, UpstreamUnreachable
from waygraph.registry.model.settings import Settings

_ABOUT_US = {"protocolVersion": LATEST_PROTOCOL_VERSION, "capabilities": {}}
_FIRST = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
"""What a server that wants a login does not answer."""


@dataclass(frozen=True, slots=True)
class LoginStart:
    """Where the person goes on, and what to bring when they come back with this `state`."""

    page: str = field(repr=False)
    state: str = field(repr=False)
    content: Mapping[str, Any] = field(repr=False)


class OpenClient(Protocol):
    """A client for the requests of one login, at the server and at its issuer."""

    def __call__(
        self, launch: HttpLaunch, settings: Settings, discretion: Discretion, auth: httpx2.Auth | None
    ) -> AbstractAsyncContextManager[httpx2.AsyncClient]:
        """Raises UpstreamError at its end if the server could not be asked."""
        ...


async def begin_login(
    open_client: OpenClient,
    launch: HttpLaunch,
    settings: Settings,
    callback: str,
    *,
    refusals: Mapping[str, Any],
    client: Mapping[str, Any] | None = None,
    issuer: str = "",
) -> LoginStart:
    """Asks the server, which names its issuer, and registers there. `client`: one that was registered by hand, whose
    secret any issuer gets that the server names; with `issuer`, no other one. `refusals`: as `ask_less` has it.

    Raises UpstreamError.
    """
    draft = _Draft({"client": client, "refusals": refusals})
    discreet = discretion(launch)
    provider = _Leaving(launch.url, TokenStore(draft, discreet), callback, issuer)
    headers = {"accept": "application/json, text/event-stream"}
    message = {**_FIRST, "params": {**_ABOUT_US, "clientInfo": {"name": "waygraph", "version": "1"}}}
    try:
        with anyio.move_on_after(settings.upstream_connect_timeout_s) as scope:
            async with open_client(launch, settings, discreet, provider) as http:
                is_sse = launch.form == "sse"
                request = http.build_request(
                    "GET" if is_sse else "POST", launch.url, json=None if is_sse else message, headers=headers
                )
                await (await http.send(request, stream=True)).aclose()
    except UpstreamError:
        if not provider.verifier:
            raise
    if scope.cancelled_caught:
        raise UpstreamUnreachable(f"it did not say where to log in within {settings.upstream_connect_timeout_s:g} s")
    if provider.verifier:
        return LoginStart(provider.page, provider.state, {**draft.parts, **provider.content})
    raise UpstreamRefused("the server asks for no login")


async def finish_login(
    open_client: OpenClient,
    launch: HttpLaunch,
    settings: Settings,
    callback: str,
    content: Mapping[str, Any],
    *,
    code: str,
    iss: str | None,
) -> Mapping[str, Any]:
    """What is kept of the login: its tokens, and who renews them. Raises UpstreamError, which quotes nobody."""
    draft = _Draft({"client": content["client"], "refusals": content.get("refusals")})
    discreet = discretion(launch)
    provider = Provider(launch.url, TokenStore(draft, discreet), callback)
    await provider._initialize()
    context = provider.context
    context.oauth_metadata = read_as(OAuthMetadata, content["metadata"])
    context.protected_resource_metadata = read_as(ProtectedResourceMetadata, content["resource"])
    context.client_metadata.scope = content["scope"]
    try:
        validate_authorization_response_iss(iss, context.oauth_metadata)
        refuse_nameless_issuer(iss, context.protected_resource_metadata)
        request = await provider._exchange_token_authorization_code(code, content["verifier"])
        with anyio.move_on_after(settings.upstream_connect_timeout_s):
            async with open_client(launch, settings, discreet, None) as http:
                send = partial(httpx2.AsyncClient.send, http)  # to the issuer, as any request of a login
                answer = await read_token_answer(await send(request))
                if again := await provider.without_resource(request, answer):
                    answer = await read_token_answer(await send(again))
                await provider._handle_token_response(answer)
            return draft.parts
    except OAuthFlowError:  # its text has the issuer's words
        raise UpstreamRefused("the issuer gave no token for this login") from None
    except UpstreamError:
        raise
    except (httpx2.HTTPError, httpx2.StreamError, ValueError) as exc:
        raise UpstreamUnreachable(f"the issuer did not answer as it should ({type(exc).__name__})") from None
    raise UpstreamUnreachable(f"the issuer did not answer within {settings.upstream_connect_timeout_s:g} s")


@dataclass(frozen=True, slots=True)
class _Draft:
    """A login in memory, as yet nobody's."""

    parts: dict[str, Any] = field(repr=False)

    def read(self) -> dict[str, Any]:
        return dict(self.parts)

    def keep(self, **parts: Any) -> None:
        self.parts.update(parts)

    def alone(self, timeout_s: float) -> AbstractAsyncContextManager[None]:  # noqa: ARG002 - nobody else has it
        return nullcontext()


class _Leaving(Provider):
    """Stops where a person goes to the issuer's page, with all that is needed to go on from there."""

    register_by_hand = "write client_id into its [[login]] of the services file"

    def __init__(self, address: str, token_store: TokenStore, callback: str, issuer: str) -> None:
        super().__init__(address, token_store, callback)
        self._issuer = issuer
        self.page = self.state = self.verifier = ""
        self.content: dict[str, Any] = {}

    async def _redirect(self, page: str) -> None:
        if urlsplit(page).scheme not in ("http", "https"):
            raise UpstreamRefused("its issuer's page is at no address of the web")
        metadata = self.context.oauth_metadata
        if self._issuer and not (metadata and issuers_match(str(metadata.issuer), self._issuer)):
            raise UpstreamRefused("its issuer is another one than [[login]] names")
        self.page, self.state = page, parse_qs(urlsplit(page).query)["state"][-1]

    async def _result(self) -> AuthorizationCodeResult:
        """None has come yet: by this the SDK goes on to where it would redeem a code."""
        metadata = self.context.oauth_metadata
        return AuthorizationCodeResult(code="-", state=self.state, iss=str(metadata.issuer) if metadata else None)

    async def _exchange_token_authorization_code(self, auth_code: str, code_verifier: str) -> httpx2.Request:  # noqa: ARG002
        metadata, resource = self.context.oauth_metadata, self.context.protected_resource_metadata
        self.verifier = code_verifier
        self.content = {
            "verifier": code_verifier,
            "metadata": metadata.model_dump(mode="json", exclude_none=True) if metadata else None,
            "resource": resource.model_dump(mode="json", exclude_none=True) if resource else None,
            "scope": self.context.client_metadata.scope,
        }
        raise UpstreamRefused("a person goes on at the issuer's page")
