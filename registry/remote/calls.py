"""A request as what is asked of a service, and the requests that only a service answers. Nothing here is sent."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, cast
from urllib.parse import urlencode

from waygraph.registry.catalog.find import rank_tools
from waygraph.registry.http.problems import error_of
from waygraph.registry.model import shapes, validation
from waygraph.registry.model.changes import Document, Page, Policy, SyncReport
from waygraph.registry.model.errors import InvalidQuery, SourceError, WaygraphError
from waygraph.registry.model.nouns import Principal, TextForm, ToolRoute
from waygraph.registry.model.tool_calls import RankedTool, RankedTools
from waygraph.registry.operations import table as operations
from waygraph.registry.operations.request import PartRequest, Request, path_segment
from waygraph.registry.operations.search import FindTools, SearchRequest

type Params = tuple[tuple[str, str], ...]
"""Of a query: names and values."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, whole. `headers` by their names in small letters."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """Raises ValueError, RecursionError for what is no JSON."""
        return json.loads(self.content)

    def text(self) -> str:
        """Raises ValueError for what is no UTF-8."""
        return self.content.decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call[T]:
    """`read` makes the answer of a good reply; whatever else it raises, KeyError, TypeError and ValueError mean that
    the reply is none.
    """

    method: str
    path: str
    params: Params = ()
    json: object = None
    """The body; None: there is none."""
    read: Callable[[Reply], T]
    safe: bool
    """Whether it changes nothing, so that it may be sent twice."""
    slow: bool = False
    """Whether the answer may take as long as a write does."""
    refused: Callable[[str], WaygraphError] = InvalidQuery
    """The error for a request that the service does not take as it is."""
    """Beside those of every call."""

    @property
    def target(self) -> str:
        """Path and query."""
        return f"{self.path}?{urlencode(self.params)}" if self.params else self.path

    @property
    def body(self) -> bytes | None:
        """JSON in ASCII: half of a surrogate pair stays what it is."""
        return None if self.json is None else json.dumps(self.json, separators=(",", ":"), allow_nan=False).encode()


@dataclass(frozen=True, slots=True)
class IngestReports:
    """What became of a source: a report for each manifest it held, up to the first that was not taken, and why."""

    reports: tuple[SyncReport, ...]
    error: WaygraphError | None = None

    def all(self) -> list[SyncReport]:
        """Raises the error if there is one."""
        if self.error:
            raise self.error
        return list(self.reports)


@dataclass(frozen=True, kw_only=True)
class RankTools(SearchRequest[RankedTools]):
    """As FindTools; each tool says whether it can run there, and why not."""

    operation = FindTools.operation

    def read(self, document: Any) -> RankedTools:
        route = self.as_asked(shapes.read(ToolRoute, document))
        return rank_tools((shapes.read(RankedTool, each) for each in document["matches"]), route)


class TakeOptions(TypedDict, total=False):
    """How documents are taken."""

    namespace: str
    kind: str
    policy: Policy | None
    texts: TextForm | None
    partial: bool
    """What the documents do not list is not removed."""
    dry_run: bool
    allow_mass_removal: bool


@dataclass(frozen=True, kw_only=True)
class Take(Request[IngestReports]):
    """What a source says now."""

    operation = operations.MANIFESTS

    documents: Sequence[Document]
    source: str
    options: TakeOptions

    @property
    def is_safe(self) -> bool:
        return self.options.get("dry_run", False)

    def sent_fields(self) -> dict[str, Any]:
        rows = [
            {"name": each.name, **({"unreadable": each.unreadable} if each.unreadable else {"text": each.text})}
            for each in self.documents
        ]
        return {"source": self.source, "documents": rows, **self.options}

    def refuse(self, reason: str) -> WaygraphError:
        return SourceError(self.source, reason)

    def read(self, document: Any) -> IngestReports:
        return _read_reports(document)


@dataclass(frozen=True, kw_only=True)
class SyncSource(Request[list[SyncReport]]):
    operation = operations.SYNC_SOURCE

    name: str

    def read(self, document: Any) -> list[SyncReport]:
        return _read_reports(document).all()


def refuse_principal(principal: Principal | None) -> None:
    """Raises InvalidQuery for one."""
    if principal is not None:
        raise InvalidQuery(
            "a service decides by the key that it is shown who asks, so nobody else can be named (a principal, or "
            "its groups): ask with that caller's key"
        )


def perform[A](request: Request[A], ask: Callable[[Call[Any]], Any]) -> A:
    """Asks a service for a list in parts, until there are as many as wanted or no more, and for all else at once.

    Raises UnknownName, InvalidQuery, InvalidSetting, and what `ask` does.
    """
    if not isinstance(request, PartRequest):
        return cast("A", ask(request_call(request)))
    items: list[Any] = []
    part_request, most = request, request.most
    while True:
        part = validation.MAX_PART if most is None else min(validation.MAX_PART, most - len(items))
        page: Page[Any] = ask(request_call(replace(part_request, limit=part)))
        items += page.items
        after, following = part_request.start, page.following
        goes_on = following and (not after or (following < after if request.is_falling else following > after))
        if not goes_on or len(items) == most:
            return cast("A", replace(page, items=tuple(items)))
        part_request = replace(part_request, cursor=validation.cursor(following))


def request_call[A](request: Request[A]) -> Call[A]:
    operation, values = request.operation, request.sent_fields()
    is_slow, has_body = operation.is_write or operation.is_slow, operation.method in ("POST", "PUT", "PATCH")

    def segment(match: re.Match[str]) -> str:
        name, collection = match[1], operation.path[: match.start()].split("/")[-2]
        value = str(values.pop(name, ""))
        if name == "tool_id" and "/" in value:
            owner, _, tool = value.partition("/")
            return f"{path_segment('agent', owner)}/{path_segment('tool', tool, value)}"
        noun = name.partition("_")[0] if "_" in name else collection.removesuffix("s")
        most = validation.MAX_NAME_CHARS if noun == "source" else validation.MAX_ID_CHARS
        whole = getattr(request, "name", "") if noun == "tool" else ""
        return path_segment(noun, value, whole, most_chars=most)

    path = re.sub(r"\{(\w+)(?::path)?\}", segment, operation.path)
    return Call(
        method=operation.method,
        path=path,
        params=() if has_body else tuple(_params_of(values)),
        json=values if has_body else None,
        read=lambda reply: request.read(reply.text() if operation.answer is str else reply.json()),
        safe=request.is_safe,
        slow=is_slow,
        refused=request.refuse,
    )


def _params_of(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        each_value = [value] if isinstance(value, str) or not isinstance(value, Iterable) else value
        yield from ((name, "true" if each is True else str(each)) for each in each_value)


def _read_reports(document: Mapping[str, Any]) -> IngestReports:
    problem = document["problem"]
    return IngestReports(
        tuple(map(shapes.read_report, document["reports"])), error_of(problem, "the service") if problem else None
    )
