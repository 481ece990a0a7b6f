"""What changes the registry: manifests of sources, what operators say; usage, and Cypher that a caller typed.

What an operator looks after: keys, usage over time, how the service runs, and records of evaluations.
"""

import json
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Annotated

from fastapi import Header, Path, Query, Request
from fastapi.responses import Response
from pydantic import Field

from waygraph.api.rest.evaluations import read_evaluations
from waygraph.api.rest.problems import as_json, problem_of
from waygraph.api.rest.requests import (
    ApprovalRequest,
    CypherRequest,
    KeyRequest,
    ManifestRequest,
    Parameters,
    RejectionRequest,
    SettingsRequest,
    TaxonomyRequest,
    ToolsetRequest,
    ToolSettingsRequest,
)
from waygraph.api.rest.routes.catalog import AgentId, ToolName, ToolsetPath
from waygraph.api.rest.service import Exchange, Lanes, handles
from waygraph.api.telemetry.logs import without_secrets
from waygraph.api.telemetry.metrics import memory_bytes
from waygraph.ingest.logins.store import login_file
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.formats import export
from waygraph.ingest.sources.read import read_documents
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model import shapes
from waygraph.registry.model.changes import Document
from waygraph.registry.model.errors import NotAllowed, ServiceStopping, WaygraphError
from waygraph.registry.model.settings import PREFIX, Settings
from waygraph.registry.model.shapes import Shape
from waygraph.registry.model.usage import MAX_DAYS, Sort, UsageBy, UsageOf
from waygraph.registry.model.validation import MAX_ID_CHARS, MAX_NAME_CHARS, MAX_PART
from waygraph.registry.registry import require_local
from waygraph.registry.remote import operations

SourceName = Annotated[str, Path(description="The source's name.", min_length=1, max_length=MAX_NAME_CHARS)]
HOW = {"namespace", "kind", "policy", "texts", "partial", "allow_mass_removal"}
"""What a caller says of a manifest beside itself, as the audit has it."""


@handles(operations.MANIFESTS)
async def manifests(
    exchange: Exchange,
    body: ManifestRequest,
    prefer: Annotated[str, Header(description="`respond-async`: answer 202 at once, and do it later.")] = "",
) -> Response:
    """Bring the registry to what a source says now. An export holds several sources: a report for each.

    With `kind` "export" it also restores what operators had set. That needs a caller who sees everything.
    """
    content = await exchange.request.body()
    may_write = exchange.operation.scope in exchange.caller.scopes  # who may not is refused at once, with a record
    if may_write and "respond-async" in re.split(r"[\s,;]+", prefer.lower()):
        return _take_later(exchange, body.source, content)
    return await exchange.service.lanes.write(lambda: exchange.as_json(_take(exchange, body)), len(content))


def _take_later(exchange: Exchange, source: str, content: bytes) -> Response:
    """What waits is held as it was sent, since read it takes many times the room; also who sent it, who may have lost
    the right to it when its turn comes.
    """
    exchange = replace(exchange, request=Request(exchange.request.scope))  # without its body
    service = exchange.service

    def take() -> Shape:
        with _in_audit_if_refused(exchange, source):
            caller = service.caller_now(exchange.request)
        return _take(replace(exchange, caller=caller), ManifestRequest.model_validate(json.loads(content)))

    def note_dropped() -> None:
        with suppress(ServiceStopping), _in_audit_if_refused(exchange, source):
            raise ServiceStopping

    lane = service.lanes.write_lane(len(content))
    ingest = service.ingests.add(exchange.caller, source, lane.submit, take, note_dropped)
    place = operations.INGEST.path.format(ingest_id=ingest["id"])
    headers = {"Location": place, "Preference-Applied": "respond-async"}
    return as_json(ingest, headers, status=202)


@contextmanager
def _in_audit_if_refused(exchange: Exchange, source: str) -> Iterator[None]:
    try:
        yield
    except WaygraphError:
        with exchange.attempt("ingest", source):
            raise


