"""Configurations of the hosts of MCP servers, and manifests of desktop bundles. One file is one source, each server an
agent.

Read, they give agents without tools; nothing is started. `servers` gives how each is started or reached, with every
reference resolved. The forms of an entry are in `configured_server`, those of a `${…}` in `environment`.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from waygraph.ingest.manifest.environment import Scope, Surroundings
from waygraph.ingest.manifest.fields import fields_of, map_texts, mostly, pointer
from waygraph.ingest.manifest.records import AgentRecord, Intake, ServerEntry, ToolRecord, shape_of
from waygraph.ingest.sources.formats.configured_server import (
    ConfiguredServer,
    is_launch_alone,
    launch_of,
    names_a_launch,
    parts_of,
    read_isolation,
    read_server,
)
from waygraph.ingest.sources.formats.listings import tool_records
from waygraph.ingest.sources.formats.switches import Faulty, Switches, is_off, switches_of
from waygraph.ingest.sources.parse import MANIFEST, parse_file, plugin_folder
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.identity import name_fault
from waygraph.registry.model.settings import Settings

SHAPE = (
    '{"mcpServers": {server: {"command": …} or {"url": …}}}, or the form of another host: `servers` of VS Code, '
    "`context_servers` of Zed, `mcp_servers` of Codex, `mcp` of opencode, `extensions` of Goose"
)
DISABLED = "disabled"
"""The tag of a server that its config has switched off."""
OFF = "is switched off there"
_TABLES = ("mcpServers", "mcp_servers", "context_servers")
"""Names that nothing but a table of servers has; settings of an editor have them behind a name and a dot."""
_OTHERS_SERVERS = ("asyncapi", "openapi", "swagger")
_AT_THE_ROOT = (".mcp.json", "gemini-extension.json", MANIFEST)
"""Files that lie in the folder of their project, plug-in or extension."""
_GOOSE_FIELDS = frozenset(("cmd", "uri", "config"))
_PROJECT_FOLDERS = frozenset(
    ".agents .amazonq .claude .codex .continue .cursor .gemini .idea .junie .kilocode .kiro .opencode .qwen .roo"
    " .vscode .windsurf .zed".split()
)
_BARE_PLACES = frozenset(".copilot .crush .gemini .goose .qwen crush goose".split())
"""Folders and files, without their suffix, of the hosts that refer to a variable as `$NAME`, too."""


def fits(document: Any) -> bool:
    if not isinstance(document, Mapping):
        return False
    return any(_project_tables(document)) or any(_tables_of_all(document))


def read(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:  # noqa: ARG001 - as all kinds
    """An agent for each server, without tools."""
    for entry in _entries(document, intake):
        if entry.server.disabled:
            intake.note_cut(entry.pointer, f"{OFF}: listed, and not started")
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
        text = entry.server.launch_text(launch, inputs, entry.project)
        yield ServerEntry(key=entry.key, launch=launch, record=_record(entry), in_config=True, launch_text=text)


BUNDLE_SHAPE = (
    '{"manifest_version": …, "name": …, "server": {"mcp_config": {"command": …}}} of a desktop bundle (.mcpb)'
)
_OF_USER = re.compile(r"\$\{user_config\.([^${}:]{1,128})\}")


def fits_bundle(document: Any) -> bool:
    """Whether it is the manifest.json of a desktop bundle (mcpb, dxt)."""
    is_bundle = isinstance(document, Mapping) and ("manifest_version" in document or "dxt_version" in document)
    return is_bundle and isinstance(document.get("server"), Mapping)


def as_config(document: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """The bundle as a host's file; what is no bundle, as it is. Each value of `user_config` is an input: where it has
    no default, a variable of the environment gives it.
    """
    if not fits_bundle(document):
        return document
    entry = dict(fields_of(fields_of(document["server"]).get("mcp_config")))
    entry |= fields_of(fields_of(entry.pop("platform_overrides", None)).get(sys.platform))
    places = {"${__dirname}": str(Path(where).absolute().parent), "${HOME}": "${userHome}", "${pathSeparator}": "${/}"}

    def resolve(text: str) -> str:
        for name, place in places.items():
            text = text.replace(name, place)
        return _OF_USER.sub(r"${input:\1}", text)

    options = {name: fields_of(option) for name, option in fields_of(document.get("user_config")).items()}
    inputs = [
        {"id": name, "default": resolve(str(option["default"])), "password": option.get("sensitive") is True}
        for name, option in options.items()
        if isinstance(option.get("default"), (str, int, float))
    ]
    return {"mcpServers": [{**map_texts(entry, resolve), "name": document.get("name")}], "inputs": inputs}


def read_bundle(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:
    """The server of a desktop bundle, with the tools that its manifest lists."""
    bundle = Intake(where=where)
    for record in read(as_config(document, where), where, bundle):
        yield _with_words(record, document, tool_records(document.get("tools") or [], "/tools", intake))
    for fault in bundle.rejected:
        intake.reject_agent("/server/mcp_config", fault.reason, key=fault.key)


def servers_of_bundle(document: Any, where: str, intake: Intake) -> Iterator[ServerEntry]:
    """If a value is missing that a person must give, it is not asked, and what the manifest lists of it holds."""
    bundle = Intake(where=where, surroundings=intake.surroundings)
    for server in servers(as_config(document, where), where, bundle):
        yield replace(server, record=_with_words(server.record, document, ()))
    for fault in bundle.rejected:
        intake.note_cut("/server/mcp_config", f"not started: {fault.reason}")


def _with_words(record: AgentRecord, document: Mapping[str, Any], tools: Iterable[ToolRecord]) -> AgentRecord:
    """As the manifest of its bundle describes it."""
    title, description, version = (document.get(name) for name in ("display_name", "description", "version"))
    name = "" if name_fault(title) else title
    return replace(
        record, pointer="/server/mcp_config", name=name, description=description, version=version, tools=tools
    )


def config_entry(path: str, key: str, settings: Settings, surroundings: Surroundings) -> ServerEntry:
    """One server of a config again, by its key: what its claim in the graph names.

    Raises SourceError if the file or the server is not there, or cannot be asked now.
    """
    intake = Intake(where=path, surroundings=surroundings)
    if not fits(document := as_config(parse_file(path, settings), path)):
        raise SourceError(path, f"is no client's config: expected {SHAPE}", pointer="/")
    server_entry = next((server for server in servers(document, path, intake) if server.key == key), None)
    if server_entry is not None:
        return server_entry
    reasons = [fault.reason for fault in intake.rejected if fault.key == key]
    is_disabled = any(entry.key == key and entry.server.disabled for entry in _entries(document, intake))
    reason = reasons[0] if reasons else f"it {OFF}" if is_disabled else "it is not listed there"
    raise SourceError(path, f"server {key!r}: {reason}")


# -- where servers stand ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A server that is well written, and where. `project`: the folder of the project it belongs to, if it says so."""

    key: str
    pointer: str
    server: ConfiguredServer
    project: str = ""


