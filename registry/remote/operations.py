"""The operations of a service, in the order of its OpenAPI document: the one table of what it does at which path.

The service, its document and its clients are made from it: `api.rest.routes` handles each, and takes what a request may
hold; `api/rest/examples.yaml` has an example of each, and `calls` sends those that a registry has as methods.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal

from waygraph.registry.access.visibility import Scope
from waygraph.registry.model import changes, pictures
from waygraph.registry.model.usage import SearchGaps
from waygraph.registry.operators.toolset import Toolset
from waygraph.registry.remote import answer_shapes as answers
from waygraph.registry.routing.placement import Placement
from waygraph.registry.taxonomy.tree import CategoryView

Foreign = dict[str, Any]
"""An answer in a format of others."""
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Tag = Literal["search", "catalog", "admin", "cypher", "discovery", "health"]
MEDIA_TYPES = {"json": "application/json", "graphml": "application/graphml+xml", "html": "text/html"}
"""Export format → of its file."""


@dataclass(frozen=True, slots=True)
class Operation[T]:
    """`scope`: what a caller needs; None: anybody may ask, also without a login.

    `answer`: the noun, or the class of `answer_shapes`, whose JSON it is; `str` of a file.
    """

    name: str
    method: Method
    path: str
    tag: Tag
    scope: Scope | None
    answer: type[T]
    _: KW_ONLY
    is_conditional: bool = False
    """Whether an answer has an ETag, and is not given again to a caller who has that of this revision."""
    is_write: bool = False
    """Whether it may change something, so that it is not sent twice."""
    is_recorded: bool = False
    """Whether the audit has it, also where the caller lacks the scope: who begins the record asks for the scope."""
    media_types: tuple[str, ...] = (MEDIA_TYPES["json"],)
    later: type | None = None
    """The answer (202) to a caller who prefers not to wait (RFC 7240), as `answer`."""
    failures: Mapping[int, str] = field(default_factory=dict)
    """What may fail beside what may in every operation: HTTP status → when."""


def _read[T](name: str, path: str, answer: type[T], *, tag: Tag = "catalog") -> Operation[T]:
    return Operation(name, "GET", path, tag, "read", answer, is_conditional=True)


def _search[T](name: str, path: str, answer: type[T], *, tag: Tag = "search") -> Operation[T]:
    return Operation(name, "POST", path, tag, "route", answer)


def _write[T](name: str, method: Method, path: str, answer: type[T]) -> Operation[T]:
    return Operation(name, method, path, "admin", "write", answer, is_write=True)


_OF_CALLS = {502: "The tool's server gave no answer.", 504: "No answer came in time."}

ROUTE = _search("route", "/v1/route", answers.Route)
ROUTE_BATCH = _search("route_batch", "/v1/route/batch", answers.Batch)
WHY = _search("why", "/v1/route/why", Placement)
SEARCH_TOOLS = _search("search_tools", "/v1/tools/search", answers.ToolRoute)
RECIPES = Operation("recipes", "GET", "/v1/recipes", "search", "route", answers.Recipes)

AGENTS = _read("agents", "/v1/agents", answers.Agents)
AGENT = _read("agent", "/v1/agents/{agent_id}", answers.AgentFacts)
AGENT_TOOLS = _read("agent_tools", "/v1/agents/{agent_id}/tools", answers.Tools)
TOOLS = _read("tools", "/v1/tools", answers.Tools)
TOOL = _read("tool", "/v1/tools/{agent_id}/{tool_name:path}", answers.DefinedTool)
TOOL_CALLED = _read("tool_called", "/v1/tools/{call_name}", answers.DefinedTool)
CALL_TOOL = Operation(
    "call_tool", "POST", "/v1/tools/{tool_id:path}/call", "catalog", "use", Foreign, is_write=True, failures=_OF_CALLS
)
RECORDED_CALLS = Operation("recorded_calls", "GET", "/v1/calls", "catalog", "use", answers.RecordedCalls)
TAXONOMY = _read("taxonomy", "/v1/taxonomy", CategoryView)
TAXONOMY_TREE = _read("taxonomy_tree", "/v1/taxonomy/tree", answers.TaxonomyTree)
TAXONOMIES = _read("taxonomies", "/v1/taxonomies", answers.Taxonomies)
MAP = _read("map", "/v1/map", pictures.Map)
GRAPH = _read("graph", "/v1/graph", pictures.Neighbourhood)
LOGINS = Operation("logins", "GET", "/v1/logins", "catalog", "use", answers.OwnLogins)
TOOLSETS = _read("toolsets", "/v1/toolsets", answers.Toolsets)
TOOLSET = _read("toolset", "/v1/toolsets/{name}", Toolset)
SOURCES = _read("sources", "/v1/sources", answers.Sources)
CHANGES = _read("changes", "/v1/changes", answers.Changes)
WAITING = _read("waiting", "/v1/waiting", answers.WaitingTexts)
STATUS = _read("status", "/v1/status", answers.Status)
EXPORT = Operation("export", "GET", "/v1/export", "catalog", "read", str, media_types=tuple(MEDIA_TYPES.values()))

MANIFESTS = replace(_write("manifests", "POST", "/v1/manifests", answers.Reports), later=answers.Ingest)
INGEST = Operation("ingest", "GET", "/v1/ingests/{ingest_id}", "admin", "write", answers.Ingest)
APPROVE = _write("approve", "POST", "/v1/approvals", changes.Approved)
REJECT = _write("reject", "POST", "/v1/rejections", changes.Rejections)
SET_AGENT = _write("set_agent", "PATCH", "/v1/agents/{agent_id}", changes.OperatorSettings)
SET_TOOL = _write("set_tool", "PATCH", "/v1/tools/{agent_id}/{tool_name:path}", changes.OperatorSettings)
REMOVE_AGENT = _write("remove_agent", "DELETE", "/v1/agents/{agent_id}", changes.OperatorSettings)
SET_TOOLSET = _write("set_toolset", "PUT", "/v1/toolsets/{name}", Toolset)
REMOVE_TOOLSET = _write("remove_toolset", "DELETE", "/v1/toolsets/{name}", changes.Written)
USE_TAXONOMY = _write("use_taxonomy", "PUT", "/v1/taxonomy", changes.Written)
SYNC_SOURCE = _write("sync_source", "POST", "/v1/sources/{name:path}/sync", answers.Reports)
FORGET_SOURCE = _write("forget_source", "DELETE", "/v1/sources/{name:path}", changes.Forgotten)
FORGET_LOGIN = Operation(
    "forget_login", "DELETE", "/v1/logins/{agent_id}", "admin", "use", answers.ForgottenLogin, is_write=True
)
USAGE = Operation("usage", "GET", "/v1/usage", "admin", "admin", answers.Usage)
USAGE_DAYS = Operation("usage_days", "GET", "/v1/usage/days", "admin", "admin", answers.UsageDays)
SEARCH_GAPS = Operation("search_gaps", "GET", "/v1/usage/gaps", "admin", "admin", SearchGaps)
KEYS = Operation("keys", "GET", "/v1/keys", "admin", "admin", answers.Keys)
CREATE_KEY = Operation("create_key", "POST", "/v1/keys", "admin", "admin", changes.NewKey, is_write=True)
REVOKE_KEY = Operation("revoke_key", "DELETE", "/v1/keys/{key_id}", "admin", "admin", changes.KeySummary, is_write=True)
SERVICE = Operation("service", "GET", "/v1/service", "admin", "admin", answers.ServiceState)
EVALUATIONS = Operation("evaluations", "GET", "/v1/evaluations", "admin", "admin", answers.Evaluations)
CYPHER = Operation("cypher", "POST", "/v1/cypher", "cypher", "cypher", changes.CypherResult, is_recorded=True)

AI_CATALOG = replace(
    _read("ai_catalog", "/.well-known/ai-catalog.json", Foreign, tag="discovery"),
    scope=None,
    media_types=("application/ai-catalog+json",),
)
SEARCH_RESOURCES = _search("search_resources", "/ard/search", Foreign, tag="discovery")
SERVERS = _read("servers", "/v0.1/servers", Foreign, tag="discovery")
SERVER_VERSIONS = _read("server_versions", "/v0.1/servers/{server_name:path}/versions", Foreign, tag="discovery")
SERVER = _read("server", "/v0.1/servers/{server_name:path}/versions/{version}", Foreign, tag="discovery")

HEALTHZ = Operation("healthz", "GET", "/healthz", "health", None, answers.Alive)
READYZ = Operation("readyz", "GET", "/readyz", "health", None, answers.Ready, failures={503: "It is not ready."})
METRICS = Operation("metrics", "GET", "/metrics", "health", "read", str, media_types=("text/plain",))

OPERATIONS: Mapping[str, Operation[Any]] = {
    value.name: value for value in tuple(globals().values()) if isinstance(value, Operation)
}
"""By name."""
