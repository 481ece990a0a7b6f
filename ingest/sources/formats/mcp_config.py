"""Configs of MCP clients: Claude Desktop, Claude Code, Cursor, VS Code. One file is one source, each server an agent.

Read, they give agents without tools; nothing is started. `servers` gives how each is started or reached, with every
reference resolved. The forms that a `${…}` may have are in `interpolation`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from waygraph.ingest.manifest.environment import Scope, Surroundings
from waygraph.ingest.manifest.fields import pointer
from waygraph.ingest.manifest.records import AgentRecord, Intake, ServerEntry, shape_of
from waygraph.ingest.sources.formats.configured_server import ConfiguredServer, Faulty, launch_of, read_server
from waygraph.ingest.sources.parse import parse_file
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.identity import name_fault
from waygraph.registry.model.settings import Settings

SHAPE = '{"mcpServers": {server: {"command": …} or {"url": …}}}, or VS Code\'s {"servers": {…}, "inputs": […]}'
DISABLED = "disabled"
"""The tag of a server that its config has switched off."""
_OTHERS_SERVERS = ("asyncapi", "openapi", "swagger")
_PROJECT_FOLDERS = (".vscode", ".cursor")


def fits(document: Any) -> bool:
    if not isinstance(document, Mapping):
        return False
    if "mcpServers" in document or any(_project_tables(document)):
        return True
    return any(
        isinstance(table, Mapping) and (_names_a_launch(table) or (not table and _is_vs_codes(document)))
        for _, table in _tables_of_vs_code(document)
    )


def read(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:  # noqa: ARG001
    """An agent for each server, without tools."""
    for entry in _entries(document, intake):
        yield _record(entry)


def servers(document: Any, where: str, intake: Intake) -> Iterator[ServerEntry]:
    """Those that are not disabled, each reference resolved by the intake's surroundings."""
    inputs = _defaults(document)
    for entry in _entries(document, intake):
        if entry.server.disabled:
            continue
        around = intake.surroundings
        scope = Scope(surroundings=around, workspace=entry.project or _project(where, around), inputs=inputs)
        try:
            launch = launch_of(entry.server, scope)
        except Faulty as fault:
            intake.reject_agent(entry.pointer, str(fault), key=entry.key)
            continue
        written = entry.server.launch_text(launch, inputs, entry.project)
        yield ServerEntry(key=entry.key, launch=launch, record=_record(entry), in_config=True, written=written)


def config_entry(path: str, key: str, settings: Settings, surroundings: Surroundings) -> ServerEntry:
    """One server of a config again, by its key: what its claim in the graph names.

    Raises SourceError if the file or the server is not there, or cannot be asked now.
    """
    intake = Intake(where=path, settings=settings, surroundings=surroundings)
    document = parse_file(path, settings)
    if not fits(document):
        raise SourceError(path, f"is no client's config: expected {SHAPE}", pointer="/")
    found = next((server for server in servers(document, path, intake) if server.key == key), None)
    if found is not None:
        return found
    reasons = [fault.reason for fault in intake.rejected if fault.key == key]
    disabled = any(entry.key == key and entry.server.disabled for entry in _entries(document, intake))
    reason = reasons[0] if reasons else "it is disabled there" if disabled else "it is not listed there"
    raise SourceError(path, f"server {key!r}: {reason}")


# -- where servers stand ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A server that is well written, and where. `project`: the folder of the project it belongs to, if it says so."""

    key: str
    pointer: str
    server: ConfiguredServer
    project: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    pointer: str
    servers: object
    prefix: str = ""
    project: str = ""


def _entries(document: Mapping[str, Any], intake: Intake) -> Iterator[_Entry]:
    for table in _tables(document):
        if not isinstance(table.servers, Mapping):
            intake.reject_agent(table.pointer, f"expected an object with servers, found {shape_of(table.servers)}")
            continue
        for name, entry in table.servers.items():
            yield from _entry(table, name, entry, intake)


def _entry(table: _Table, name: object, entry: object, intake: Intake) -> Iterator[_Entry]:
    place = f"{table.pointer}{pointer(name)}"
    if fault := name_fault(name):
        intake.reject_agent(place, f"a server's name: {fault}")
        return
    key = f"{table.prefix}{name}"
    try:
        yield _Entry(key=key, pointer=place, server=read_server(entry), project=table.project)
    except Faulty as fault:
        intake.reject_agent(place, str(fault), key=key)


def _tables(document: Mapping[str, Any]) -> Iterator[_Table]:
    if "mcpServers" in document:
        yield _Table(pointer="/mcpServers", servers=document["mcpServers"])
    for place, table in _tables_of_vs_code(document):
        yield _Table(pointer=place, servers=table)
    projects = dict(_project_tables(document))
    for folder, table in projects.items():
        prefix = _prefix(folder, list(projects))
        place = pointer("projects", folder, "mcpServers")
        yield _Table(pointer=place, servers=table, prefix=prefix, project=folder)


def _tables_of_vs_code(document: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """`mcp.json` has `servers` at its top, `settings.json` under `mcp`."""
    if "servers" in document and not any(name in document for name in _OTHERS_SERVERS):
        yield "/servers", document["servers"]
    settings = document.get("mcp")
    if isinstance(settings, Mapping) and "servers" in settings:
        yield "/mcp/servers", settings["servers"]


def _project_tables(document: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Of `~/.claude.json`: a project's folder, and its servers."""
    projects = document.get("projects")
    for folder, settings in projects.items() if isinstance(projects, Mapping) else ():
        if isinstance(folder, str) and isinstance(settings, Mapping) and "mcpServers" in settings:
            yield folder, settings["mcpServers"]


def _names_a_launch(table: Mapping[Any, Any]) -> bool:
    """Other documents have `servers` too."""
    return any(isinstance(entry, Mapping) and {"command", "url", "type"} & set(entry) for entry in table.values())


def _is_vs_codes(document: Mapping[str, Any]) -> bool:
    """Of one that names no server (any more)."""
    return "mcp" in document or set(document) <= {"servers", "inputs"}


def _prefix(folder: str, folders: Sequence[str]) -> str:
    """What tells a project's servers from those of others: its folder's name, or the whole path if two have one."""
    name = PurePath(folder).name
    alone = [PurePath(other).name for other in folders].count(name) == 1
    return f"{name if name and alone else folder.strip('/')}/"


def _project(where: str, around: Surroundings) -> str:
    """The folder of the project that a file configures, by where clients look for it; empty: it is no project's."""
    path = PurePath(where)
    if "://" in where or (path.name != ".mcp.json" and path.parent.name not in _PROJECT_FOLDERS):
        return ""
    return str(PurePath(around.cwd, path.parent if path.name == ".mcp.json" else path.parent.parent))


# -- what is told of them --------------------------------------------------------------------------


def _record(entry: _Entry) -> AgentRecord:
    server = entry.server
    return AgentRecord(
        pointer=entry.pointer,
        key=entry.key,
        name="" if name_fault(server.name) else server.name,
        description=server.description,
        transport=server.transport,
        tags=(DISABLED,) if server.disabled else (),
    )


def _defaults(document: Mapping[str, Any]) -> dict[str, str]:
    """Of VS Code's `inputs`: id → default, of those that have one and are no password."""
    settings = document.get("mcp")
    listed = [document.get("inputs"), settings.get("inputs") if isinstance(settings, Mapping) else None]
    found = [given for inputs in listed if isinstance(inputs, list) for given in inputs if isinstance(given, Mapping)]
    return {
        given["id"]: given["default"]
        for given in found
        if isinstance(given.get("id"), str) and isinstance(given.get("default"), str) and not given.get("password")
    }
