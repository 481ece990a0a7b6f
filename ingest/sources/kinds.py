"""The kinds of document that are understood. The kind is told from the content; a person may name it instead.

A new kind is one module here and one line in `BUILT_IN`, or one in another package and an entry point of the group
`waygraph.kinds` that gives a `Kind`. See docs/sources.md.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from waygraph.ingest.manifest import AgentRecord, Intake
from waygraph.ingest.sources import a2a_card, catalogue, livemcpbench, openapi, skill, tools_list
from waygraph.ingest.upstream.launch import ServerEntry
from waygraph.registry.errors import SourceError


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
    Kind("tools-list", tools_list.SHAPE, tools_list.fits, tools_list.read),
    Kind("livemcpbench", livemcpbench.SHAPE, livemcpbench.fits, livemcpbench.read),
)
"""In the order in which they are tried: what tells itself apart more plainly comes first."""


class UnknownShape(SourceError):
    """Content that was read, and is of no kind known."""


def known_kinds() -> tuple[Kind, ...]:
    """The built-in ones, then those of other packages."""
    return BUILT_IN


def kind_of(document: object, where: str) -> Kind:
    """Raises UnknownShape."""
    for kind in known_kinds():
        if kind.fits(document):
            return kind
    if document is None:
        raise UnknownShape(where, "is empty")
    if isinstance(document, Mapping) and "agents" in document:
        raise UnknownShape(where, "has `agents` but no `waygraph: 1`; add it if this is a catalogue", pointer="/")
    known = "; ".join(f"{kind.name}: {kind.shape}" for kind in known_kinds())
    raise UnknownShape(
        where, f"no kind of source is known by this shape ({_top(document)}). Known: {known}", pointer="/"
    )


def kind_named(name: str, document: object, where: str) -> Kind:
    """Raises SourceError for a name that is not known, and for a document that is not of this kind."""
    kind = next((kind for kind in known_kinds() if kind.name == name), None)
    if kind is None:
        known = ", ".join(kind.name for kind in known_kinds())
        raise SourceError(name, f"is no kind of source; known: {known}")
    if not kind.fits(document):
        raise SourceError(
            where, f"is not of the kind {name}: expected {kind.shape}, found {_top(document)}", pointer="/"
        )
    return kind


def _top(document: object) -> str:
    if isinstance(document, Mapping):
        return f"an object with {', '.join(sorted(map(str, document))[:8]) or 'nothing in it'}"
    return f"a {type(document).__name__}"
