"""Where services are that tools are called at, and with which credentials: an operator's TOML file, read at the start.

    [[service]]
    agent = "petstore"                        # or source = "/srv/me/petstore.json": all that it claims
    base_url = "https://petstore.example.com/v2"
    also = ["https://uploads.petstore.example.com"]    # origins of operations that are elsewhere
    headers = { "X-Tenant" = "acme" }
    auth = { bearer = "${PETSTORE_TOKEN}" }   # or { user = …, password = … }, or { key = …, name = …, in = "header" }
    allow_private = false                     # true: it may be on this machine or network

    [[login]]
    agent = "github"                          # an MCP server at an address: each caller acts as themselves there
    by = "oauth"                              # or "exchange" (RFC 8693), or "header": see docs/calling.md

What an OpenAPI document or an agent's card says of its own address is somebody else's word and is never enough.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from waygraph.ingest.logins.callers import HeaderName, LoginRule, Text
from waygraph.ingest.manifest.environment import Resolver, Scope, Surroundings, UnresolvedReference
from waygraph.ingest.manifest.fields import fields_of
from waygraph.ingest.manifest.records import HttpLaunch
from waygraph.ingest.manifest.redaction import discretion
from waygraph.ingest.manifest.transport import references_only
from waygraph.ingest.manifest.trust_store import VouchedFile, VouchedServer, launch_digest
from waygraph.registry.http.addresses import names_user
from waygraph.registry.http.client import origin_of
from waygraph.registry.model.changes import plain_key
from waygraph.registry.model.errors import InvalidSetting, StorageFailed, UnknownName
from waygraph.registry.model.files import as_written
from waygraph.registry.model.foreign_text import toml_document
from waygraph.registry.model.nouns import Agent, parse_field
from waygraph.registry.model.validation import reason_of
from waygraph.registry.storage.local_registry import LocalRegistry

Place = Literal["header", "query", "cookie"]


class Incomplete(Exception):
    """Why a service cannot be asked now; names variables, never a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What goes with every request, resolved."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    cookies: Mapping[str, str] = field(default_factory=dict, repr=False)
    confidential: frozenset[str] = field(default=frozenset(), repr=False)
    """No message and no result shows any of these: what `auth` holds, and headers that are secret by their name."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)


class Service(_Strict):
    """One entry of the file, unresolved: its texts may hold references."""

    agent: Text = ""
    source: Text = ""
    base_url: Text
    also: list[Text] = []
    headers: dict[HeaderName, str] = Field(default={}, repr=False)
    auth: "Auth | None" = Field(default=None, repr=False)
    allow_private: bool = False

    @model_validator(mode="after")
    def _sound(self) -> "Service":
        if bool(self.agent) == bool(self.source):
            raise ValueError("name an agent by its id, or a source: one of the two")
        for address in (self.base_url, *self.also):
            if not origin_of(address).startswith(("http://", "https://")) or not address.isprintable():
                raise ValueError("an address begins with https:// or http:// and a host")
            if names_user(address) or "?" in address or "#" in address:
                raise ValueError("an address is shown in errors: it may hold no login, `?` or `#`; use auth or headers")
        self.base_url, self.also = self.base_url.rstrip("/"), list(map(origin_of, self.also))
        return self

    def login(self, surroundings: Surroundings) -> Login:
        """Raises Incomplete."""
        resolver = Resolver(Scope(surroundings=surroundings))
        try:
            headers = {name: resolver.text(value) for name, value in self.headers.items()}
            own = self.auth.resolve(resolver) if self.auth else Login()
            resolver.finish()
        except UnresolvedReference as exc:
            raise Incomplete(str(exc)) from None
        told_by_name = (value for name, value in headers.items() if references_only({name: value})[name] != value)
        confidential = frozenset(filter(None, (*told_by_name, *own.confidential)))
        return replace(own, headers={**headers, **own.headers}, confidential=confidential)


@dataclass(frozen=True, slots=True)
class Services:
    """All entries. `place`: the file, as it was named; empty: there is none."""

    entries: tuple[Service, ...] = ()
    place: str = ""
    logins: tuple[LoginRule, ...] = ()

    def of_agent(self, agent_id: str) -> Service | None:
        return next((entry for entry in self.entries if entry.agent == agent_id), None)

    def of_source(self, sources: Iterable[str]) -> Service | None:
        """The first that is of one of these."""
        names = frozenset(sources)
        return next((entry for entry in self.entries if entry.source and entry.source in names), None)

    def where_to_write(self) -> str:
        return self.place or "a file, and name that file in WAYGRAPH_SERVICES_FILE where the gateway runs"


def load_services(path: str) -> Services:
    """Of an empty path none. Raises InvalidSetting, which names the key and no value."""
    if not path:
        return Services()
    try:
        content = _File.model_validate(toml_document(as_written(path).read_text(encoding="utf-8")))
    except OSError as exc:
        raise InvalidSetting(f"services file {path} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError:
        raise InvalidSetting(f"services file {path} cannot be read: it is no UTF-8 text") from None
    except ValidationError as exc:
        raise InvalidSetting(f"services file {path}, at {_first_fault(exc)}") from None
    except ValueError as exc:  # also a number of more digits than Python reads
        raise InvalidSetting(f"services file {path}: no TOML: {exc}") from None
    return Services(tuple(content.service), path, tuple(content.login))


# -- as it is written ------------------------------------------------------------------------------


class Auth(_Strict):
    """A bearer token, or a user with a password, or a key under a name."""

    bearer: str = ""
    user: str = ""
    password: str = ""
    key: str = ""
    name: HeaderName = "X-API-Key"
    place: Place = Field(default="header", alias="in")

    @model_validator(mode="after")
    def _one_of_three(self) -> "Auth":
        if sum(map(bool, (self.bearer, self.user, self.key))) != 1 or (self.password and not self.user):
            raise ValueError("give one: bearer; user with password; key, with name and in")
        return self

    def resolve(self, resolver: Resolver) -> Login:
        if self.bearer:
            token = resolver.text(self.bearer)
            return Login(headers={"Authorization": f"Bearer {token}"}, confidential=frozenset({token}))
        if self.key:
            pair = {self.name: resolver.text(self.key)}
            at = {place: pair if place == self.place else {} for place in ("header", "query", "cookie")}
            secrets = frozenset(pair.values())
            return Login(headers=at["header"], query=at["query"], cookies=at["cookie"], confidential=secrets)
        user, password = resolver.text(self.user), resolver.text(self.password)
        credentials = b64encode(f"{user}:{password}".encode()).decode()
        headers = {"Authorization": f"Basic {credentials}"}
        return Login(headers=headers, confidential=frozenset({password, credentials}))


class _File(_Strict):
    service: list[Service] = []
    login: list[LoginRule] = []

    @model_validator(mode="after")
    def _agents_differ(self) -> "_File":
        if len({entry.agent for entry in self.login}) < len(self.login):
            raise ValueError("two [[login]] are of one agent")
        return self


def _first_fault(error: ValidationError) -> str:
    """The place and what is wrong there. A key that is not known comes first: it is why another one is missing."""
    faults = error.errors(include_url=False, include_input=False)
    fault = next((fault for fault in faults if fault["type"] == _NOT_KNOWN), faults[0])
    place, reason = fault["loc"], reason_of(fault)
    if fault["type"] == _NOT_KNOWN:
        table: type[BaseModel] = LoginRule if place[0] == "login" else Auth if "auth" in place[:-1] else Service
        table = _File if len(place) == 1 else table
        reason = str(
            UnknownName("key", str(place[-1]), [field.alias or name for name, field in table.model_fields.items()])
        )
    return f"{'.'.join(map(str, place)) or 'its top'}: {reason}"


_NOT_KNOWN = "extra_forbidden"
"""As pydantic calls it."""


# -- looked up ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFinder:
    """`surroundings` resolve references at each call."""

    registry: LocalRegistry
    services: Services
    surroundings: Surroundings = field(repr=False)

    async def service(self, agent: Agent) -> Service | None:
        """None: nothing is configured. Raises RegistryError."""
        if (own := self.services.of_agent(agent.id)) or not any(entry.source for entry in self.services.entries):
            return own
        claims = await to_thread.run_sync(claims_on, self.registry, agent.id)
        return self.services.of_source(claim.source for claim in claims)

    def place_of(self, service: Service) -> str:
        """Where an entry stands, for a person."""
        return f"[[service]] of {service.agent or service.source!r} in {self.services.place}"


def confidential(login: Login, address: str) -> tuple[str, ...]:
    """What no text of a result or an error shows, longest first: the login, and what of it stands for itself."""
    return discretion(HttpLaunch(url=address, confidential=login.confidential)).secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceClaim:
    """That a source claims an agent, under a key of its own."""

    source: str
    key: str
    is_live: bool


def claims_on(registry: LocalRegistry, agent_id: str) -> list[SourceClaim]:
    """By the source's name."""
    return all_claims(registry).get(agent_id, [])


