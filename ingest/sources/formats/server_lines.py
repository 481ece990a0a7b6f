"""JSON Lines with one server a line: name, URL, description and category, as awesome lists of MCP servers have them.

A server is known by its address, since a name in such a list is whatever somebody called it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from waygraph.ingest.manifest.records import AgentRecord, Intake, shape_of
from waygraph.ingest.sources.parse import Line, Lines
from waygraph.registry.http.addresses import split_url
from waygraph.registry.model.identity import MAX_NAME_CHARS

SHAPE = 'JSON Lines, one server a line: {"name": …, "url": …, "description": …, "category": …}'


def fits(document: Any) -> bool:
    return isinstance(document, Lines) and any(_is_server(line.value) for line in document.lines)


def read(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:  # noqa: ARG001
    names: dict[str, object] = {}
    for line in document.lines:
        if fault := _fault(line):
            intake.reject_agent(f"L{line.number}", fault)
        else:
            yield _record(line.value, f"L{line.number}", names)


def _fault(line: Line) -> str:
    """Why nothing can be said of the line's server, not even which it is."""
    if line.fault:
        return line.fault
    if not isinstance(line.value, Mapping):
        return f"expected a server object, found {shape_of(line.value)}"
    url = line.value.get("url")
    if url and not _address(url):
        found = "another text" if isinstance(url, str) else shape_of(url)
        return f"url: expected an address such as https://host/path, found {found}"
    return ""


def _record(server: Mapping[str, Any], pointer: str, names: dict[str, object]) -> AgentRecord:
    """The server's agent. `names`: address → name of the first server with that address."""
    name, url, category = server.get("name"), server.get("url"), server.get("category")
    address = _address(url)
    key = address if address and len(address) <= MAX_NAME_CHARS else name
    if key == address and names.setdefault(address, name) != name:  # several servers of one repository
        key = f"{address}#{name}"
    return AgentRecord(
        pointer=pointer,
        key=key,
        name=name or "",
        description=server.get("description"),
        transport={"homepage": url} if url else None,
        tags=[category] if category else (),
    )


def _address(url: object) -> str:
    """Host and path of a URL: without a login or a query, which may hold secrets. Empty if it is no URL."""
    parts = split_url(url.strip()) if isinstance(url, str) else None
    if parts is None or not parts.hostname:
        return ""
    return f"{parts.hostname}{parts.path.rstrip('/')}"


def _is_server(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("name"), str) and isinstance(value.get("url"), str)
