"""A request is a value that knows its answer; a registry is whatever performs it.

A request is frozen. Its fields, with their limits and texts, are what a service takes; its class says where. A
registry that is here has it answer from its graph, and a client sends it (`remote.calls`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, cast
from urllib.parse import quote

from annotated_types import Ge, Le, MaxLen, MinLen

from waygraph.registry.access.visibility import Scope
from waygraph.registry.model import shapes
from waygraph.registry.model.changes import CypherResult, Page
from waygraph.registry.model.errors import InvalidQuery, InvalidSetting, UnknownName, WaygraphError
from waygraph.registry.model.identity import is_broken
from waygraph.registry.model.nouns import Principal, Route, ToolRoute
from waygraph.registry.model.shapes import Shape, TransportFilter
from waygraph.registry.model.validation import MAX_ID_CHARS, MAX_NAME_CHARS, MAX_PART, after, check_limit, cursor

if TYPE_CHECKING:
    from waygraph.registry.graph.engine import GraphSession
    from waygraph.registry.index.search_index import SearchIndex
    from waygraph.registry.model.pictures import Map
    from waygraph.registry.model.settings import Settings
    from waygraph.registry.model.usage import Count
    from waygraph.registry.routing.placement import Placement
    from waygraph.registry.writer import WriteSession

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Tag = Literal["search", "catalog", "admin", "cypher", "discovery", "health"]
ExportFormat = Literal["json", "graphml", "html"]
MEDIA_TYPES: Mapping[ExportFormat, str] = {
    "json": "application/json",
    "graphml": "application/graphml+xml",
    "html": "text/html",
}
"""Of an export's file."""


@dataclass(frozen=True, slots=True)
class Operation:
    """`scope`: what a caller needs; None: anybody may ask, also without a login.

    `answer`: the noun whose JSON it is, or the name of a class of `answer_shapes`; the type `str` of a file.
    """

    name: str
    method: Method
    path: str
    tag: Tag
    scope: Scope | None
    answer: type | str
    _: KW_ONLY
    whole: str = ""
    """What is asked for, where a caller who sees a part of the registry only is refused."""
    is_for_admin: bool = False
    """Whether a caller needs the scope `admin` too."""
    audit: tuple[str, str] | None = None
    """The action and the target (`str.format` of the request's fields), where the audit has it."""
    body: str = ""
    """Name of the request's schema in the OpenAPI document, where it has a body."""
    is_conditional: bool = False
    """Whether an answer has an ETag, and is not given again to a caller who has that of this revision."""
    is_write: bool = False
    """Whether it may change something, so that it is not sent twice."""
    is_slow: bool = False
    """Whether the answer may take as long as a write does."""
    is_recorded: bool = False
    """Whether the audit has it, also where the caller lacks the scope: who begins the record asks for the scope."""
    media_types: tuple[str, ...] = (MEDIA_TYPES["json"],)
    example: Mapping[str, Any] = field(default_factory=dict)
    """`answer`, and `request` where it takes a body, as JSON. Empty: `api/rest/examples.yaml` has it."""
    failures: Mapping[int, str] = field(default_factory=dict)
    """What may fail beside what may in every operation: HTTP status → when."""


def make_read(name: str, path: str, answer: type | str, *, tag: Tag = "catalog", **more: Any) -> Operation:
    return Operation(name, "GET", path, tag, "read", answer, is_conditional=True, **more)


def make_write(name: str, method: Method, path: str, answer: type | str, **more: Any) -> Operation:
    return Operation(name, method, path, "admin", "write", answer, is_write=True, **more)


Name = Annotated[str, MinLen(1), MaxLen(MAX_NAME_CHARS)]
Id = Annotated[str, MinLen(1), MaxLen(MAX_ID_CHARS)]


@dataclass(frozen=True, kw_only=True)
class Request[A]:
    """Its fields are named as in the service's path, address or body. The docstring of a class describes the operation
    in the OpenAPI document.
    """

    operation: ClassVar[Operation]
    noun: ClassVar[Any] = None
    """What the answer is read as. None: as the operation's answer."""
    refusal: ClassVar[type[WaygraphError] | None] = None
    """The error of `refuse`. None: InvalidQuery, InvalidSetting for a write."""

    @classmethod
    def request_kinds(cls) -> "Iterator[type[Request[Any]]]":
        """Those that are loaded and state an operation, in the order of their modules."""
        for kind in cls.__subclasses__():
            if "operation" in vars(kind):
                yield kind
            yield from kind.request_kinds()

    @property
    def is_safe(self) -> bool:
        """Whether it changes nothing, so that it may be sent twice."""
        return not self.operation.is_write

    def refuse(self, reason: str) -> WaygraphError:
        """The error where a service does not take the request as it is."""
        return (self.refusal or (InvalidSetting if self.operation.is_write else InvalidQuery))(reason)

    def answer(self, graph: "Graph", principal: Principal | None) -> A:
        """What a registry that is here says. `principal`: in whose name; None: of one who sees everything.

        NotImplementedError: only a service answers it.
        """
        raise NotImplementedError

    def sent_fields(self) -> dict[str, Any]:
        """What is sent: not what is as it is by default, since a service of before may not know it."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        defaults = {each.name: each.default for each in fields(self)}
        return {name: value for name, value in values.items() if value not in (defaults[name], {})}

    def audit_details(self) -> Mapping[str, object]:
        """What the audit has of the request beside its target."""
        return {}

    def write(self, answer: A, transport: TransportFilter = None) -> Shape:
        """The answer as JSON. `transport`: what of an agent's transport is shown; None: all of it."""
        return shapes.shape(answer)

    def read(self, document: Any) -> A:
        """The answer of its JSON. Raises ValueError, KeyError, TypeError for what is none."""
        return cast("A", shapes.read(cast("type", self.noun or self.operation.answer), document))


