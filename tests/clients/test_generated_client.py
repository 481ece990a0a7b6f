"""A client that a public generator makes of docs/openapi.json: it has every operation, and its requests are typed."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.environments import NotInstalled, installed, python_environment, skipped
from tests.host_programs import PINS
from tests.service import agent, ingest, served
from waygraph.api.rest.application import document

ROUTE_REQUEST = {
    "text": "str | Unset",
    "steps": "list[str] | Unset",
    "limit": "int | Unset",
    "recipe": "RouteRequestRecipe | Unset",
    "filters": "RequestFilters | Unset",
    "agent_weight": "float | None | Unset",
}
CALLS = """
import json, sys
from waygraph_client import AuthenticatedClient
from waygraph_client.api.search import route, search_tools
from waygraph_client.api.admin import manifests
from waygraph_client.api.catalog import agents
from waygraph_client.models import ManifestRequest, RequestFilters, RouteRequest, SearchRequest

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2], raise_on_unexpected_status=True)
manifest = {"waygraph": 1, "agents": [{"id": "tea", "name": "Tea", "description": "brews tea", "tools": []}]}
report = manifests.sync(client=client, body=ManifestRequest.from_dict({"source": "team", "manifest": manifest}))
tagged = RouteRequest(text="look up rivers", limit=1, filters=RequestFilters(tags=["water"]))
print(json.dumps({
    "fields": RouteRequest.__annotations__,
    "created": report.reports[0].agents.created,
    "agents": [each.id for each in agents.sync(client=client).agents],
    "routed": [match.agent.id for match in route.sync(client=client, body=tagged).matches],
    "tools": [match.tool.id for match in search_tools.sync(client=client, body=SearchRequest(text="rivers")).matches],
    "problem": route.sync(client=client, body=RouteRequest(text=" ", steps=["b"])).code,
}))
"""


@dataclass(frozen=True)
class Generated:
    """The folder of the package `waygraph_client`, and a Python that has what it needs."""

    folder: Path
    python: Path


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    """Made by openapi-python-client, which fails at a warning. Skipped where that cannot be installed."""
    programs = installed(python_environment("openapi_client", PINS / "openapi_client.txt"))
    if isinstance(programs, NotInstalled):
        skipped(f"no openapi-python-client to test with: {programs}")
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(document()), encoding="utf-8")
    command = ["generate", "--path", "openapi.json", "--meta", "none", "--output-path", "waygraph_client"]
    done = subprocess.run(
        [programs / "openapi-python-client", *command, "--fail-on-warning"],
        cwd=folder,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},  # it formats by its own ruff
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Generated(folder, programs / "python")


def test_every_operation_is_generated(generated: Generated) -> None:
    operations = {each["operationId"] for methods in document()["paths"].values() for each in methods.values()}
    files = (generated.folder / "waygraph_client" / "api").rglob("*.py")
    modules = {path.stem.removesuffix("_") for path in files if path.stem != "__init__"}  # `map_`: Python has a `map`
    assert modules == operations


def test_a_generated_client_calls_the_service(generated: Generated, tmp_path: Path) -> None:
    """It writes, lists, routes with typed fields, finds tools, and reads a problem."""
    with served(auth=True, folder=tmp_path) as service:
        ingest(service.admin(), "rivers", agent("rivers", "look_up", tags=["water"]), agent("roads", "look_up"))
        key = service.key(everything=True)
        done = subprocess.run(
            [generated.python, "-c", CALLS, service.url, key],
            cwd=generated.folder,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer.pop("fields").items() >= ROUTE_REQUEST.items()
    assert answer == {
        "created": ["tea"],
        "agents": ["rivers", "roads", "tea"],
        "routed": ["rivers"],
        "tools": ["rivers/look_up"],
        "problem": "invalid-query",
    }