def all_claims(registry: LocalRegistry) -> dict[str, list[SourceClaim]]:
    """By agent id, those of each by the source's name."""
    claims: dict[str, list[SourceClaim]] = {}
    for source in registry.stored_sources():
        for key, agent_id in source.claims:
            claim = SourceClaim(source=source.name, key=key, is_live=source.rank > 0)
            claims.setdefault(agent_id, []).append(claim)
    return claims


def servers_vouched_for(
    trust_file: VouchedFile, claims: Iterable[SourceClaim], agent: Agent
) -> Iterator[tuple[SourceClaim, VouchedServer]]:
    """Of live sources, where the launch is what the graph holds now. Raises StorageFailed."""
    digest = launch_digest(agent.transport)
    for claim in claims:
        servers = trust_file.source(claim.source).servers
        server = servers.get(claim.key) or servers.get(plain_key(claim.key))
        if claim.is_live and server is not None and server.launch == digest:
            yield claim, server


def origins_vouched_for(trust_file: VouchedFile, claims: Iterable[SourceClaim], agent: Agent) -> set[str]:
    """The origins of addresses that gave the agent's card as the graph holds it now. Raises StorageFailed."""
    digest = launch_digest(agent.transport)
    sources = [(trust_file.source(claim.source), claim.key) for claim in claims]
    return {source.origin for source, key in sources if source.origin and source.cards.get(key) == digest}


