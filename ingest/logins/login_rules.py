"""Which agents' servers are called as each caller, and how: [[login]] in the services file.

One way is a token in the caller's name, which the OIDC issuer gives in exchange for the caller's own (RFC 8693).
"""

import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol
from urllib.parse import quote, urlencode

import anyio
from cachetools import FIFOCache
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from waygraph.ingest.logins.store import digest_of, login_text, read_token, refusal_code
from waygraph.ingest.manifest.environment import Resolver, Scope, Surroundings
from waygraph.ingest.manifest.records import OAuthClient
from waygraph.registry.http.addresses import is_loopback, split_url
from waygraph.registry.model.errors import NotCallable, UpstreamRefused
from waygraph.registry.model.nouns import Agent
from waygraph.registry.model.numbers import read_number

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
        if self.by == "exchange" and not (_keeps_secrets(self.token_endpoint) and self.client_id):
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


def _keeps_secrets(address: str) -> bool:
    if (parts := split_url(address)) is None or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))


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
