"""Every limit, timeout and place with its default, and the variables of the environment that set them.

A setting `write_timeout_s` is set by `WAYGRAPH_WRITE_TIMEOUT_S`. pydantic parses and checks the
values; it is imported only if such a variable is present, since its import costs more than a route.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.files import as_written
from waygraph.registry.model.numbers import FAR_S, Bounds, find_unfit, show_value

PREFIX = "WAYGRAPH_"
WRITE_TIMEOUT = f"{PREFIX}WRITE_TIMEOUT_S"
MAY_BE_ZERO = frozenset(
    "call_idle_s call_result_tokens cypher_wait_s drain_timeout_s failures_per_minute max_changes_kept "
    "openai_retries query_cache_entries rate_per_minute remote_retries server_max_processes "
    "server_memory_mib service_threads sessions_per_caller write_timeout_s".split()
)
"""Of these the docs say what 0 means; of any other it is refused, since with most nothing could ever be done."""
CHAT_FIELDS = frozenset({"messages", "model", "n", "stream", "tools"})
"""Of a request for a chat, that no setting changes."""
BYTES_PER_TOKEN = 4
"""Of JSON in UTF-8. Models differ; of English text, JSON and code they read from 3 to 5 bytes a token."""
MOST_WHOLE = 10**12
"""Of a count, or of bytes: of these a terabyte."""
DEFAULT_EMBEDDER = "onnx:sentence-transformers/all-MiniLM-L6-v2"
"""Where only its weights are here: see `default_spec` in registry/embedding/weights.py."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Plain values; a number carries its unit in its name."""

    embedder: str = ""
    """Spec of the embedder; empty: the registry's own, and the default model for a new registry."""
    data_dir: str = ""
    """Where the default registry lives; empty: the user's data folder."""
    cache_dir: str = ""
    """Where models and vectors are kept; empty: the user's cache folder."""
    write_timeout_s: float = 30.0
    query_cache_entries: int = 1024
    exact_search: bool = False
    """Whether a search compares every vector; false: of more than 200,000 only those whose signs are near."""
    log_level: str = "info"
    """From which level on: debug, info, warning or error."""
    audit_file: str = ""
    """What a service appends its audit to, beside the log; empty: to the log only."""
    max_query_chars: int = 32_000
    route_history: bool = True
    """Whether the turns before a request count; false: they are ignored, and a gateway remembers no calls."""
    rerank: str = ""
    """Spec of the reranker of a service and a gateway, such as openai:MODEL or ranker:FILE; empty: none."""
    walk: str = ""
    """Spec of the language model of a service and a gateway that walks the taxonomy, openai:MODEL; empty: none."""
    steps: str = ""
    """Spec of the language model of a service and a gateway that splits requests into steps, openai:MODEL; empty: none.
    """
    walk_max_calls: int = 60
    """For one request."""
    max_embedded_chars: int = 4_000
    max_source_bytes: int = 512 * 1024 * 1024
    fetch_total_s: float = 300.0
    """For the whole document, redirects included."""
    openai_timeout_s: float = 30.0
    openai_batch_texts: int = 256
    openai_retries: int = 4
    openai_body: str = field(default="", repr=False)
    """Fields of each request for a chat, as a JSON object; null leaves one out."""
    max_changes_kept: int = 10_000
    """How many changes are kept in the log; the oldest go, of the agents that have the most."""
    cypher_timeout_s: float = 10.0
    cypher_memory_mib: int = 1024
    cypher_max_rows: int = 1_000
    cypher_workers: int = 2
    """How many statements of one registry are at work at a time, in this process."""
    cypher_wait_s: float = 2.0
    """How long one more waits for its turn."""
    neo4j_user: str = "neo4j"
    neo4j_password: str = field(default="", repr=False)
    """Empty: the server asks for none."""
    neo4j_token: str = field(default="", repr=False)
    """A bearer token, in place of user and password."""
    neo4j_database: str = "neo4j"
    neo4j_ca_file: str = ""
    """Certificates to trust, PEM; empty: the system's. For `+s` addresses."""
    neo4j_connect_timeout_s: float = 5.0
    neo4j_read_timeout_s: float = 30.0
    """For one search or read, also while a writer commits."""
    neo4j_write_timeout_s: float = 600.0
    """For one transaction that writes."""
    keys_file: str = ""
    """Where a service's API keys are kept; empty: keys.json in the data folder."""
    oidc_issuer: str = ""
    """Whose bearer tokens a service takes; empty: nobody's."""
    oidc_audience: str = ""
    oidc_jwks_url: str = ""
    """Where the issuer's keys are; empty: where its discovery document says."""
    oidc_client_id: str = ""
    """As which the pages of logins have a person show at the issuer who they are; empty: they show a key or token."""
    oidc_client_secret: str = field(default="", repr=False)
    oidc_groups_claim: str = "groups"
    oidc_scope_prefix: str = "waygraph:"
    oidc_everything_group: str = ""
    rate_per_minute: float = 30_000.0
    """Requests of one caller; 0: no limit."""
    rate_burst: int = 1_000
    failures_per_minute: float = 30.0
    """Requests from one address whose caller is not known; 0: no limit."""

    sessions_per_caller: int = 1_000
    """Of MCP's handshake era, open at a time; of an address, where nobody is asked who they are. 0: no limit."""

    api_key: str = field(default="", repr=False)
    """Shown to a service that is opened by its URL, as a bearer token."""
    remote_plain_http: bool = False
    """Whether a key may go over http:// to another machine, where others can read it."""
    remote_ca_file: str = ""
    """Certificates to trust, PEM; empty: the system's. For https:// addresses."""
    remote_timeout_s: float = 60.0
    """For an answer that only asks."""
    remote_write_timeout_s: float = 600.0
    """For a write, and for an export."""
    remote_retries: int = 3
    """How often a call is sent again that may be."""

    upstream_connect_timeout_s: float = 30.0
    """For a server to be started or reached, and to agree on a protocol."""
    upstream_list_timeout_s: float = 30.0
    """For all pages of what a server offers."""
    upstream_starts_at_once: int = 4
    """How many servers are started at a time; programs that start need processor and disk."""
    upstream_max_tools: int = 20_000
    upstream_max_message_bytes: int = 16 * 1024 * 1024
    """Also of an answer of a tool over HTTP."""
    server_memory_mib: int = 2048
    """Of a server that is started, with all its processes; 0: no limit."""
    server_max_processes: int = 256
    """Of a server that is started; 0: no limit."""
    isolate: bool = False
    """Whether servers that are started are confined to a box, if their entry does not say it."""

    service_threads: int = 0
    """How many questions a worker of a service answers at a time; 0: as many as there are cores, 32 on Neo4j."""
    request_timeout_s: float = 30.0
    """For an answer that only reads. Typed Cypher and writes have limits of their own."""
    max_body_bytes: int = 1024 * 1024
    max_manifest_bytes: int = 64 * 1024 * 1024
    drain_timeout_s: float = 30.0
    """How long a service that is told to stop goes on with what it has begun."""
    public_url: str = ""
    """Where callers reach a service, for its AI Catalog and for logins; empty: where each request says it is sent."""
    cors_origins: str = ""
    """Whose web pages may call a service, comma-separated; empty: nobody's."""

    policy_file: str = ""
    """Which tools may be called, asked for or denied, beside what they say of themselves; TOML. Empty: no rules."""
    services_file: str = ""
    """Where services are that tools are called at, and with which credentials; TOML. Empty: none is configured."""
    login_key: str = field(default="", repr=False)
    """By which callers' own logins at servers are encrypted: 32 random bytes in base64. Empty: the keyring's."""
    call_timeout_s: float = 60.0
    """For a tool to answer, the start of its server included; a host may ask for less."""
    call_idle_s: float = 300.0
    """After so long without a call a server that was started for calls is stopped."""
    call_result_tokens: int = 25_000
    """Of a result through the gateway, as a model reads it; the rest is kept and read page by page. 0: no limit."""
    calls_at_once: int = 64
    """How many calls are under way at a time."""
    run_code: bool = False
    """Whether hosts get the tool run_code, which runs a model's Python in a sandbox; it needs the extra `code`."""
    audit_arguments: bool = False
    """Whether the audit holds the arguments of calls."""
    explorer_calls: bool = False
    """Whether people run tools from the explorer, agree there to what needs consent, and see their last calls."""

    usage: bool = True
    """Whether a gateway counts calls, errors and latencies by tool."""
    usage_requests: bool = False
    """Whether the last requests that found nothing are kept, with their texts, for who operates."""
    evals_dir: str = ""
    """Whose records of `waygraph eval` the explorer shows; empty: none."""
    learn: str = ""
    """What is learned from calls through the gateway: `transitions`, which tool was called after which; empty: nothing.
    """

    watch_poll_s: float = 300.0
    """From one look to the next at what is followed and does not tell of its changes."""

    def __post_init__(self) -> None:
        """Raises InvalidSetting for a number that is none, or below the least that can be."""
        if name := find_unfit(vars(self), _BOUNDS):
            value = show_value(getattr(self, name))
            raise InvalidSetting(f"{PREFIX}{name.upper()}={value}: expected a {_BOUNDS[name]}")
        if self.openai_body:
            _ = self.openai_fields

    @cached_property
    def openai_fields(self) -> Mapping[str, Any]:
        """Raises InvalidSetting, which quotes nothing of it: a field may be a secret."""
        name = f"{PREFIX}OPENAI_BODY"
        try:
            body = json.loads(self.openai_body or "{}")
            json.dumps(body, allow_nan=False)
        except (ValueError, RecursionError):
            raise InvalidSetting(f"{name}: is not JSON") from None
        if not isinstance(body, dict):
            raise InvalidSetting(f'{name}: expected a JSON object, such as {{"reasoning_effort": "low"}}')
        if own := sorted(body.keys() & CHAT_FIELDS):
            raise InvalidSetting(f"{name}: {', '.join(own)} cannot be set, since each request has its own")
        return body

    @cached_property
    def cache_path(self) -> Path:
        if self.cache_dir:
            return as_written(self.cache_dir)
        from platformdirs import user_cache_path

        return user_cache_path("waygraph")

    @cached_property
    def data_path(self) -> Path:
        if self.data_dir:
            return as_written(self.data_dir)
        from platformdirs import user_data_path

        return user_data_path("waygraph")

    @property
    def most_error_chars(self) -> int:
        """Of an error of the protocol: no more than a result through the gateway may have."""
        return self.call_result_tokens * BYTES_PER_TOKEN or self.upstream_max_message_bytes

    @property
    def keys_path(self) -> Path:
        return as_written(self.keys_file) if self.keys_file else self.data_path / "keys.json"

    @property
    def audit_path(self) -> Path | None:
        return as_written(self.audit_file) if self.audit_file else None

    @property
    def welcome_origins(self) -> tuple[str, ...]:
        """Whose web pages may call a service; `*`: everybody's."""
        return tuple(filter(None, (origin.strip().rstrip("/") for origin in self.cors_origins.split(","))))

    @property
    def default_registry(self) -> Path:
        return self.data_path / "registry.grafeo"


