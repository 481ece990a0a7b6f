"""What changes the registry: manifests of sources, what operators say; usage, and Cypher that a caller typed.

What an operator looks after: keys, usage over time, how the service runs, and records of evaluations.
"""

import json
import pathlib
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.metadata import version
from itertools import islice
from typing import Annotated

from fastapi import Path
from fastapi.responses import Response
from pydantic import BaseModel

from waygraph.api.rest import requests
from waygraph.api.rest.perform import serve
from waygraph.api.rest.problems import problem_of
from waygraph.api.rest.routes.catalog import AgentId
from waygraph.api.rest.service import Exchange, Lanes, handles, report_line
from waygraph.api.telemetry.logs import without_secrets
from waygraph.api.telemetry.metrics import memory_bytes
from waygraph.ingest.logins.store import login_file
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.formats import catalogue
from waygraph.ingest.sources.read import read_documents
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model import shapes
from waygraph.registry.model.changes import Document, KeySummary
from waygraph.registry.model.errors import NotAllowed, WaygraphError
from waygraph.registry.model.settings import PREFIX, Settings
from waygraph.registry.model.shapes import Shape
from waygraph.registry.model.validation import MAX_NAME_CHARS
from waygraph.registry.operations import oversight
from waygraph.registry.operations import table as operations
from waygraph.registry.operations.agents import Reject, SetAgent, SetTool
from waygraph.registry.operations.graph_views import RunCypher

SourceName = Annotated[str, Path(description="The source's name.", min_length=1, max_length=MAX_NAME_CHARS)]
HOW = {"namespace", "kind", "policy", "texts", "partial", "allow_mass_removal"}
"""What a caller says of a manifest beside itself, as the audit has it."""


@handles(operations.MANIFESTS)
async def manifests(exchange: Exchange, body: requests.ManifestRequest) -> Response:
    """Bring the registry to what a source says now. An export holds several sources: a report for each.

    With `kind` "export" it also restores what operators had set. That needs a caller who sees everything.
    """
    content = await exchange.request.body()
    return await exchange.service.lanes.write(lambda: exchange.as_json(_take(exchange, body)), len(content))


def _take(exchange: Exchange, body: requests.ManifestRequest) -> Shape:
    reports: list[Shape] = []
    try:
        details = report_line(body.model_dump(include=HOW, exclude_defaults=True))
        with exchange.attempt("ingest", body.source, details=details, dry_run=body.dry_run or None) as attempt:
            if body.kind == catalogue.EXPORT_KIND:
                # What operators set, approved and ranked comes back with it, of whichever agent the file names.
                exchange.caller.require_everything(f"a manifest of kind {catalogue.EXPORT_KIND!r}")
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


def _manifests(exchange: Exchange, request: requests.ManifestRequest) -> list[Manifest]:
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


def _serve_settings(kind: type[SetAgent | SetTool], model: type[BaseModel]) -> None:
    """`model`: of the body, whose fields are what is set."""
    serve(kind, model=model, make=lambda _, path, body: kind(**path, changes=body.model_dump(exclude_unset=True)))


serve(Reject, fills={"by": lambda exchange: exchange.caller.id})
_serve_settings(SetAgent, requests.SettingsRequest)
_serve_settings(SetTool, requests.ToolSettingsRequest)
serve(oversight.ListUsage, lane=Lanes.wait)
serve(oversight.ListUsageDays, lane=Lanes.wait)
serve(oversight.GetSearchGaps, lane=Lanes.wait)
serve(RunCypher, lane=Lanes.wait)


MOST_DAYS_BY_TOKEN = 90
"""Of a key that somebody made by an issuer's token: the issuer cannot end it with them."""


def _check_new_key(exchange: Exchange, request: oversight.CreateKey) -> None:
    """Raises NotAllowed."""
    _require_keeper(exchange)
    for scope in request.scopes:
        exchange.caller.require(scope)
    days = request.expires_in_days
    if exchange.caller.id.startswith("oidc:") and (days is None or days > MOST_DAYS_BY_TOKEN):
        raise NotAllowed(f"who shows a token makes keys for at most {MOST_DAYS_BY_TOKEN} days: say expires_in_days")
    own = next((k for k in exchange.registry.operator.api_keys() if f"key:{k.id}" == exchange.caller.id), None)
    if own and own.expires_at:
        rest = datetime.fromisoformat(own.expires_at) - datetime.now(UTC)
        if days is None or days > rest / timedelta(days=1):
            raise NotAllowed(f"the caller's own key ends at {own.expires_at}, and one that it makes ends no later")


def _require_keeper(exchange: Exchange, *_: object) -> None:
    """Raises NotAllowed also where nobody is asked who they are: there the first key alone can be made."""
    if exchange.service.authenticator is None and exchange.registry.operator.api_keys():
        raise NotAllowed(
            "this service asks nobody who they are, and there are keys: use `waygraph keys`, or have the service ask"
        )


def _forget_logins(exchange: Exchange, key: KeySummary) -> Mapping[str, object]:
    """Also the logins at servers that its holder made."""
    login_file(exchange.service.settings).forget(f"key:{key.id}")
    return {}


serve(oversight.CreateKey, check=_check_new_key)
serve(oversight.RevokeKey, check=_require_keeper, extend=_forget_logins)


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


KIND = "waygraph evaluation 1"
MAX_RECORDS, MAX_FILES = 200, 1_000
MAX_BYTES = 32 * 1024 * 1024
"""Of one record, which may hold all its queries."""


def read_evaluations(folder: str) -> Shape:
    """Of `MAX_FILES` files the newest `MAX_RECORDS` records, newest first, without queries. Links lead nowhere."""
    root = pathlib.Path(folder).resolve()
    files = (path for path in root.rglob("*.json") if path.is_file() and not path.is_symlink())
    paths = list(islice(files, MAX_FILES)) if folder else []
    pairs = [(path.relative_to(root).as_posix(), record) for path in paths if (record := _read(path))]
    pairs.sort(key=lambda pair: (str(pair[1].get("date")), pair[0]), reverse=True)
    records = [{"path": path, "record": record} for path, record in pairs[:MAX_RECORDS]]
    return {"folder": folder and str(root), "records": records, "other_files": len(paths) - len(records)}


def _read(path: pathlib.Path) -> Shape | None:
    """None: it is no record, too large, or cannot be read."""
    try:
        status = path.stat()
        return _parse(path, status.st_mtime_ns) if status.st_size <= MAX_BYTES else None
    except OSError:
        return None


@lru_cache(maxsize=MAX_FILES)
def _parse(path: pathlib.Path, _changed_ns: int) -> Shape | None:
    """Raises OSError."""
    try:
        record: Shape = json.loads(path.read_bytes())
        if record["kind"] != KIND:
            return None
        outcomes = [{name: value for name, value in each.items() if name != "queries"} for each in record["outcomes"]]
        return {**record, "outcomes": outcomes}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