@dataclass(frozen=True, kw_only=True)
class ListRequest[T](Request[list[T]]):
    """Answered by a list under a name."""

    listing: ClassVar[str]

    def write(self, answer: list[T], transport: TransportFilter = None) -> Shape:
        return {self.listing: list(map(shapes.shape, answer))}

    def read(self, document: Any) -> list[T]:
        return [cast("T", shapes.read(self.noun, each)) for each in document[self.listing]]


ALL = 0
"""In place of a limit: no part, but all."""


def checked_most(limit: int | None) -> int:
    """The limit of a part; ALL for None. Raises InvalidQuery."""
    if limit is not None:
        check_limit(limit)
    return limit or ALL


def place_of(page: Page[Any]) -> Shape:
    """Of which revision a part of a list is, and the `cursor` of the next one; empty: this is the last."""
    return {"revision": page.revision, "following": cursor(page.following)}


@dataclass(frozen=True, kw_only=True)
class PartRequest[T](Request[Page[T]]):
    """Answered by a part of a list in order of id, or as `is_falling` says in falling order."""

    listing: ClassVar[str]
    is_falling: ClassVar[bool] = False

    limit: Annotated[int, Ge(1), Le(MAX_PART)] = 100
    """How many to give at most."""
    cursor: Annotated[str, MaxLen(4096)] = ""
    """`following` of the part before."""

    @property
    def start(self) -> str:
        """The id after which the part begins. Raises InvalidQuery."""
        return after(self.cursor)

    @property
    def most(self) -> int | None:
        return None if self.limit == ALL else self.limit

    def write_item(self, item: T, transport: TransportFilter) -> Shape:
        return shapes.shape(item)

    def read_item(self, document: Any) -> T:
        return cast("T", shapes.read(self.noun, document))

    def write(self, answer: Page[T], transport: TransportFilter = None) -> Shape:
        return {self.listing: [self.write_item(each, transport) for each in answer], **place_of(answer)}

    def read(self, document: Any) -> Page[T]:
        items = tuple(map(self.read_item, document[self.listing]))
        try:
            following = after(document["following"])
        except InvalidQuery as error:  # what the service says is at fault, not who asks
            raise ValueError(document["following"]) from error
        return Page(items=items, revision=document["revision"], following=following)


def path_segment(noun: str, name: str, whole: str = "", *, most_chars: int = MAX_ID_CHARS) -> str:
    """A name as part of a path. Raises UnknownName for what no path can hold, and nothing is called.

    Dots are escaped too: `..` would mean another path.
    """
    if not name or len(name) > most_chars or is_broken(name) or (noun == "agent" and "/" in name):
        raise UnknownName(noun, whole or name, ())
    return quote(name, safe="").replace(".", "%2E")


class Performer(Protocol):
    """A registry, as what performs requests."""

    def perform[A](self, request: Request[A], principal: Principal | None = None) -> A:
        """`principal`: in whose name; None: of one who sees everything. Raises what the request's function says."""
        ...


class Graph(Protocol):
    """The graph of a registry that is here, as a request is answered over it."""

    @property
    def settings(self) -> "Settings": ...

    @property
    def location(self) -> str: ...

    def look[T](self, work: "Callable[[SearchIndex], T]") -> T: ...

    def read[T](self, work: "Callable[[GraphSession], T]") -> T: ...

    def change_existing[T](self, work: "Callable[[WriteSession], T]") -> T: ...

    def run_cypher(self, statement: str, params: Mapping[str, object]) -> "CypherResult": ...

    def export(self, format: Any) -> str: ...  # noqa: A002 - what every caller calls it

    def draw_map(self, principal: Principal | None) -> "Map": ...

    def rank_agents(self, request: Any, principal: Principal | None) -> Route: ...

    def rank_tools(self, request: Any, principal: Principal | None) -> ToolRoute: ...

    def place(self, request: Any, principal: Principal | None) -> "Placement": ...

    def usage_counts(self, of: str, days: int = 0) -> "list[Count]": ...
