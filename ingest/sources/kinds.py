"""The kinds of document that are understood. The kind is told from the content; a person may name it instead.

A new kind is one module here and one line in `BUILT_IN_KINDS`, or one in another package and an entry point of the
group `waygraph.kinds` that gives a `Kind`. See docs/sources.md.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from waygraph.ingest.manifest.records import AgentRecord, Intake, ServerEntry
from waygraph.ingest.sources.formats import a2a_card, catalogue, listings, mcp_config, mcp_registry, openapi, skill
from waygraph.registry.model.errors import InvalidSetting, SourceError
from waygraph.registry.model.plugins import blaming, find_plugin, names

REGISTRY_PREFIX = "mcp-registry:"
"""Before the address of an MCP registry; alone it is the official one."""


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


BUILT_IN_KINDS = (
    Kind("catalogue", catalogue.SHAPE, catalogue.fits, catalogue.read),
    Kind("skill", skill.SHAPE, skill.fits, skill.read),
    Kind("openapi", openapi.SHAPE, openapi.fits, openapi.read),
    Kind("a2a-card", a2a_card.SHAPE, a2a_card.fits, a2a_card.read),
    Kind(
        "desktop-bundle",
        mcp_config.BUNDLE_SHAPE,
        mcp_config.fits_bundle,
        mcp_config.read_bundle,
        mcp_config.servers_of_bundle,
        live=True,
    ),
    Kind("tools-list", listings.TOOLS_SHAPE, listings.fits_tools, listings.read_tools),
    Kind("mcp-config", mcp_config.SHAPE, mcp_config.fits, mcp_config.read, mcp_config.servers, live=True),
    Kind("mcp-registry", mcp_registry.SHAPE, mcp_registry.fits, mcp_registry.read, mcp_registry.servers),
)
"""In the order in which they are tried: what tells itself apart more plainly comes first."""


class UnknownShape(SourceError):
    """Content that was read, and is of no kind known."""


def known_kinds() -> Iterator[Kind]:
    """The built-in ones, then those of other packages."""
    yield from BUILT_IN_KINDS
    yield from load_plugins()


def kind_of(document: object, where: str) -> Kind:
    """Raises UnknownShape."""
    if kind := next((kind for kind in known_kinds() if kind.fits(document)), None):
        return kind
    if document is None:
        # Not of unknown shape: it may have held agents a moment ago, and be half written.
        raise SourceError(where, "is empty")
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
    if name != catalogue.EXPORT_KIND and all(kind.name != name for kind in known_kinds()):
        raise InvalidSetting(f"{name!r} {_unknown()}")


def kind_named(name: str, document: object, where: str) -> Kind:
    """Raises SourceError for a name that is not known, and for a document that is not of this kind."""
    if (kind := next((kind for kind in known_kinds() if kind.name == name), None)) is None:
        raise SourceError(name, _unknown())
    if not kind.fits(document):
        raise of_another_kind(name, kind.shape, document, where)
    return kind


def of_another_kind(name: str, shape: str, document: object, where: str) -> SourceError:
    """Why a document is not of the kind that a person named."""
    return SourceError(where, f"is not of the kind {name}: expected {shape}, found {_top(document)}", pointer="/")


def _unknown() -> str:
    return f"is no kind of source; known: {_known_names()}"


def _known_names() -> str:
    """An export holds other sources, and is no `Kind`."""
    return ", ".join([*(kind.name for kind in known_kinds()), catalogue.EXPORT_KIND])


def _top(document: object) -> str:
    if isinstance(document, Mapping):
        return f"an object with {', '.join(sorted(map(str, document))[:8]) or 'nothing in it'}"
    if isinstance(document, list):
        return f"a list, {_top(document[0])} first" if document and not isinstance(document[0], list) else "a list"
    return f"a {type(document).__name__}"


GROUP = "waygraph.kinds"


@cache
def load_plugins() -> tuple[Kind, ...]:
    """Of the packages that are installed, by name; read once, when no built-in kind is meant: it takes its time.

    Raises InvalidSetting for one that cannot be loaded.
    """
    return tuple(map(_open_plugin, sorted(names(GROUP))))


def _open_plugin(name: str) -> Kind:
    """The same kind, with SourceError in place of whatever else it raises. Raises InvalidSetting."""
    kind, label = find_plugin(GROUP, name, "kind", InvalidSetting)
    if not isinstance(kind, Kind):
        raise InvalidSetting(f"{label}: expected a waygraph.ingest.sources.kinds.Kind, found {type(kind).__name__}")
    blame = blaming(label, partial(SourceError, "document"))
    return replace(kind, fits=blame(kind.fits), read=blame(lambda *of: iter([*kind.read(*of)])))