def read_entry(name: str, entry: object, beside: Switches, *, bare_variables: bool = False) -> ConfiguredServer:
    """A server of a host's file, with all that switches it or tools of it off, in its entry and `beside` it.

    `bare_variables`: as of `standard_entry`. Raises Faulty.
    """
    server = read_server(entry, bare_variables=bare_variables)
    limits = (*server.limits, *beside.limits_of(name))
    return replace(server, disabled=server.disabled or beside.turn_off(name), limits=limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    pointer: str
    servers: object
    switches: Switches
    prefix: str = ""
    project: str = ""


def _entries(document: Mapping[str, Any], intake: Intake) -> Iterator[_Entry]:
    path = PurePath(intake.where)
    bare_variables = not _BARE_PLACES.isdisjoint((path.parent.name, path.stem))
    for table in _tables(document):
        for place, name, entry in _members(table.servers, table.pointer, intake):
            if fault := name_fault(name):
                intake.reject_agent(place, f"a server's name: {fault}")
                continue
            key = f"{table.prefix}{name}"
            try:
                server = read_entry(str(name), entry, table.switches, bare_variables=bare_variables)
                if server.isolate is None and "isolate" in document:
                    server = replace(server, isolate=read_isolation(document["isolate"]))
            except Faulty as exc:
                with suppress(Faulty):
                    if is_off(parts_of(entry)):  # nobody misses its server, whatever else is wrong with it
                        intake.note_cut(place, f"{OFF}, and not listed: {exc}")
                        continue
                intake.reject_agent(place, str(exc), key=key)
                continue
            yield _Entry(key=key, pointer=place, server=server, project=table.project)


def _members(servers: object, place: str, intake: Intake) -> Iterator[tuple[str, object, object]]:
    """Place, name and entry of each: of an object, or of a list whose entries hold their names or are such objects."""
    if isinstance(servers, Mapping):
        yield from ((f"{place}{pointer(name)}", name, entry) for name, entry in servers.items())
    elif isinstance(servers, list):
        for number, item in enumerate(servers):
            if isinstance(item, Mapping) and ("name" in item or names_a_launch(item)):
                yield f"{place}/{number}", item.get("name"), item
            elif isinstance(item, (Mapping, str)):
                yield from _members(item, f"{place}/{number}", intake)
            else:
                intake.reject_agent(f"{place}/{number}", f"expected an object, found {shape_of(item)}")
    elif isinstance(servers, str):
        intake.reject_agent(place, "names a file that is not there, is no JSON, or is not in the folder of the plug-in")
    else:
        intake.reject_agent(place, f"expected an object with servers, found {shape_of(servers)}")


def _tables(document: Mapping[str, Any]) -> Iterator[_Table]:
    switches = switches_of(document)
    yield from (_Table(pointer=place, servers=table, switches=switches) for place, table in _tables_of_all(document))
    projects = dict(_project_tables(document))
    names = Counter(PurePath(folder).name for folder in projects)
    for folder, settings in projects.items():
        # What tells a project's servers from those of others: its folder's name, or the whole path if two have one.
        name = PurePath(folder).name
        yield _Table(
            pointer=pointer("projects", folder, "mcpServers"),
            servers=settings["mcpServers"],
            switches=switches_of(settings),
            prefix=f"{name if name and names[name] == 1 else folder.strip('/')}/",
            project=folder,
        )


def _tables_of_all(document: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Those that are no single project's."""
    # Whether the document itself is a table of servers, as in plug-ins: half of it is, and no text is beside it.
    values = list(_named_values(document).values())
    if not any(isinstance(value, str) for value in values) and mostly(values, is_launch_alone):
        yield "", _named_values(document)
    yield from _tables_by_name(document)
    yield from _tables_of_vs_code(document)
    if "servers" not in fields_of(document.get("mcp")) and _names_launches(document.get("mcp")):
        yield "/mcp", document["mcp"]
    # Other documents have extensions: those of Goose are switched on, or have its own names of fields.
    table = document.get("extensions")
    entries = table.values() if isinstance(table, Mapping) else table if isinstance(table, list) else ()
    keys = [set(entry) for entry in entries if isinstance(entry, Mapping)]
    if any({"enabled", "type"} <= each or not _GOOSE_FIELDS.isdisjoint(each) for each in keys):
        yield "/extensions", document["extensions"]


def _tables_by_name(document: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """At the top, and in the part of one host or of one of its features, as those of Kiro and Augment."""
    for name, part in document.items():
        if str(name).rpartition(".")[2] in _TABLES:
            yield pointer(name), part
        elif name != "projects" and isinstance(part, Mapping):
            inner = ((key, part[key]) for key in _TABLES if isinstance(part.get(key), (Mapping, list)))
            yield from ((pointer(name, key), table) for key, table in inner)


def _tables_of_vs_code(document: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """`mcp.json` has `servers` at its top, `settings.json` under `mcp`, and so has opencode."""
    tables = {"/mcp/servers": fields_of(document.get("mcp")).get("servers")}
    if not any(name in document for name in _OTHERS_SERVERS):
        tables = {"/servers": document.get("servers"), **tables}
    for place, table in tables.items():
        is_vs_codes = "mcp" in document or set(document) <= {"servers", "inputs"}
        if _names_launches(table) or (table == {} and is_vs_codes):  # of one that names no server (any more)
            yield place, table


def _project_tables(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Of `~/.claude.json`: a project's folder, and what it keeps for it."""
    projects = document.get("projects")
    for folder, settings in projects.items() if isinstance(projects, Mapping) else ():
        if isinstance(folder, str) and isinstance(settings, Mapping) and "mcpServers" in settings:
            yield folder, settings


def _names_launches(table: object) -> bool:
    """Other documents have tables of these names too."""
    entries = table.values() if isinstance(table, Mapping) else ()
    return any(isinstance(each, Mapping) and names_a_launch(each) for each in entries)


def _named_values(document: Mapping[str, Any]) -> dict[str, Any]:
    """Without what tells of the document itself, such as `$schema`."""
    return {name: value for name, value in document.items() if not str(name).startswith("$")}


def _project(where: str, around: Surroundings) -> str:
    """The folder of the project or plug-in that a file configures, by its place; empty: it is neither's."""
    path = Path(around.cwd, where)
    if "://" in where:
        return ""
    if path.name in _AT_THE_ROOT:
        return str(plugin_folder(path))
    folder = next((each.parent for each in list(path.parents)[:2] if each.name in _PROJECT_FOLDERS), None)
    return "" if folder is None or str(folder) == around.home else str(folder)


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
        limits=server.limits,
    )


def _defaults(document: Mapping[str, Any]) -> dict[str, str]:
    """Of VS Code's `inputs`: id → default, of those that have one and are no password."""
    lists = [document.get("inputs"), fields_of(document.get("mcp")).get("inputs")]
    entries = [entry for inputs in lists if isinstance(inputs, list) for entry in inputs if isinstance(entry, Mapping)]
    return {
        entry["id"]: entry["default"]
        for entry in entries
        if isinstance(entry.get("id"), str) and isinstance(entry.get("default"), str) and not entry.get("password")
    }
