"""The kinds of document that are understood. The kind is told from the content; a person may name it instead.

A new kind is one module here and one line in `BUILT_IN_KINDS`, or one in another package and an entry point of the
group `waygraph.kinds` that gives a `Kind`. See docs/sources.md.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import EntryPoint
from typing import Any

from waygraph.ingest.manifest.records import AgentRecord, Intake, ServerEntry, ToolRecord
from waygraph.ingest.sources.formats import a2a_card, catalogue, listings, mcp_config, mcp_registry, openapi, skill
from waygraph.ingest.sources.parse import Lines
from waygraph.registry.model.errors import InvalidSetting, SourceError, WaygraphError
from waygraph.registry.model.plugins import Unfit, in_a_line, load_plugin, package_of, points

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
    Kind("docker-catalog", listings.DOCKER_SHAPE, listings.fits_docker, listings.read_docker),
    Kind(
        "desktop-bundle",
        mcp_config.BUNDLE_SHAPE,
        mcp_config.fits_bundle,
        mcp_config.read_bundle,
        mcp_config.servers_of_bundle,
        live=True,
    ),
    Kind("tools-list", listings.TOOLS_SHAPE, listings.fits_tools, listings.read_tools),
    Kind("livemcpbench", listings.LIVEMCPBENCH_SHAPE, listings.fits_livemcpbench, listings.read_livemcpbench),
    Kind("mcp-config", mcp_config.SHAPE, mcp_config.fits, mcp_config.read, mcp_config.servers, live=True),
    Kind("mcp-registry", mcp_registry.SHAPE, mcp_registry.fits, mcp_registry.read, mcp_registry.servers),
    Kind("service-list", listings.SERVICES_SHAPE, listings.fits_services, listings.read_services),
    Kind("server-lines", listings.LINES_SHAPE, listings.fits_lines, listings.read_lines),
)
"""In the order in which they are tried: what tells itself apart more plainly comes first."""


class UnknownShape(SourceError):
    """Content that was read, and is of no kind known."""


def known_kinds() -> tuple[Kind, ...]:
    """The built-in ones, then those of other packages."""
    return (*BUILT_IN_KINDS, *load_plugins().kinds)


def kind_of(document: object, where: str) -> Kind:
    """Raises UnknownShape."""
    for kind in BUILT_IN_KINDS:
        if kind.fits(document):
            return kind
    if plugin_kind := _contributed_kind_of(document, where):
        return plugin_kind
    if document is None or document == Lines(()):
        # Not of unknown shape: it may have held agents a moment ago, and be half written.
        raise SourceError(where, "is empty")
    if isinstance(document, Lines) and (faulty_lines := [line for line in document.lines if line.fault]):
        # Not of unknown shape: what cannot be read may hold agents.
        number = faulty_lines[0].number
        raise SourceError(where, f"line {number} {faulty_lines[0].fault}", pointer=f"L{number}")
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


def _contributed_kind_of(document: object, where: str) -> Kind | None:
    """One that fails keeps none of the others from fitting. Raises SourceError if one failed and none fits."""
    errors: list[SourceError] = []
    for kind in load_plugins().kinds:
        try:
            if kind.fits(document):
                return kind
        except SourceError as error:
            errors.append(error)
    if errors:
        raise SourceError(where, "; ".join(error.reason for error in errors))
    return None


def _unknown() -> str:
    return f"is no kind of source; known: {_known_names()}"


def _known_names() -> str:
    """The kinds, and which of other packages are not among them. An export holds other sources, and is no `Kind`."""
    return "; ".join(
        [", ".join([*(kind.name for kind in known_kinds()), catalogue.EXPORT_KIND]), *load_plugins().faults]
    )


def _top(document: object) -> str:
    if isinstance(document, Mapping):
        return f"an object with {', '.join(sorted(map(str, document))[:8]) or 'nothing in it'}"
    if isinstance(document, Lines):
        return f"JSON Lines, {_top(document.lines[0].value)} first" if document.lines else "no lines"
    if isinstance(document, list):
        return f"a list, {_top(document[0])} first" if document and not isinstance(document[0], list) else "a list"
    return f"a {type(document).__name__}"


GROUP = "waygraph.kinds"


@dataclass(frozen=True, slots=True)
class Plugins:
    """The kinds, by name, and a line for each entry point that gives none."""

    kinds: tuple[Kind, ...] = ()
    faults: tuple[str, ...] = ()


@cache
def load_plugins() -> Plugins:
    """Of the packages that are installed; read once, when no built-in kind is meant: it takes its time."""
    kinds = {kind.name: "Waygraph" for kind in BUILT_IN_KINDS}
    fit_kinds, faults = list[Kind](), list[str]()
    for point in points(GROUP):
        try:
            if (kind := _kind_of(point)).name in kinds:
                raise Unfit(f"{kinds[kind.name]} has a kind of that name")
        except Unfit as fault:
            faults.append(f"{point.name!r} of the package {package_of(point)} is left out: {in_a_line(fault)}")
            continue
        kinds[kind.name] = package_of(point)
        fit_kinds.append(_at_arms_length(kind, package_of(point)))
    return Plugins(tuple(sorted(fit_kinds, key=lambda kind: kind.name)), tuple(faults))


def _kind_of(point: "EntryPoint") -> Kind:
    """Raises Unfit."""
    if not isinstance(kind := load_plugin(point), Kind):
        raise Unfit(f"expected {point.value} to be a waygraph.ingest.sources.kinds.Kind, found {type(kind).__name__}")
    if kind.name != point.name:
        raise Unfit(f"its kind calls itself {kind.name!r}")
    return kind


# -- code of others, at arm's length ---------------------------------------------------------------


def _at_arms_length(kind: Kind, package: str) -> Kind:
    """The same kind, with SourceError in place of whatever else it raises."""
    blame = f"the kind {kind.name} of the package {package} failed"
    return replace(
        kind,
        fits=_judging(kind.fits, blame),
        read=_giving(kind.read, blame, _whole),
        servers=_giving(kind.servers, blame, partial(_of, ServerEntry)) if kind.servers else None,
    )


def _judging(fits: Callable[[Any], bool], blame: str) -> Callable[[Any], bool]:
    def judge(document: Any) -> bool:
        try:
            return bool(fits(document))
        except Exception as exc:
            raise _plugin_error("document", blame, exc) from exc

    return judge


def _giving[T](
    read: Callable[[Any, str, Intake], Iterator[T]], blame: str, sound: Callable[[T], T]
) -> Callable[[Any, str, Intake], Iterator[T]]:
    def give(document: Any, where: str, intake: Intake) -> Iterator[T]:
        try:
            yield from map(sound, read(document, where, intake))
        except WaygraphError:
            raise
        except Exception as exc:
            raise _plugin_error(where, blame, exc) from exc

    return give


def _whole(record: AgentRecord) -> AgentRecord:
    """With all its tools, however lazily they were to be had. Raises TypeError."""
    return replace(_of(AgentRecord, record), tools=tuple(_of(ToolRecord, tool) for tool in record.tools))


def _of[T](kind: type[T], value: T) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, found {type(value).__name__}")
    return value


def _plugin_error(where: str, blame: str, exc: Exception) -> SourceError:
    """Without the exception's own text, which may hold whatever the document holds."""
    return SourceError(where, f"{blame}: {type(exc).__name__}")
