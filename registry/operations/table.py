"""The operations of a service: the one table of what it does at which path. Those of requests stand with the requests.

The service, its document and its clients are made from it; `api/rest/examples.yaml` has an example of each.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from waygraph.registry.operations import answer_shapes as answers
from waygraph.registry.operations import catalog, operator  # noqa: F401 - so that their requests are known
from waygraph.registry.operations.request import REQUESTS, Operation, make_read, make_write

Foreign = answers.Foreign


def _search[T](name: str, path: str, answer: type[T], **more: Any) -> Operation[T]:
    return Operation(name, "POST", path, more.pop("tag", "search"), "route", answer, **more)


ROUTE_BATCH = _search("route_batch", "/v1/route/batch", answers.Batch)
RECIPES = Operation("recipes", "GET", "/v1/recipes", "search", "route", answers.Recipes)

RECORDED_CALLS = Operation("recorded_calls", "GET", "/v1/calls", "catalog", "use", answers.RecordedCalls)
LOGINS = Operation("logins", "GET", "/v1/logins", "catalog", "use", answers.OwnLogins)

MANIFESTS = replace(make_write("manifests", "POST", "/v1/manifests", answers.Reports), later=answers.Ingest)
INGEST = Operation("ingest", "GET", "/v1/ingests/{ingest_id}", "admin", "write", answers.Ingest)
SYNC_SOURCE = make_write("sync_source", "POST", "/v1/sources/{name:path}/sync", answers.Reports)
FORGET_LOGIN = Operation(
    "forget_login", "DELETE", "/v1/logins/{agent_id}", "admin", "use", answers.ForgottenLogin, is_write=True
)
SERVICE = Operation("service", "GET", "/v1/service", "admin", "admin", answers.ServiceState)
EVALUATIONS = Operation("evaluations", "GET", "/v1/evaluations", "admin", "admin", answers.Evaluations)

AI_CATALOG = replace(
    make_read("ai_catalog", "/.well-known/ai-catalog.json", Foreign, tag="discovery"),
    scope=None,
    media_types=("application/ai-catalog+json",),
)
SEARCH_RESOURCES = _search("search_resources", "/ard/search", Foreign, tag="discovery")
SERVERS = make_read("servers", "/v0.1/servers", Foreign, tag="discovery")
SERVER_VERSIONS = make_read("server_versions", "/v0.1/servers/{server_name:path}/versions", Foreign, tag="discovery")
SERVER = make_read("server", "/v0.1/servers/{server_name:path}/versions/{version}", Foreign, tag="discovery")

HEALTHZ = Operation("healthz", "GET", "/healthz", "health", None, answers.Alive)
READYZ = Operation("readyz", "GET", "/readyz", "health", None, answers.Ready, failures={503: "It is not ready."})
METRICS = Operation("metrics", "GET", "/metrics", "health", "read", str, media_types=("text/plain",))

OPERATIONS: Mapping[str, Operation[Any]] = {
    each.name: each
    for each in (
        *(value for value in tuple(globals().values()) if isinstance(value, Operation)),
        *(request.operation for request in REQUESTS),
    )
}
"""By name."""