def _bounds(name: str, default: float) -> Bounds:
    zero_fits = name in MAY_BE_ZERO
    if isinstance(default, int):
        return Bounds(least=0 if zero_fits else 1, most=MOST_WHOLE, whole=True)
    return Bounds(least=0, most=FAR_S, above=not zero_fits)


_BOUNDS = {
    each.name: _bounds(each.name, each.default)
    for each in fields(Settings)
    if isinstance(each.default, (int, float)) and not isinstance(each.default, bool)
}
VARIABLES = frozenset(PREFIX + setting.name.upper() for setting in fields(Settings))


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from the environment. Raises InvalidSetting for a value out of shape."""
    environ = os.environ if environ is None else environ
    return _parse(environ) if any(environ.get(name) for name in VARIABLES) else Settings()


def _parse(environ: Mapping[str, str]) -> Settings:
    from pydantic import ValidationError, create_model

    from waygraph.registry.model.validation import reason_of

    shape: dict[str, Any] = {f.name: (f.type, f.default) for f in fields(Settings)}
    texts = {name: text for name in shape if (text := environ.get(PREFIX + name.upper()))}
    try:
        model = create_model("ParsedSettings", **shape)(**texts)
    except ValidationError as exc:
        first = exc.errors()[0]
        name = PREFIX + str(first["loc"][0]).upper()
        raise InvalidSetting(f"{name}={first['input']!r}: {reason_of(first)}") from exc
    return Settings(**model.model_dump())
