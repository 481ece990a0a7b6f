"""Kinds of source that other packages bring, by entry points of the group `waygraph.kinds`. See docs/sources.md."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from waygraph.ingest.manifest import AgentRecord, Intake, ToolRecord
from waygraph.ingest.sources.kinds import BUILT_IN, Kind
from waygraph.ingest.upstream.launch import ServerEntry
from waygraph.registry.contributions import Unfit, in_a_line, loaded, package_of, points
from waygraph.registry.errors import SourceError, WaygraphError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "waygraph.kinds"


@dataclass(frozen=True, slots=True)
class Contributed:
    """The kinds, by name, and a line for each entry point that gives none."""

    kinds: tuple[Kind, ...] = ()
    faults: tuple[str, ...] = ()


@cache
def contributed() -> Contributed:
    """Of the packages that are installed; read once."""
    kinds = {kind.name: "Waygraph" for kind in BUILT_IN}
    taken, faults = list[Kind](), list[str]()
    for point in points(GROUP):
        try:
            kind = _kind_of(point)
            if kind.name in kinds:
                raise Unfit(f"{kinds[kind.name]} has a kind of that name")
        except Unfit as fault:
            faults.append(f"{point.name!r} of the package {package_of(point)} is left out: {in_a_line(fault)}")
            continue
        kinds[kind.name] = package_of(point)
        taken.append(_at_arms_length(kind, package_of(point)))
    return Contributed(tuple(sorted(taken, key=lambda kind: kind.name)), tuple(faults))


def _kind_of(point: "EntryPoint") -> Kind:
    """Raises Unfit."""
    kind = loaded(point)
    if not isinstance(kind, Kind):
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
        servers=_giving(kind.servers, blame, _server) if kind.servers else None,
    )


def _judging(fits: Callable[[Any], bool], blame: str) -> Callable[[Any], bool]:
    def judge(document: Any) -> bool:
        try:
            return bool(fits(document))
        except Exception as exc:
            raise _failed("document", blame, exc) from exc

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
            raise _failed(where, blame, exc) from exc

    return give


def _whole(record: AgentRecord) -> AgentRecord:
    """With all its tools, however lazily they were to be had. Raises TypeError."""
    return replace(_of(AgentRecord, record), tools=tuple(_of(ToolRecord, tool) for tool in record.tools))


def _server(server: ServerEntry) -> ServerEntry:
    return _of(ServerEntry, server)


def _of[T](kind: type[T], given: T) -> T:
    if not isinstance(given, kind):
        raise TypeError(f"expected {kind.__name__}, found {type(given).__name__}")
    return given


def _failed(where: str, blame: str, exc: Exception) -> SourceError:
    """Without the exception's own text, which may hold whatever the document holds."""
    return SourceError(where, f"{blame}: {type(exc).__name__}")
