"""Entries of the MCP registry: `server.json` alone, an answer of its API, or a list of entries.

Each gives an agent without tools, since an entry lists none. Of each name only the latest version counts.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import Any

from waygraph.ingest.manifest.fields import mostly, pointer
from waygraph.ingest.manifest.records import AgentRecord, Intake, ServerEntry, shape_of
from waygraph.ingest.sources.formats import server_json
from waygraph.ingest.sources.formats.old_forms import OFFICIAL, Fields, upgrade_entry
from waygraph.ingest.sources.formats.server_json import objects, text
from waygraph.ingest.sources.formats.switches import Faulty
from waygraph.registry.http.addresses import is_loopback, is_public, split_url
from waygraph.registry.model.identity import name_fault

SHAPE = '{"servers": [{"server": {"name": …, "packages": […], "remotes": […]}}]}, a list of such, or one server.json'
DEPRECATED = "deprecated"
_NAMES_HERE = (".localhost", ".local", ".internal", ".lan", ".home.arpa")
"""Ends of names that only this machine or its network knows."""
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
_OTHERS_FIELDS = {"tools", "agents", "skills"}


def fits(document: Any) -> bool:
    if isinstance(document, list):
        return mostly(document, _looks_like_an_entry)
    if not isinstance(document, Mapping):
        return False
    if isinstance(entries := document.get("servers"), list):
        return any(map(_looks_like_an_entry, entries)) or (
            not entries and isinstance(document.get("metadata"), Mapping)
        )
    return _looks_like_an_entry(document)


def read(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:
    """An agent for each name. What the registry has deleted is told to the intake as gone."""
    is_reachable = _reachable_from(where)
    for version in _latest(_read_list(document, intake), intake):
        if version.status == "deleted":
            intake.gone.append(version.name)
        else:
            _tell_faulty_parts(version, intake)
            yield _record(version, is_reachable)


def servers(document: Any, where: str, intake: Intake) -> Iterator[ServerEntry]:
    """Those with a remote that may be asked, and needs nothing that is missing.

    One by itself takes what it asks for from the environment, and what is missing is told; a list may hold thousands,
    which nobody chose.
    """
    is_reachable, is_one = _reachable_from(where), _is_one(document)
    environ = intake.surroundings.environ if is_one else {}
    for version in _latest(_read_list(document, intake), intake):
        if version.status == "deleted" or name_fault(version.name):
            continue
        faults = list[str]()
        for remote in objects(version.server, "remotes"):
            try:
                launch = server_json.launch_of_remote(remote, is_reachable, environ)
            except Faulty as fault:
                faults.append(str(fault))
                continue
            # A name may lead anywhere, which is known only where it is looked up.
            launch = replace(launch, public=not _is_here(where))
            yield ServerEntry(key=version.name, launch=launch, record=_record(version, is_reachable))
            break
        else:
            if is_one and faults:
                intake.note_cut(version.pointer, f"not asked: {'; '.join(dict.fromkeys(faults))}")


def is_superseded(entry: object) -> bool:
    """Whether an entry says of itself that it is not the latest version."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("server", entry), Mapping):
        return False
    return upgrade_entry(entry)["_meta"][OFFICIAL]["isLatest"] is False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    """One version of a server. `is_latest` None: not said. `at`: when it was published, RFC 3339, empty if not said."""

    pointer: str
    name: str
    version: str
    server: Fields
    status: str
    is_latest: bool | None
    at: str


def _looks_like_an_entry(entry: object) -> bool:
    if not isinstance(entry, Mapping) or _OTHERS_FIELDS & set(entry):
        return False
    if isinstance(entry.get("server"), Mapping):
        return "name" in entry["server"]
    has_parts = any(isinstance(entry.get(name), list) for name in ("packages", "remotes"))
    schema = entry.get("$schema")
    of_registry = isinstance(schema, str) and "modelcontextprotocol" in schema
    return "name" in entry and (has_parts or of_registry or "version_detail" in entry)


def _is_one(document: Any) -> bool:
    return isinstance(document, Mapping) and not isinstance(document.get("servers"), list)


def _raw_entries(document: Any) -> Iterator[tuple[str, object]]:
    """Each with its pointer."""
    if _is_one(document):
        yield "", document
    elif isinstance(document, Mapping):
        yield from ((pointer("servers", number), entry) for number, entry in enumerate(document["servers"]))
    else:
        yield from ((pointer(number), entry) for number, entry in enumerate(document))