def places_vouched_for(trust_file: VouchedFile, claims: Iterable[SourceClaim]) -> list[str]:
    """The files, folders and patterns that hold the agent's skill. Raises StorageFailed."""
    return [source.path for source in (trust_file.source(claim.source) for claim in claims) if source.path]


HOW_TO_NAME = "`waygraph ingest -- COMMAND`, `waygraph ingest https://HOST/mcp` or `waygraph ingest CONFIG.json`"
OF_A_CATALOGUE = "it is known from a catalogue only"
NOT_ASKED_HERE = "its server was not asked on this machine as it is held now"
NOT_CONFIGURED = "where its service is was not configured here"
NOT_NAMED_HERE = "nobody named its address on this machine"
NOT_READ_HERE = "its folder was not ingested on this machine"
TO_DO: Mapping[str, str] = {
    OF_A_CATALOGUE: f"name its server on the machine of this gateway: {HOW_TO_NAME}",
    NOT_ASKED_HERE: f"run `waygraph ingest` on the machine of this gateway: {HOW_TO_NAME}",
    NOT_CONFIGURED: "write it into the services file of this gateway (WAYGRAPH_SERVICES_FILE)",
    NOT_NAMED_HERE: "ingest its card by its address on the machine of this gateway",
    NOT_READ_HERE: "ingest it on the machine of this gateway",
}
"""For each reason what helps."""


def why_no_server(claims: Iterable[SourceClaim]) -> str:
    """Why a server that nobody here vouched for is not started."""
    return NOT_ASKED_HERE if any(claim.is_live for claim in claims) else OF_A_CATALOGUE


@dataclass(slots=True)
class Reach:
    """Of the agents of a registry. Threads may share it.

    What was vouched for and cannot be read stands against nobody: a call will tell it.
    """

    registry: LocalRegistry
    services: Services
    trust_file: VouchedFile
    _cache: "tuple[object, ReachNow] | None" = field(default=None, repr=False)

    def now(self) -> "ReachNow":
        """As things stand. Raises RegistryNotFound."""
        stamp, cache = (self.registry.stamp, self.stamp), self._cache
        if cache is None or cache[0] != stamp:
            self._cache = cache = stamp, ReachNow(self.services, self.trust_file, all_claims(self.registry))
        return cache[1]

    @property
    def stamp(self) -> object:
        """Another value where a person here may have vouched for something else."""
        try:
            return self.trust_file.stamp
        except StorageFailed:
            return None


@dataclass(frozen=True, slots=True)
class ReachNow:
    """Good as long as neither the registry nor what was vouched for changes."""

    services: Services
    trust_file: VouchedFile
    claims: Mapping[str, list[SourceClaim]]
    _reasons: dict[str, str] = field(default_factory=dict, repr=False)

    def why_not(self, agent: Agent) -> str:
        """Why nothing here runs the agent's tools; empty: it can be tried."""
        if (reason := self._reasons.get(agent.id)) is None:
            try:
                reason = self._reason(agent, self.claims.get(agent.id, []))
            except StorageFailed:
                return ""
            self._reasons[agent.id] = reason
        return reason

    def _reason(self, agent: Agent, claims: list[SourceClaim]) -> str:
        match agent.kind:
            case "mcp_server":
                return "" if any(servers_vouched_for(self.trust_file, claims, agent)) else why_no_server(claims)
            case "openapi":
                return "" if self._is_configured(agent, claims) else NOT_CONFIGURED
            case "a2a_agent":
                is_named = self._is_configured(agent, claims) or origins_vouched_for(self.trust_file, claims, agent)
                return "" if is_named else NOT_NAMED_HERE
            case "skill":
                return self._why_no_skill(agent, claims)
        return f"nothing here runs tools of a {agent.kind} agent"

    def _why_no_skill(self, skill: Agent, claims: list[SourceClaim]) -> str:
        """Its files, as they were ingested, are in a folder, or with the server that listed it."""
        transport = fields_of(parse_field(skill.transport))
        if server := transport.get("server"):
            servers = (self.trust_file.source(claim.source).servers for claim in claims if claim.is_live)
            return "" if any(server in each for each in servers) else NOT_ASKED_HERE
        return "" if transport.get("files") and places_vouched_for(self.trust_file, claims) else NOT_READ_HERE

    def _is_configured(self, agent: Agent, claims: list[SourceClaim]) -> bool:
        return bool(self.services.of_agent(agent.id) or self.services.of_source(claim.source for claim in claims))
