"""Which agents' servers are called as each caller, and how: [[login]] in the services file."""

from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from waygraph.ingest.manifest.environment import Resolver, Scope, Surroundings
from waygraph.ingest.manifest.records import OAuthClient
from waygraph.registry.http.addresses import is_loopback, split_url
from waygraph.registry.model.nouns import Agent

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