@handles(operations.INGEST)
def ingest(
    exchange: Exchange, ingest_id: Annotated[str, Path(description="As the answer 202 has it.", max_length=64)]
) -> Shape:
    """Where a manifest stands that the service took after it had answered. For whoever sent it, and an admin who sees
    everything. The last few that ended are kept, until the service stops.
    """
    return exchange.service.ingests.find(ingest_id, exchange.caller)


def _take(exchange: Exchange, body: ManifestRequest) -> Shape:
    reports: list[Shape] = []
    try:
        details = _report_line(body.model_dump(include=HOW, exclude_defaults=True))
        with exchange.attempt("ingest", body.source, details=details, dry_run=body.dry_run or None) as attempt:
            if body.kind == export.KIND:
                # What operators set, approved and ranked comes back with it, of whichever agent the file names.
                exchange.caller.require_everything(f"a manifest of kind {export.KIND!r}")
            for manifest in _manifests(exchange, body):
                report = sync(
                    exchange.registry,
                    manifest,
                    dry_run=body.dry_run,
                    allow_mass_removal=body.allow_mass_removal,
                    texts=body.texts,
                    progress=exchange.service.lanes.go_on,
                    principal=exchange.caller.writer,
                )
                attempt.revision = report.revision
                reports.append(shapes.report(report))
    except WaygraphError as error:
        if not reports:  # what came before an error stays done, and is told beside it
            raise
        return {"reports": reports, "problem": problem_of(error)}
    return {"reports": reports, "problem": None}


