"""What changes the registry: manifests of sources, what operators say; usage, and Cypher that a caller typed."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from waygraph.api.rest.dependencies import Calling, Service, Serving
from waygraph.api.rest.openapi import operation
from waygraph.api.rest.problems import as_json, problem_of
from waygraph.api.rest.requests import (
    ApprovalRequest,
    CypherRequest,
    ManifestRequest,
    SettingsRequest,
    ToolsetRequest,
    ToolSettingsRequest,
)
from waygraph.api.rest.routes.catalog import AgentId, ToolName, ToolsetPath
from waygraph.api.telemetry.audit import Action, Attempt
from waygraph.ingest.logins.store import login_file
from waygraph.ingest.sources.formats import export
from waygraph.ingest.sources.read import read_documents
from waygraph.ingest.sync.apply import sync
from waygraph.registry.access.visibility import Caller
from waygraph.registry.model import shapes
from waygraph.registry.model.changes import CypherResult, Document
from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.model.usage import Sort
from waygraph.registry.model.validation import MAX_ID_CHARS, MAX_NAME_CHARS, MAX_PART

if TYPE_CHECKING:
    from waygraph.ingest.manifest.manifest import Manifest
    from waygraph.registry.model.shapes import Shape


HOW = {"namespace", "kind", "policy", "texts", "partial", "allow_mass_removal"}
"""What a caller says of a manifest beside itself, as the audit has it."""
NOTHING: Mapping[str, object] = {}

router = APIRouter(prefix="/v1", tags=["admin"])


@router.post("/manifests", **operation("manifests"))
async def manifests(asked: ManifestRequest, service: Serving, caller: Calling) -> Response:
    """Bring the registry to what a source says now. An export holds several sources: a report for each.

    With `kind` "export" it also restores what operators had set. That needs a caller who sees everything.
    """
    return as_json(await service.lanes.write(lambda: _take_documents(asked, service, caller)))


@router.post("/approvals", **operation("approve"))
async def approve(asked: ApprovalRequest, service: Serving, caller: Calling) -> Response:
    """Let what waits into routing, as it is now, and accept flagged texts: all that is named, or nothing.

    It needs the scope `admin` too, or a caller who sees everything.
    """
    names = asked.agents_wanted()

    def approve_it() -> "Shape":
        with _writing(service, caller, "approve", ", ".join(names)) as attempt:
            approval = service.registry.operator.approve(*names, principal=caller.writer)
            attempt.revision = approval.revision
        return shapes.shape(approval)

    return as_json(await service.lanes.write(approve_it))


@router.patch("/agents/{agent_id}", **operation("set_agent"))
async def set_agent(agent_id: AgentId, asked: SettingsRequest, service: Serving, caller: Calling) -> Response:
    """Pin, hide, tag or restrict an agent. It survives every sync.

    What others see needs the scope `admin` too, or a caller who sees everything; so does a pin.
    """

    def set_it() -> "Shape":
        with _writing(service, caller, "set", agent_id, asked.model_dump(exclude_unset=True)):
            settings = service.registry.operator.set(
                agent_id,
                tags=asked.tags,
                visible_to=asked.visible_to,
                everyone="visible_to" in asked.model_fields_set and asked.visible_to is None,
                pinned=asked.pinned,
                hidden=asked.hidden,
                removed=asked.removed,
                principal=caller.writer,
            )
        return shapes.settings(settings, caller.transport_filter)

    return as_json(await service.lanes.write(set_it))


@router.patch("/tools/{agent_id}/{tool_name:path}", **operation("set_tool"))
async def set_tool(
    agent_id: AgentId, tool_name: ToolName, asked: ToolSettingsRequest, service: Serving, caller: Calling
) -> Response:
    """Rename or describe a tool, and rename, describe, fix or hide its parameters. It survives every sync.

    It needs the scope `admin` too, or a caller who sees everything.
    """
    changes = asked.model_dump(exclude_unset=True)

    def set_it() -> "Shape":
        with _writing(service, caller, "set", f"{agent_id}/{tool_name}", {"fields": sorted(changes)}):
            settings = service.registry.operator.set_tool(f"{agent_id}/{tool_name}", changes, principal=caller.writer)
        return shapes.settings(settings, caller.transport_filter)

    return as_json(await service.lanes.write(set_it))


@router.delete("/agents/{agent_id}", **operation("remove_agent"))
async def remove_agent(agent_id: AgentId, service: Serving, caller: Calling) -> Response:
    """Remove an agent and its tools, and keep it away whatever its source says.

    What others see needs the scope `admin` too, or a caller who sees everything.
    """

    def remove() -> "Shape":
        with _writing(service, caller, "remove", agent_id):
            settings = service.registry.operator.remove(agent_id, principal=caller.writer)
        return shapes.settings(settings, caller.transport_filter)

    return as_json(await service.lanes.write(remove))


@router.put("/toolsets/{name}", **operation("set_toolset"))
async def set_toolset(name: ToolsetPath, asked: ToolsetRequest, service: Serving, caller: Calling) -> Response:
    """Make a toolset, or set it anew: an endpoint of MCP, `/{name}/mcp`, and a filter. What comes later and fits joins.

    It needs a caller who sees everything.
    """
    rule = asked.model_dump()

    def set_it() -> "Shape":
        with _writing(service, caller, "set", f"toolset {name}", asked.model_dump(exclude_unset=True)):
            toolset = service.registry.operator.set_toolset(name, **rule, principal=caller.writer)
        return shapes.shape(toolset)

    return as_json(await service.lanes.write(set_it))


@router.delete("/toolsets/{name}", **operation("remove_toolset"))
async def remove_toolset(name: ToolsetPath, service: Serving, caller: Calling) -> Response:
    """Remove a toolset; its tools stay. It needs a caller who sees everything."""

    def remove() -> "Shape":
        with _writing(service, caller, "remove", f"toolset {name}") as attempt:
            result = service.registry.operator.remove_toolset(name, principal=caller.writer)
            attempt.revision = result.revision
        return shapes.shape(result)

    return as_json(await service.lanes.write(remove))


@router.delete("/sources/{name:path}", **operation("forget_source"))
async def forget_source(
    name: Annotated[str, Path(description="The source's name.", min_length=1, max_length=MAX_NAME_CHARS)],
    service: Serving,
    caller: Calling,
) -> Response:
    """Remove a source, and the agents that only it claimed.

    What others see needs the scope `admin` too, or a caller who sees everything; so does a source with a policy.
    """

    def forget() -> "Shape":
        with _writing(service, caller, "forget", name) as attempt:
            result = service.registry.operator.forget(name, principal=caller.writer)
            attempt.revision = result.revision
        return shapes.shape(result)

    return as_json(await service.lanes.write(forget))


@router.delete("/logins/{agent_id}", **operation("forget_login"))
async def forget_login(agent_id: AgentId, service: Serving, caller: Calling) -> Response:
    """Forget the caller's own login at an agent's server: the next call has none."""

    def forget() -> "Shape":
        with service.audit.attempt(caller, "logout", agent_id):
            caller.require("use")
            logins = login_file(service.settings).forget(caller.id, agent_id)
        return {"agent_id": agent_id, "forgotten": bool(logins)}

    return as_json(await service.lanes.write(forget))


@contextmanager
def _writing(
    service: Service,
    caller: Caller,
    action: Action,
    target: str,
    details: Mapping[str, object] = NOTHING,
    *,
    dry_run: bool = False,
) -> Iterator[Attempt]:
    """Recorded whatever becomes of it, also if the caller may not write."""
    with service.audit.attempt(
        caller, action, target, details=_report_line(details), dry_run=dry_run or None
    ) as attempt:
        caller.require("write")
        yield attempt


def _report_line(details: Mapping[str, object]) -> str:
    """JSON. What is short comes first, so that no number of tags hides who may see an agent."""
    parts = sorted((json.dumps({name: value}, ensure_ascii=False)[1:-1] for name, value in details.items()), key=len)
    return f"{{{', '.join(parts)}}}" if parts else ""


def _take_documents(request: ManifestRequest, service: Service, caller: Caller) -> "Shape":
    """A report for each manifest. What came before an error stays done, and is told beside it."""
    reports: list[Shape] = []
    try:
        options = request.model_dump(include=HOW, exclude_defaults=True)
        with _writing(service, caller, "ingest", request.source, options, dry_run=request.dry_run) as attempt:
            if request.kind == export.KIND:
                # What operators set, approved and ranked comes back with it, of whichever agent the file names.
                caller.require_everything(f"a manifest of kind {export.KIND!r}")
            for manifest in _manifests(request, service):
                report = sync(
                    service.registry,
                    manifest,
                    dry_run=request.dry_run,
                    allow_mass_removal=request.allow_mass_removal,
                    texts=request.texts,
                    progress=service.lanes.go_on,
                    principal=caller.writer,
                )
                attempt.revision = report.revision
                reports.append(shapes.report(report))
    except WaygraphError as error:
        if not reports:
            raise
        return {"reports": reports, "problem": problem_of(error)}
    return {"reports": reports, "problem": None}


def _manifests(request: ManifestRequest, service: Service) -> "list[Manifest]":
    """Raises SourceError."""
    documents = [Document(each.name, each.text, each.unreadable) for each in request.documents or ()]
    if request.manifest is not None:
        documents = [Document(f"{request.source}.json", json.dumps(request.manifest))]
    read = read_documents(
        documents, service.settings, source=request.source, namespace=request.namespace, kind=request.kind
    )
    return [
        replace(
            manifest,
            partial=manifest.partial or request.partial,
            is_part=manifest.is_part or request.partial,
            policy=request.policy or manifest.policy,
        )
        for manifest in read
    ]


class UsageQuery(BaseModel):
    """Which tools, and in which order."""

    model_config = ConfigDict(extra="forbid")

    agent: str = Field(default="", max_length=MAX_ID_CHARS, description="Only the tools of this agent.")
    sort: Sort = Field(default="calls", description="What the tools with the most of come first.")
    limit: int = Field(default=100, ge=1, le=MAX_PART, description="How many to give at most.")


@router.get("/usage", **operation("usage"))
async def usage(service: Serving, caller: Calling, asked: Annotated[UsageQuery, Query()]) -> Response:
    """Calls, errors and latencies by tool, since they are counted. It needs the scope `admin` and a caller who sees
    everything.
    """
    caller.require("admin")
    caller.require_everything("usage")

    def read_usage() -> "Shape":
        return shapes.usage(service.registry.operator.usage(agent_id=asked.agent, sort=asked.sort, limit=asked.limit))

    return as_json(await service.lanes.wait(read_usage))


cypher_router = APIRouter(prefix="/v1", tags=["cypher"])


@cypher_router.post("/cypher", **operation("cypher"))
async def cypher(asked: CypherRequest, service: Serving, caller: Calling) -> Response:
    """Ask the graph in Cypher. A statement only reads, with a limit of rows, time and memory.

    It needs a caller who sees everything and has the scope `admin`: a statement reads every property of every agent.
    """

    def ask() -> CypherResult:
        with service.audit.attempt(caller, "cypher", asked.statement, parameters=asked.params):
            caller.require("cypher")
            caller.require("admin")
            caller.require_everything("Cypher")
            return service.registry.operator.cypher(asked.statement, asked.params)

    return as_json(shapes.shape(await service.lanes.wait(ask)))
