"""The kinds of document that are understood. The kind is told from the content; a person may name it instead.

A new kind is one module here and one line in `BUILT_IN`, or one in another package and an entry point of the group
`waygraph.kinds` that gives a `Kind`. See docs/sources.md.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waygraph.ingest.manifest import AgentRecord, Intake
from waygraph.ingest.sources import (
    a2a_card,
    catalogue,
    docker_catalog,
    export,
    livemcpbench,
    mcp_config,
    mcp_registry,
    openapi,
    server_lines,
    service_list,
    skill,
    tools_list,
)
from waygraph.ingest.sources.parsing import Lines
from waygraph.ingest.upstream.launch import ServerEntry
from waygraph.registry.errors import InvalidSetting, SourceError

if TYPE_CHECKING:
    from waygraph.ingest.sources.contributed import Contributed


@dataclass(frozen=True, slots=True)
class Kind:
    """`fits` tells from a parsed document whether it is of this kind; `read` gives its records.

    `servers`, of a kind that names MCP servers: those that can be asked for their tools. What is wrong with one of
    them is told to the intake. `live`: they are asked unless that is forbidden, since only they know their tools.
    """

    name: str
    shape: str
    fits: Callable[[Any], bool]
    read: Callable[[Any, str, Intake], Iterator[AgentRecord]]
    servers: Callable[[Any, str, Intake], Iterator[ServerEntry]] | None = None
    live: bool = False


BUILT_IN = (
    Kind("catalogue", catalogue.SHAPE, catalogue.fits, catalogue.read),
    Kind("skill", skill.SHAPE, skill.fits, skill.read),
    Kind("openapi", openapi.SHAPE, openapi.fits, openapi.read),
    Kind("a2a-card", a2a_card.SHAPE, a2a_card.fits, a2a_card.read),
    Kind("docker-catalog", docker_catalog.SHAPE, docker_catalog.fits, docker_catalog.read),
    Kind("tools-list", tools_list.SHAPE, tools_list.fits, tools_list.read),
    Kind("livemcpbench", livemcpbench.SHAPE, livemcpbench.fits, livemcpbench.read),
    Kind("mcp-config", mcp_config.SHAPE, mcp_config.fits, mcp_config.read, mcp_config.servers, live=True),
    Kind("mcp-registry", mcp_registry.SHAPE, mcp_registry.fits, mcp_registry.read, mcp_registry.servers),
    Kind("service-list", service_list.SHAPE, service_list.fits, service_list.read),
    Kind("server-lines", server_lines.SHAPE, server_lines.fits, server_lines.read),
)
"""In the order in which they are tried: what tells itself apart more plainly comes first."""


class UnknownShape(SourceError):
    """Content that was read, and is of no kind known."""


def known_kinds() -> tuple[Kind, ...]:
    """The built-in ones, then those of other packages."""
    return (*BUILT_IN, *_contributed().kinds)


def kind_of(document: object, where: str) -> Kind:
    """Raises UnknownShape."""
    for kind in BUILT_IN:
        if kind.fits(document):
            return kind
    if contributed := _contributed_kind_of(document, where):
        return contributed
    if document is None or document == Lines(()):
        # Not of unknown shape: it may have held agents a moment ago, and be half written.
        raise SourceError(where, "is empty")
    if isinstance(document, Lines) and (broken := [line for line in document.lines if line.fault]):
        # Not of unknown shape: what cannot be read may hold agents.
        raise SourceError(where, f"line {broken[0].number} {broken[0].fault}", pointer=f"L{broken[0].number}")
    if isinstance(document, Mapping) and "agents" in document:
        raise UnknownShape(where, "has `agents` but no `waygraph: 1`; add it if this is a catalogue", pointer="/")
    raise UnknownShape(
        where,
        f"no kind of source is known by this shape ({_top(document)}). Known: {_known_names()}; named outright, each "
        "says what it expects",
        pointer="/",
    )


def check_kind(name: str) -> None:
    """Raises InvalidSetting for a name that is not known."""
    if name != export.KIND and all(kind.name != name for kind in known_kinds()):
        raise InvalidSetting(f"{name!r} {_unknown()}")


def kind_named(name: str, document: object, where: str) -> Kind:
    """Raises SourceError for a name that is not known, and for a document that is not of this kind."""
    kind = next((kind for kind in known_kinds() if kind.name == name), None)
    if kind is None:
        raise SourceError(name, _unknown())
    if not kind.fits(document):
        raise of_another_kind(name, kind.shape, document, where)
    return kind


def of_another_kind(name: str, shape: str, document: object, where: str) -> SourceError:
    """Why a document is not of the kind that a person named."""
    return SourceError(where, f"is not of the kind {name}: expected {shape}, found {_top(document)}", pointer="/")


def _contributed_kind_of(document: object, where: str) -> Kind | None:
    """One that fails keeps none of the others from fitting. Raises SourceError if one failed and none fits."""
    failed: list[SourceError] = []
    for kind in _contributed().kinds:
        try:
            if kind.fits(document):
                return kind
        except SourceError as error:
            failed.append(error)
    if failed:
        raise SourceError(where, "; ".join(error.reason for error in failed))
    return None


def _contributed() -> "Contributed":
    """Looked for when no built-in kind is meant: finding out which packages are installed takes its time."""
    from waygraph.ingest.sources.contributed import contributed

    return contributed()


def _unknown() -> str:
    return f"is no kind of source; known: {_known_names()}"


def _known_names() -> str:
    """The kinds, and which of other packages are not among them. An export holds other sources, and is no `Kind`."""
    return "; ".join([", ".join([*(kind.name for kind in known_kinds()), export.KIND]), *_contributed().faults])


def _top(document: object) -> str:
    if isinstance(document, Mapping):
        return f"an object with {', '.join(sorted(map(str, document))[:8]) or 'nothing in it'}"
    if isinstance(document, Lines):
        return f"JSON Lines, {_top(document.lines[0].value)} first" if document.lines else "no lines"
    if isinstance(document, list):
        return f"a list, {_top(document[0])} first" if document and not isinstance(document[0], list) else "a list"
    return f"a {type(document).__name__}"
