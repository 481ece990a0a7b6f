"""The operations of a service: the one table of what it does at which path. Those of requests stand with the requests.

The service, its document and its clients are made from it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from waygraph.registry.operations import catalog, operator  # noqa: F401 - so that their requests are known
from waygraph.registry.operations.request import Operation, Request, make_read, make_write

Foreign = dict[str, Any]


ROUTE_BATCH = Operation("route_batch", "POST", "/v1/route/batch", "search", "route", "Batch")
RECIPES = Operation("recipes", "GET", "/v1/recipes", "search", "route", "Recipes")

RECORDED_CALLS = Operation("recorded_calls", "GET", "/v1/calls", "catalog", "use", "RecordedCalls")
LOGINS = Operation("logins", "GET", "/v1/logins", "catalog", "use", "OwnLogins")

MANIFESTS = make_write("manifests", "POST", "/v1/manifests", "Reports")
SYNC_SOURCE = make_write("sync_source", "POST", "/v1/sources/{name:path}/sync", "Reports")
FORGET_LOGIN = Operation(
    "forget_login", "DELETE", "/v1/logins/{agent_id}", "admin", "use", "ForgottenLogin", is_write=True
)
SERVICE = Operation("service", "GET", "/v1/service", "admin", "admin", "ServiceState")
EVALUATIONS = Operation("evaluations", "GET", "/v1/evaluations", "admin", "admin", "Evaluations")

AI_CATALOG = replace(
    make_read("ai_catalog", "/.well-known/ai-catalog.json", Foreign, tag="discovery"),
    scope=None,
    media_types=("application/ai-catalog+json",),
)
ARD_MANIFEST = replace(AI_CATALOG, name="ard_manifest", path="/.well-known/ard.json", media_types=("application/json",))
RESOURCE = make_read("resource", "/ard/agents/{identifier}", Foreign, tag="discovery", failures={400: "It is no URN."})
SERVER_CARD = replace(
    make_read("server_card", "/mcp/server-card", Foreign, tag="discovery"),
    scope=None,
    is_conditional=False,
    media_types=("application/mcp-server-card+json",),
)
SEARCH_RESOURCES = Operation("search_resources", "POST", "/ard/search", "discovery", "route", Foreign)
SERVERS = make_read("servers", "/v0.1/servers", Foreign, tag="discovery")
SERVER_VERSIONS = make_read("server_versions", "/v0.1/servers/{server_name:path}/versions", Foreign, tag="discovery")
SERVER = make_read("server", "/v0.1/servers/{server_name:path}/versions/{version}", Foreign, tag="discovery")

HEALTHZ = Operation("healthz", "GET", "/healthz", "health", None, "Alive")
READYZ = Operation("readyz", "GET", "/readyz", "health", None, "Ready", failures={503: "It is not ready."})
METRICS = Operation("metrics", "GET", "/metrics", "health", "read", str, media_types=("text/plain",))

OPERATIONS: Mapping[str, Operation] = {
    each.name: each
    for each in (
        *(value for value in tuple(globals().values()) if isinstance(value, Operation)),
        *(kind.operation for kind in Request.request_kinds()),
    )
}
"""By name."""