def _read_list(document: Any, intake: Intake) -> Iterator[_Version]:
    for place, entry in _raw_entries(document):
        server = entry.get("server", entry) if isinstance(entry, Mapping) else entry
        if not isinstance(entry, Mapping) or not isinstance(server, Mapping):
            intake.reject_agent(place, f"expected an entry of the MCP registry, found {shape_of(server)}")
        elif _is_empty(entry):
            # It can be of no agent: what is not listed is not held back for it.
            intake.reject(place, "an empty entry: all its fields are empty")
        elif fault := name_fault(server.get("name")):
            intake.reject_agent(place, f"name: {fault}")
        else:
            yield _version_of(place, entry)


def _version_of(place: str, entry: Fields) -> _Version:
    current = upgrade_entry(entry)
    server, official = current["server"], current["_meta"][OFFICIAL]
    return _Version(
        pointer=place,
        name=server["name"],
        version=server["version"],
        server=server,
        status=official["status"],
        is_latest=official["isLatest"],
        at=official["publishedAt"],
    )


def _is_empty(entry: object) -> bool:
    """Whether nothing at all is said in it, however deep."""
    rest = [entry]
    while rest:
        if isinstance(value := rest.pop(), (Mapping, list)):
            rest += value.values() if isinstance(value, Mapping) else value
        elif value:
            return False
    return True


def _latest(candidates: Iterable[_Version], intake: Intake) -> Iterator[_Version]:
    """Of each name the version that says so of itself, else the last published; in the order of the names' first."""
    best: dict[str, _Version] = {}
    versions = set[tuple[str, str]]()
    for version in candidates:
        if (version.name, version.version) in versions:
            intake.reject(version.pointer, f"{version.name!r} is listed before in this version; the first is kept")
            continue
        versions.add((version.name, version.version))
        if (former := best.get(version.name)) is None or _age(version) > _age(former):
            best[version.name] = version
    yield from best.values()


def _age(version: _Version) -> tuple[bool, bool, float]:
    return version.is_latest is True, version.is_latest is not False, _moment(version.at)


def _moment(at: str) -> float:
    """Of RFC 3339, whatever its offset; what is none is before all others."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return -inf
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _tell_faulty_parts(version: _Version, intake: Intake) -> None:
    """A package or remote that is none costs only itself."""
    for name in ("packages", "remotes"):
        if (part := version.server.get(name)) is not None and not isinstance(part, list):
            intake.reject(f"{version.pointer}{pointer(name)}", f"expected a list, found {shape_of(part)}")
        for number, item in enumerate(part if isinstance(part, list) else ()):
            if not isinstance(item, Mapping):
                place = f"{version.pointer}{pointer(name, number)}"
                intake.reject(place, f"expected an object, found {shape_of(item)}")


def _record(version: _Version, is_reachable: Callable[[str], bool]) -> AgentRecord:
    title = text(version.server, "title")
    kinds = {kind for kind in server_json.types_of(version.server) if not name_fault(kind)}
    return AgentRecord(
        pointer=version.pointer,
        key=version.name,
        name="" if name_fault(title) else title,
        description=version.server.get("description"),
        version=version.version,
        transport=server_json.transport_of(version.server, is_reachable),
        tags=tuple(kinds | ({DEPRECATED} if version.status == "deprecated" else set())),
    )


def _reachable_from(where: str) -> Callable[[str], bool]:
    """A list that came from elsewhere must not have this machine or its network asked: only hosts of the internet.

    One from an address of this machine may name this machine.
    """
    from_here = _is_here(where)
    return lambda host: from_here or _is_elsewhere(host)


def _is_here(where: str) -> bool:
    parts = split_url(where) if "://" in where else None
    return parts is not None and is_loopback(parts.hostname or "")


def _is_elsewhere(host: str) -> bool:
    """Of an address or a name; not looked up. A name that ends in a number is another spelling of an address."""
    name = host.casefold().rstrip(".")
    if ":" in name or _NUMBER.fullmatch(name.rpartition(".")[2]):
        return is_public(name)
    return "." in name and not name.endswith(_NAMES_HERE)