def _manifests(exchange: Exchange, request: ManifestRequest) -> list[Manifest]:
    """Raises SourceError."""
    documents = [Document(each.name, each.text, each.unreadable) for each in request.documents or ()]
    if request.manifest is not None:
        documents = [Document(f"{request.source}.json", json.dumps(request.manifest))]
    read = read_documents(
        documents, exchange.service.settings, source=request.source, namespace=request.namespace, kind=request.kind
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


def _report_line(details: Mapping[str, object]) -> str:
    """JSON. What is short comes first, so that no number of tags hides who may see an agent."""
    parts = sorted((json.dumps({name: value}, ensure_ascii=False)[1:-1] for name, value in details.items()), key=len)
    return f"{{{', '.join(parts)}}}" if parts else ""


@handles(operations.APPROVE)
def approve(exchange: Exchange, body: ApprovalRequest) -> Shape:
    """Let what waits into routing, as it is now, and accept flagged texts: all that is named, or nothing.

    It needs the scope `admin` too, or a caller who sees everything.
    """
    names = body.agents_wanted()
    with exchange.attempt("approve", ", ".join(names or body.hashes)) as attempt:
        approval = exchange.registry.operator.approve(*names, hashes=body.hashes, principal=exchange.caller.writer)
        attempt.revision = approval.revision
    return shapes.shape(approval)


@handles(operations.REJECT)
def reject(exchange: Exchange, body: RejectionRequest) -> Shape:
    """Keep what waits out of routing as it is now, also flagged texts, and let it wait no more: all that is named, or
    nothing. A new text of it waits again; an approval undoes it.

    It needs the scope `admin` too, or a caller who sees everything.
    """
    names, caller = body.agents_wanted(), exchange.caller
    target, details = ", ".join(names or body.hashes), _report_line({"reason": body.reason})
    with exchange.attempt("reject", target, details=details) as attempt:
        operator = require_local(exchange.registry).operator
        rejections = operator.reject(
            *names, reason=body.reason, by=caller.id, hashes=body.hashes, principal=caller.writer
        )
        attempt.revision = rejections.revision
    return shapes.shape(rejections)


@handles(operations.SET_AGENT)
def set_agent(exchange: Exchange, agent_id: AgentId, body: SettingsRequest) -> Shape:
    """Pin, hide, tag or restrict an agent. It survives every sync.

    What others see needs the scope `admin` too, or a caller who sees everything; so does a pin.
    """
    values = body.model_dump(exclude_unset=True)
    with exchange.attempt("set", agent_id, details=_report_line(values)):
        everyone = "visible_to" in values and values["visible_to"] is None
        settings = exchange.registry.operator.set(
            agent_id, **body.model_dump(), everyone=everyone, principal=exchange.caller.writer
        )
    return shapes.settings(settings, exchange.transport_filter)


@handles(operations.SET_TOOL)
def set_tool(exchange: Exchange, agent_id: AgentId, tool_name: ToolName, body: ToolSettingsRequest) -> Shape:
    """Rename or describe a tool, and rename, describe, fix or hide its parameters. It survives every sync.

    It needs the scope `admin` too, or a caller who sees everything.
    """
    tool_id, values = f"{agent_id}/{tool_name}", body.model_dump(exclude_unset=True)
    with exchange.attempt("set", tool_id, details=_report_line({"fields": sorted(values)})):
        settings = exchange.registry.operator.set_tool(tool_id, values, principal=exchange.caller.writer)
    return shapes.settings(settings, exchange.transport_filter)


@handles(operations.REMOVE_AGENT)
def remove_agent(exchange: Exchange, agent_id: AgentId) -> Shape:
    """Remove an agent and its tools, and keep it away whatever its source says.

    What others see needs the scope `admin` too, or a caller who sees everything.
    """
    with exchange.attempt("remove", agent_id):
        settings = exchange.registry.operator.remove(agent_id, principal=exchange.caller.writer)
    return shapes.settings(settings, exchange.transport_filter)


@handles(operations.SET_TOOLSET)
def set_toolset(exchange: Exchange, name: ToolsetPath, body: ToolsetRequest) -> Shape:
    """Make a toolset, or set it anew: an endpoint of MCP, `/{name}/mcp`, and a filter. What comes later and fits joins.

    It needs a caller who sees everything.
    """
    with exchange.attempt("set", f"toolset {name}", details=_report_line(body.model_dump(exclude_unset=True))):
        toolset = exchange.registry.operator.set_toolset(name, **body.model_dump(), principal=exchange.caller.writer)
    return shapes.shape(toolset)


@handles(operations.REMOVE_TOOLSET)
def remove_toolset(exchange: Exchange, name: ToolsetPath) -> Shape:
    """Remove a toolset; its tools stay. It needs a caller who sees everything."""
    with exchange.attempt("remove", f"toolset {name}") as attempt:
        result = exchange.registry.operator.remove_toolset(name, principal=exchange.caller.writer)
        attempt.revision = result.revision
    return shapes.shape(result)


@handles(operations.USE_TAXONOMY)
def use_taxonomy(exchange: Exchange, body: TaxonomyRequest) -> Shape:
    """Make a taxonomy the current one: what is browsed, walked and searched `within`.

    It needs a caller who sees everything.
    """
    with exchange.attempt("set", f"taxonomy {body.name}") as attempt:
        result = exchange.registry.operator.use_taxonomy(body.name, principal=exchange.caller.writer)
        attempt.revision = result.revision
    return shapes.shape(result)


@handles(operations.FORGET_SOURCE)
def forget_source(exchange: Exchange, name: SourceName) -> Shape:
    """Remove a source, and the agents that only it claimed.

    What others see needs the scope `admin` too, or a caller who sees everything; so does a source with a policy.
    """
    with exchange.attempt("forget", name) as attempt:
        result = exchange.registry.operator.forget(name, principal=exchange.caller.writer)
        attempt.revision = result.revision
    return shapes.shape(result)


@handles(operations.SYNC_SOURCE, lane=Lanes.sync)
def sync_source(exchange: Exchange, name: SourceName) -> Shape:
    """Read a source now that this service follows, and ask its servers. Of another one the answer says what to run.

    It needs a caller who sees everything.
    """
    with exchange.attempt("ingest", name, details="sync now") as attempt:
        exchange.caller.require_everything("a sync of a whole source")
        reports = exchange.service.follower.sync(name)
        attempt.revision = max((each.revision for each in reports), default=0)
    return {"reports": list(map(shapes.report, reports)), "problem": None}


@handles(operations.FORGET_LOGIN)
def forget_login(exchange: Exchange, agent_id: AgentId) -> Shape:
    """Forget the caller's own login at an agent's server: the next call has none."""
    with exchange.attempt("logout", agent_id):
        logins = login_file(exchange.service.settings).forget(exchange.caller.id, agent_id)
    return {"agent_id": agent_id, "forgotten": bool(logins)}


class UsageQuery(Parameters):
    """Which tools, and in which order."""

    agent: str = Field(default="", max_length=MAX_ID_CHARS, description="Only the tools of this agent.")
    sort: Sort = Field(default="calls", description="What the tools with the most of come first.")
    limit: int = Field(default=100, ge=1, le=MAX_PART, description="How many to give at most.")


@handles(operations.USAGE, lane=Lanes.wait)
def usage(exchange: Exchange, query: Annotated[UsageQuery, Query()]) -> Shape:
    """Calls, errors and latencies by tool, since they are counted. It needs the scope `admin` and a caller who sees
    everything.
    """
    exchange.caller.require_everything("usage")
    return shapes.usage(exchange.registry.operator.usage(agent_id=query.agent, sort=query.sort, limit=query.limit))


@handles(operations.CYPHER, lane=Lanes.wait)
def cypher(exchange: Exchange, body: CypherRequest) -> Shape:
    """Ask the graph in Cypher. A statement only reads, with a limit of rows, time and memory.

    It needs a caller who sees everything and has the scope `admin`: a statement reads every property of every agent.
    """
    with exchange.attempt("cypher", body.statement, parameters=body.params):
        exchange.caller.require("admin")
        exchange.caller.require_everything("Cypher")
        result = exchange.registry.operator.cypher(body.statement, body.params)
    return shapes.shape(result)


MOST_DAYS_BY_TOKEN = 90
"""Of a key that somebody made by an issuer's token: the issuer cannot end it with them."""


@handles(operations.KEYS)
def keys(exchange: Exchange) -> Shape:
    """The API keys, ended ones too, oldest first. It needs the scope `admin` and a caller who sees everything."""
    exchange.caller.require_everything("the list of keys")
    return {"keys": list(map(shapes.shape, exchange.registry.operator.api_keys()))}


@handles(operations.CREATE_KEY)
def create_key(exchange: Exchange, body: KeyRequest) -> Shape:
    """Make a key. Its text is told this once. It has no scope that the caller lacks, and ends no later than the
    caller's own key, or within 90 days where the caller shows a token; it needs a caller who sees everything.
    """
    with exchange.attempt("set", f"key {body.name}"):
        _require_keeper(exchange, "to make keys")
        for scope in body.scopes:
            exchange.caller.require(scope)
        _refuse_longer_life(exchange, body.expires_in_days)
        key = exchange.registry.operator.create_key(**body.model_dump())
    return shapes.shape(key)


def _require_keeper(exchange: Exchange, what: str) -> None:
    """Raises NotAllowed, also where nobody is asked who they are: there the first key alone can be made."""
    exchange.caller.require_everything(what)
    if exchange.service.authenticator is None and exchange.registry.operator.api_keys():
        raise NotAllowed(
            "this service asks nobody who they are, and there are keys: use `waygraph keys`, or have the service ask"
        )


def _refuse_longer_life(exchange: Exchange, days: float | None) -> None:
    """Raises NotAllowed."""
    if exchange.caller.id.startswith("oidc:") and (days is None or days > MOST_DAYS_BY_TOKEN):
        raise NotAllowed(f"who shows a token makes keys for at most {MOST_DAYS_BY_TOKEN} days: say expires_in_days")
    own = next((k for k in exchange.registry.operator.api_keys() if f"key:{k.id}" == exchange.caller.id), None)
    if own and own.expires_at:
        rest = datetime.fromisoformat(own.expires_at) - datetime.now(UTC)
        if days is None or days > rest / timedelta(days=1):
            raise NotAllowed(f"the caller's own key ends at {own.expires_at}, and one that it makes ends no later")


@handles(operations.REVOKE_KEY)
def revoke_key(
    exchange: Exchange, key_id: Annotated[str, Path(description="As the list of keys has it.", max_length=64)]
) -> Shape:
    """End a key now, and the logins at servers that its holder made. It needs a caller who sees everything."""
    with exchange.attempt("remove", f"key {key_id}"):
        _require_keeper(exchange, "to revoke keys")
        key = exchange.registry.operator.revoke_key(key_id)
        login_file(exchange.service.settings).forget(f"key:{key.id}")
    return shapes.shape(key)


class DaysQuery(Parameters):
    """Of what, and in which parts."""

    of: UsageOf = Field(default="tool", description="Calls by tool or by caller, or requests by caller.")
    by: UsageBy = Field(default="day", description="A part for each day, or for each tool or caller.")
    name: str = Field(default="", max_length=MAX_ID_CHARS * 2, description="Only of this tool or caller, by id.")
    days: int = Field(default=30, ge=1, le=MAX_DAYS, description="So many days, today included.")


@handles(operations.USAGE_DAYS, lane=Lanes.wait)
def usage_days(exchange: Exchange, query: Annotated[DaysQuery, Query()]) -> Shape:
    """Calls, errors and latencies by day, tool or caller; and requests, with those that found nothing. It needs the
    scope `admin` and a caller who sees everything.
    """
    exchange.caller.require_everything("usage")
    return {"usage": list(map(shapes.shape, exchange.registry.operator.usage_days(**query.model_dump())))}


@handles(operations.SEARCH_GAPS, lane=Lanes.wait)
def search_gaps(exchange: Exchange) -> Shape:
    """The last requests that found nothing, if their texts are kept; and words of requests that no text of the
    registry held. It needs the scope `admin` and a caller who sees everything.
    """
    exchange.caller.require_everything("usage")
    return shapes.shape(exchange.registry.operator.search_gaps())


@handles(operations.SERVICE, lane=Lanes.wait)
def service(exchange: Exchange) -> Shape:
    """How the service runs, and what an operator should look at. It needs a caller who sees everything."""
    exchange.caller.require_everything("the state of the service")
    hindrance = exchange.service.readiness.hindrance()
    return {
        "version": version("waygraph"),
        "python": platform.python_version(),
        "memory_bytes": memory_bytes(),
        "ready": hindrance is None,
        "asks_who_calls": exchange.service.authenticator is not None,
        "settings": [
            {"name": f"{PREFIX}{each.name.upper()}", "value": without_secrets(str(value)) if each.repr else ""}
            for each in fields(Settings)
            if (value := getattr(exchange.service.settings, each.name)) != each.default
        ],
        "cautions": list(_cautions(exchange, hindrance)),
    }


def _cautions(exchange: Exchange, hindrance: WaygraphError | None) -> list[str]:
    cautions = [str(hindrance)] if hindrance else []
    if exchange.service.authenticator:
        cautions.append(exchange.service.authenticator.keys.caution())
    with suppress(WaygraphError):
        failing = len(exchange.status.failures)
        cautions.append(f"{failing} of the sources' servers or parts fail: see Sources" if failing else "")
        waiting = sum(agent.pending for agent in exchange.registry.agents())
        cautions.append(f"{waiting} agents wait for approval: see Changes" if waiting else "")
    return list(filter(None, cautions))


@handles(operations.EVALUATIONS, lane=Lanes.wait)
def evaluations(exchange: Exchange) -> Shape:
    """Records of `waygraph eval` in the folder that the operator names (`WAYGRAPH_EVALS_DIR`), newest first, without
    their queries. It needs the scope `admin` and a caller who sees everything.
    """
    exchange.caller.require_everything("evaluations")
    return read_evaluations(exchange.service.settings.evals_dir)
